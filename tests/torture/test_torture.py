"""A short run of the torture, in processes of its own: it forks, and a forked test runner is no place to be killed in."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.databases import start_postgres
from tests.project.files import ROOT

CYCLES = "20"


def torture(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.torture", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_killed_again_and_again_it_loses_nothing_and_stores_nothing_twice(database: str) -> None:
    if database == "postgres":
        skip_without_postgres()
    run = torture("--cycles", CYCLES, "--database", database)
    assert run.returncode == 0, run.stdout + run.stderr


def test_control_late_commits_are_found_out() -> None:
    run = torture("--cycles", CYCLES, "--control")
    assert "the test can fail" in run.stdout, run.stdout + run.stderr


def skip_without_postgres() -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = start_postgres(Path(folder) / "data")
        if isinstance(server, str):
            pytest.skip(f"no PostgreSQL can be started here: {server}")
        server.cleanup()
