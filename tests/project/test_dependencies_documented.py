"""Every dependency is explained: why it is here, and what to look out for."""

import re

import pytest

from tests.project.files import ROOT, declared_dependencies


def documented_dependencies() -> set[str]:
    """Return the names in the first column of the tables of docs/dependencies.md."""
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    return set(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE))


@pytest.mark.parametrize("name", declared_dependencies())
def test_dependency_is_explained(name: str) -> None:
    assert name in documented_dependencies(), f"add a row for {name} to docs/dependencies.md"


def test_nothing_is_explained_that_is_not_a_dependency() -> None:
    assert documented_dependencies() <= set(declared_dependencies())
