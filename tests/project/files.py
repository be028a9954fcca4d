"""The project's own files, read once, for the tests of the project."""

import re
import tomllib
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BESIDE = {"lab": "tocsin_lab", "examples": "tocsin_examples"}  # folder -> package


@cache
def pyproject(folder: str = ".") -> dict[str, Any]:
    """Return the pyproject.toml of the product, or of what lies beside it."""
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))


def declared_dependencies(*folders: str) -> list[str]:
    """Return the normalised names of all dependencies of these distributions, or of all; extras included."""
    lines: list[str] = []
    for folder in folders or (".", *BESIDE):
        project = pyproject(folder)["project"]
        lines += [*project["dependencies"], *chain.from_iterable(project.get("optional-dependencies", {}).values())]
    names = {normalise(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]) for line in lines}
    return sorted(name for name in names if name != "tocsin")


def normalise(name: str) -> str:
    """Return a distribution's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
