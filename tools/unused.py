"""What is defined in `src/` and used by nothing that runs: functions, classes and fields that only tests name, or nobody.

    python -m tools.unused

A use is a name, an attribute or a word of a short text in `src/`, `lab/src`, `examples/src`, `benchmarks/`, `tools/` or a page's
template. Handlers of routes, pages and commands are called by their decorators. What is listed is a place to look: it may
be called by a library (`_repr_html_`), or be for users, which the count of mentions in `docs/` hints at.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RUNS = ("src", "lab/src", "examples/src", "benchmarks", "tools")
TESTS = ("tests", "lab/tests", "examples/tests")
_WORD = re.compile(r"[A-Za-z_]\w*")
_CALLED = re.compile(r"\b(routes|pages|app|index_app|overload)\b")


class Definition(NamedTuple):
    """Something with a name, and where it stands."""

    file: Path
    node: ast.stmt
    name: str


def main() -> None:
    """Print what is not used."""
    used, tested = uses(RUNS), uses(TESTS)
    used += words(ROOT.glob("src/**/*.html"))
    documented = words(ROOT.glob("docs/*.md")) + words(ROOT.glob("docs/howto/*.md"))
    for one in definitions():
        if not used[one.name]:
            lines = (one.node.end_lineno or one.node.lineno) - one.node.lineno + 1
            place = f"{one.file.relative_to(ROOT)}:{one.node.lineno}"
            print(f"{lines:4} lines  {one.name:28} tests {tested[one.name]:3}  docs {documented[one.name]:3}  {place}")


def uses(folders: Iterable[str]) -> Counter[str]:
    """Return how often each name is used in the modules of some folders."""
    found: Counter[str] = Counter()
    for folder in folders:
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    found[node.id] += 1
                elif isinstance(node, ast.Attribute):
                    found[node.attr] += 1
                elif (
                    isinstance(node, ast.Constant) and isinstance(node.value, str) and not re.search(r"\s", node.value)
                ):
                    found.update(_WORD.findall(node.value))
    return found


def words(files: Iterable[Path]) -> Counter[str]:
    """Return how often each word stands in some texts."""
    return Counter(word for file in files for word in _WORD.findall(file.read_text(encoding="utf-8")))


def definitions() -> Iterator[Definition]:
    """Yield what the product defines, but for migrations and what decorators call."""
    for file in sorted((ROOT / "src").rglob("*.py")):
        if "migrations" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                called = any(_CALLED.search(ast.unparse(each)) for each in node.decorator_list)
                if not called and not node.name.startswith("__"):
                    yield Definition(file, node, node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield Definition(file, node, node.target.id)


if __name__ == "__main__":
    main()
