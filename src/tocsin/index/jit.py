"""Decorators for compiled functions: `kernel` and `lean_kernel` for what Python calls, `helper` and `inlined` for the rest.

Only kernels are cached on disk, so that a cold start loads a handful of files. All release the GIL. They keep the
Python signature for the type checker; index/ and matching/columnar/ use nothing else of Numba but columnar/bits.py.

Numba counts references to arrays, by atomic additions at each call that takes arrays: 200 ns for a call with thirty.
Lean kernels count none. So they may not make arrays, only use and slice those that they are given, and what they call
may not return arrays, unless it is inlined.

Numba takes a kernel from its cache as long as the file of the kernel is the same, though the helpers and the layout that
are compiled into it may lie in others. So what the cache is good for is told by all of them (kernel_cache.py). Where it
is, is said by kernel_cache.py.

The first use after an install compiles for a minute or two: CompilingShown says so, on a terminal and in a notebook.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, cast

import numba
from numba.core import event

from tocsin.index import kernel_cache
from tocsin.index.kernel_cache import key_of

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


log = logging.getLogger(__name__)
_KERNELS: list[Any] = []


class CompilingShown(event.Listener):
    """Shows which kernel is being compiled, and for how long it has been going on, on one line that then goes away.

    On a terminal. In a notebook it is one line that stays; elsewhere a line of the log, of level info.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__()
        self._stream = stream
        self._kernels = 0
        self.done = 0  # kernels that were compiled
        self._depth = 0  # what a kernel calls is compiled within it
        self._seconds = 0.0
        self._started = 0.0

    def on_start(self, event: event.Event) -> None:
        self._depth += 1
        dispatcher = event.data["dispatcher"]
        if self._depth > 1 or not _is_kernel(dispatcher):
            return
        self._kernels += 1
        self._started = time.perf_counter()
        name, stream = dispatcher.py_func.__name__, self._stream or sys.stderr
        if stream.isatty():
            stream.write(f"\r\x1b[Ktocsin: compiling kernels, once: {self._kernels} ({name}), {self._seconds:.0f} s")
            stream.flush()
        elif self._kernels == 1:
            line = "compiling kernels, once after an install; this takes a minute or two (tocsin warm does it ahead)"
            if "ipykernel" in sys.modules:
                stream.write(f"tocsin: {line}\n")
            else:
                log.info(line)

    def on_end(self, event: event.Event) -> None:
        self._depth -= 1
        if self._depth or not _is_kernel(event.data["dispatcher"]):
            return
        self.done += 1
        self._seconds += time.perf_counter() - self._started
        stream = self._stream or sys.stderr
        if stream.isatty():
            stream.write("\r\x1b[K")
            stream.flush()


def _is_kernel(dispatcher: Any) -> bool:
    return getattr(dispatcher, "tocsin_kernel", False) is True


_SHOWN = CompilingShown()
event.register("numba:compile", _SHOWN)  # type: ignore[no-untyped-call]


def kernels_compiled() -> int:
    """Return how many kernels this process has compiled."""
    return _SHOWN.done


def kept_files() -> list[Path] | None:
    """Return the files of the kernels that are compiled and kept, of modules imported so far; None: there is no place."""
    places = [Path(found._cache.cache_path) for found in _KERNELS if getattr(found._cache, "cache_path", None)]
    if not places:
        return None
    stems = {Path(found._cache._cache_file._index_name).stem for found in _KERNELS}
    files = (file for place in dict.fromkeys(places) for file in sorted(place.glob("*.nbi")))
    return [file for file in files if file.stem in stems]


def kernel_folder() -> Path | None:
    """Return a folder in which kernels are kept; None where there is none."""
    return next((Path(path) for one in _KERNELS if (path := getattr(one._cache, "cache_path", None))), None)


def _cached(function: F, **options: Any) -> F:
    compiled = kernel_cache.compiled(function, nogil=True, error_model="numpy", **options)
    file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if hasattr(compiled, "py_func"):  # not where NUMBA_DISABLE_JIT
        compiled.tocsin_kernel = True
        _KERNELS.append(compiled)
    if file is not None:  # where Numba compiles, and has a place to keep what it compiled
        # Compared before anything else is read: what an older version kept may name classes that are gone.
        file._version = f"{file._version} {key_of(function.__module__)}"
    return cast("F", compiled)


def kernel(function: F) -> F:
    """Return the function compiled for its argument types at first call, and cached on disk."""
    return _cached(function)


def lean_kernel(function: F) -> F:
    """As kernel, without counting references: for kernels that make no arrays."""
    return _cached(function, _nrt=False)


def helper(function: F) -> F:
    """Return the function compiled into the kernels that call it."""
    return cast("F", numba.njit(nogil=True, error_model="numpy")(function))


def inlined(function: F) -> F:
    """Return the function compiled into its callers statement by statement, for those that take many arrays."""
    return cast("F", numba.njit(inline="always")(function))
