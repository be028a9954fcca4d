"""The architecture holds: imports follow the layers of pyproject.toml."""

import contextlib
import io
import re
from typing import Any

from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

from tests.project.files import ROOT, pyproject

LOWEST_LAYER_OUTSIDE_THE_CORE = "store"


def contract(name: str) -> dict[str, Any]:
    """Return the import-linter contract of this id."""
    contracts: list[dict[str, Any]] = pyproject()["tool"]["importlinter"]["contracts"]
    return next(found for found in contracts if found["id"] == name)


def layers() -> list[str]:
    """Return the names of all layers, highest first."""
    return re.findall(r"\w+", " ".join(contract("layers")["layers"]))


def test_every_import_contract_is_kept() -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True, no_logo=True)
    assert status == EXIT_STATUS_SUCCESS, output.getvalue()


def test_every_layer_of_the_core_is_kept_free_of_spark_web_and_database() -> None:
    # The forbidden contract has no optional modules, so a new layer must be added to it by hand.
    core = layers()[layers().index(LOWEST_LAYER_OUTSIDE_THE_CORE) + 1 :]
    package = ROOT / "src" / "tocsin"
    existing = {f"tocsin.{name}" for name in core if (package / name).is_dir() or (package / f"{name}.py").exists()}
    assert set(contract("core")["source_modules"]) == existing
