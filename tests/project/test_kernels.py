"""Compiled functions take few arguments: what belongs together is one named tuple, or one workspace."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.project.files import ROOT

SOURCES = ROOT / "src" / "tocsin"
COMPILED = {"kernel", "lean_kernel", "helper", "inlined", "njit", "jit"}
MOST = 8


def compiled_functions() -> Iterator[tuple[str, int]]:
    """Each function that Numba compiles, and how many parameters it has."""
    for file in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and any(_name(by) in COMPILED for by in node.decorator_list):
                yield f"{file.relative_to(SOURCES)}: {node.name}", len(node.args.args) + len(node.args.kwonlyargs)


def _name(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2]


def test_compiled_functions_have_few_parameters() -> None:
    found = dict(compiled_functions())
    assert len(found) > 100  # the decorators are still called so
    assert {name: count for name, count in found.items() if count > MOST} == {}
