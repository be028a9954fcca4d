"""The wheels hold what they should: tocsin's the product and nothing else; what lies beside it has its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from tests.project.files import BESIDE, ROOT, declared_dependencies

# What somebody gets who installs tocsin. Papers, workloads and examples have distributions of their own.
PRODUCT = {
    *("__init__.py", "__main__.py", "py.typed", "errors.py", "plugins.py"),
    *("schema", "language", "compile", "index", "matching", "operators", "offers"),
    *("store", "broker", "xml", "pipeline", "spark", "service", "client", "cli"),
}


def packed(folder: Path) -> list[Path]:
    """Return the paths of the files that hatchling would pack."""
    return [Path(file.distribution_path) for file in WheelBuilder(str(folder)).recurse_included_files()]


def second(paths: Iterable[Path]) -> set[str]:
    return {path.parts[1] for path in paths}


def test_the_wheel_of_tocsin_is_exactly_the_product() -> None:
    found = packed(ROOT)
    assert {path.parts[0] for path in found} == {"tocsin"}
    assert second(found) == PRODUCT
    assert not any("test" in part for path in found for part in path.parts)


@pytest.mark.parametrize("folder", BESIDE)
def test_what_lies_beside_has_a_wheel_of_its_own(folder: str) -> None:
    found = packed(ROOT / folder)
    assert {path.parts[0] for path in found} == {BESIDE[folder]}
    assert {"__init__.py", "py.typed", "cli"} <= second(found)


def test_everything_that_a_wheel_needs_beside_code_is_packed() -> None:
    found = {str(path) for path in packed(ROOT)}
    assert {"tocsin/language/grammar.lark", "tocsin/schema/examples/auction.toml"} <= found
    assert any(path.endswith(".html") for path in found)
    assert "tocsin/pipeline/packaged_java/bin/java" in found
    assert "tocsin_examples/hammer.toml" in {str(path) for path in packed(ROOT / "examples")}


@pytest.mark.parametrize("name", BESIDE.values())
def test_nothing_of_the_product_imports_what_lies_beside_it(name: str) -> None:
    # As text, since an import may also be a string.
    product = ROOT / "src" / "tocsin"
    assert [path for path in product.rglob("*.py") if name in path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("folder", BESIDE)
def test_what_lies_beside_needs_nothing_that_the_lock_is_not_made_from(folder: str) -> None:
    assert set(declared_dependencies(folder)) <= set(declared_dependencies("."))
