"""What a compiled kernel is made of: its own module, and all that this imports of its package and of Tocsin.

Numba takes a kernel from its cache as long as the kernel's own file is the same, though helpers, constants and layouts
of other files are compiled into it. So jit.py adds the key below to what Numba compares. A change to a file compiles the
kernels anew that it reaches, wherever they lie, and no others.

    python -m tocsin.index.kernel_sources     prints the key of all kernels of Tocsin: tools/venv.py warms up by it

Imports are found in the text, since every start that uses a kernel pays for this, and parsing would cost more than all
the rest. Only those at the beginning of a line count: what a function imports, or the type checker, is in no kernel.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_IMPORT = re.compile(r"^(?:from ([\w.]+) import (\([^)]*\)|[^\n]*)|import ([\w.]+))", re.MULTILINE)
_WORD = re.compile(r"\w+")
_DECORATED = re.compile(r"^\s*@(?:kernel|lean_kernel|helper|inlined)$", re.MULTILINE)


@cache
def key_of(module: str) -> str:
    """Return the key of the kernels of a module: its sources, and the versions of their packages."""
    digest = hashlib.sha256()
    sources = sources_of(module)
    for package in sorted({name.partition(".")[0] for name in sources}):
        digest.update(f"{package} {getattr(sys.modules.get(package), '__version__', '')}\n".encode())
    for name in sorted(sources):
        digest.update(f"{name} {_digest(name)}\n".encode())
    return digest.hexdigest()


def sources_of(module: str) -> set[str]:
    """Return the names of the modules that a module's kernels are made of."""
    packages = {module.partition(".")[0], "tocsin"}
    found: set[str] = set()
    left = [module]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += (other for other in _imports(name) if other.partition(".")[0] in packages)
    return found


def kernel_modules(package: str) -> list[str]:
    """Return the modules of a package that have kernels, or parts of kernels, by the decorators of jit.py."""
    folder = Path(sys.modules[package].__path__[0])
    names = (".".join((package, *path.relative_to(folder).with_suffix("").parts)) for path in folder.rglob("*.py"))
    return sorted(name for name in names if _DECORATED.search(_text(name)))


@cache
def _imports(module: str) -> tuple[str, ...]:
    """Return the modules that a module imports when it is imported, as far as they have a file."""
    return tuple(dict.fromkeys(name for name in _named(_text(module)) if _file(name) is not None))


def _named(text: str) -> Iterator[str]:
    for origin, names, alone in _IMPORT.findall(text):
        yield origin or alone
        if origin:  # each of the names may be a module
            yield from (f"{origin}.{name}" for name in _WORD.findall(names))


@cache
def _digest(module: str) -> str:
    return hashlib.sha256(_text(module).encode()).hexdigest()


@cache
def _text(module: str) -> str:
    file = _file(module)
    return "" if file is None else file.read_text(encoding="utf-8")


@cache
def _file(module: str) -> Path | None:
    """Return the file of a module, which need not be imported yet if its package is."""
    package, *rest = module.split(".")
    for folder in getattr(sys.modules.get(package), "__path__", ()):
        path = Path(folder, *rest)
        for file in (path / "__init__.py", path.parent / f"{path.name}.py"):
            if file.is_file():
                return file
    own = getattr(sys.modules.get(module), "__file__", None)
    return None if own is None or not own.endswith(".py") else Path(own)


if __name__ == "__main__":
    keys = " ".join(key_of(name) for name in kernel_modules("tocsin"))
    print(hashlib.sha256(keys.encode()).hexdigest())  # noqa: T201
