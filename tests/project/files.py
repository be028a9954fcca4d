"""The project's own files, read once, for the tests of the project."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@cache
def pyproject() -> dict[str, Any]:
    """Return pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def declared_dependencies() -> list[str]:
    """Return the normalised names of all dependencies in pyproject.toml, extras included."""
    project = pyproject()["project"]
    lines = [*project["dependencies"], *(line for group in project["optional-dependencies"].values() for line in group)]
    return sorted({normalise(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]) for line in lines})


def normalise(name: str) -> str:
    """Return a distribution's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
