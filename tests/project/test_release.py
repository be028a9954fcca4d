"""Workflows, pre-commit and the release: they name what is there, and a release is what its tag says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.project.files import ROOT, pyproject
from tools import release

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CI = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Give a copy of the files that say the version, all of which say 0.2.0."""
    for file in (*release.VERSIONED, "CHANGELOG.md"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    for file in release.VERSIONED:
        (tmp_path / file).write_text('__version__ = "0.2.0"\n')
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(
        "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2027-01-01\n\n- One thing.\n\n## [0.1.0]\n\n- No.\n"
    )
    return tmp_path


def test_a_tag_that_agrees_with_everything_is_a_release(repository: Path) -> None:
    assert release.problems("v0.2.0", repository) == []
    assert release.notes("0.2.0", repository) == "- One thing."


@pytest.mark.parametrize(
    ("tag", "what"), [("v0.3.0", "says 0.2.0, the tag 0.3.0"), ("0.2", "is no version"), ("v0.9.0", "no section")]
)
def test_a_tag_that_does_not_is_none(repository: Path, tag: str, what: str) -> None:
    assert any(what in one for one in release.problems(tag, repository))


def test_the_bill_of_materials_has_every_pin_with_its_hashes() -> None:
    lock = (ROOT / "deploy" / "requirements.lock").read_text(encoding="utf-8")
    found = release.sbom(lock, "0.1.0")["components"]
    assert len(found) == len(re.findall(r"^[A-Za-z0-9._-]+==", lock, re.MULTILINE))
    assert all(one["hashes"] for one in found)
    assert {"numba", "starlette", "psycopg"} <= {one["name"] for one in found}


def test_the_matrix_has_every_python_that_the_package_declares() -> None:
    declared = [
        one.rpartition(" ")[2] for one in pyproject()["project"]["classifiers"] if re.search(r":: 3\.\d+$", one)
    ]
    assert CI["jobs"]["test"]["strategy"]["matrix"]["python"] == declared
    assert set(CI["jobs"]["test"]["strategy"]["matrix"]["os"]) == {"ubuntu-latest", "macos-latest"}


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_run_what_is_there_with_few_rights(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    targets = set(re.findall(r"^([a-z0-9]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            for target in re.findall(r"\bmake ([a-z0-9]+)", step.get("run", "")):
                assert target in targets
            assert "@" in step.get("uses", "@")


def test_hooks_before_a_commit_run_programs_of_the_environment() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    for hook in local["hooks"]:
        assert hook["entry"].startswith(".venv/bin/")
        for script in re.findall(r"tools[./]\w+", hook["entry"]):
            assert (ROOT / script.removesuffix(".py").replace(".", "/")).with_suffix(".py").exists()
