"""Where compiled kernels are kept: where Numba finds a place, else in a temporary folder of this user, else nowhere.

Numba's places are NUMBA_CACHE_DIR, the folder of the source, and the user's cache folder. A process without any of them
(packages that cannot be written to, no home) could not even import a kernel: Numba refuses to decorate it.

What a compiled kernel is made of: its own module, and all that this imports of its package and of Tocsin.

Numba takes a kernel from its cache as long as the kernel's own file is the same, though helpers, constants and layouts
of other files are compiled into it. So jit.py adds the key below to what Numba compares. A change to a file compiles the
kernels anew that it reaches, wherever they lie, and no others.

    python -m tocsin.index.kernel_cache     prints the key of all kernels of Tocsin: tools/venv.py warms up by it

Imports are found in the text, since every start that uses a kernel pays for this, and parsing would cost more than all
the rest. Only those at the beginning of a line count: what a function imports, or the type checker, is in no kernel.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Return the function, to be compiled at its first call and kept where there is a place."""
    import numba  # a second; whoever only wants to know the folder does without

    if not _has_stray_home(function):
        with suppress(RuntimeError):  # Numba has no place
            return numba.njit(cache=True, **options)(function)
    folder = _chosen_folder()
    if folder is not None:
        with suppress(RuntimeError), _numba_keeps_in(folder):
            return numba.njit(cache=True, **options)(function)
    return numba.njit(**options)(function)


def _has_stray_home(function: Callable[..., Any]) -> bool:
    """Return whether Numba would make a folder `~` in the current one, taking it for the home that nobody knows."""
    if _settings().CACHE_DIR or os.environ.get("XDG_CACHE_HOME"):
        return False
    if os.access(Path(function.__code__.co_filename).parent, os.W_OK):
        return False
    try:
        Path.home()
    except RuntimeError:  # neither HOME nor the list of users tells
        return True
    return False


@cache
def _chosen_folder() -> str | None:
    """Return the folder that takes the place of Numba's, and say so, once."""
    folder = temporary_folder()
    where = "are compiled anew by each process, which takes a minute" if folder is None else f"are kept in {folder}"
    log.warning(
        "compiled kernels cannot be kept beside their source nor in a home folder, so they %s; "
        "set NUMBA_CACHE_DIR to a folder that can be written to",
        where,
    )
    return folder


def temporary_folder() -> str | None:
    """Return a folder among the temporary ones that is this user's alone, the same each time; None where there is none.

    What is kept there is code that will be run: a folder that somebody else may write to is not taken.
    """
    user = os.getuid() if hasattr(os, "getuid") else "user"
    try:
        folder = Path(tempfile.gettempdir()) / f"tocsin-kernels-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or (os.name == "posix" and (found.st_uid != user or found.st_mode & 0o022)):
            return None
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return None
    return str(folder)


@contextmanager
def _numba_keeps_in(folder: str) -> Iterator[None]:
    """Let Numba keep what is decorated meanwhile in this folder; other packages' functions go where they always do."""
    settings = _settings()
    before = settings.CACHE_DIR
    settings.CACHE_DIR = folder
    try:
        yield
    finally:
        settings.CACHE_DIR = before


def _settings() -> Any:
    """Return Numba's settings, which have no types."""
    from numba import config

    return config


# What a compiled kernel is made of.


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
