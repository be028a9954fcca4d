"""What importing Tocsin costs: the heavy packages wait until they are needed."""

import subprocess
import sys

import pytest

HEAVY = ("pyspark", "starlette", "sqlalchemy", "numba", "llvmlite", "pyarrow", "duckdb", "matplotlib")


@pytest.mark.parametrize("package", HEAVY)
def test_import_tocsin_does_not_load(package: str) -> None:
    assert package not in modules_loaded_by("import tocsin")


def modules_loaded_by(statement: str) -> set[str]:
    """Return the names of the modules in a fresh interpreter after the statement."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())
