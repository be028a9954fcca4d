"""Decorators for compiled functions: `kernel` and `lean_kernel` for what Python calls, `helper` and `inlined` for the rest.

Only kernels are cached on disk, so that a cold start loads a handful of files. All release the GIL. They keep the
Python signature for the type checker; index/ and matching/columnar/ use nothing else of Numba but columnar/bits.py.

Numba counts references to arrays, by atomic additions at each call that takes arrays: 200 ns for a call with thirty.
Lean kernels count none. So they may not make arrays, only use and slice those that they are given, and what they call
may not return arrays, unless it is inlined.

Numba takes a kernel from its cache as long as the file of the kernel is the same, though the helpers and the layout that
are compiled into it may lie in others. So what the cache is good for is told by all of them (kernel_cache.py). Where it
is, is said by kernel_cache.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba

from tocsin.index import kernel_cache
from tocsin.index.kernel_cache import key_of

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def _cached(function: F, **options: Any) -> F:
    compiled = kernel_cache.compiled(function, nogil=True, error_model="numpy", **options)
    file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if file is not None:  # where Numba compiles, and has a place to keep what it compiled
        file._source_stamp = (file._source_stamp, key_of(function.__module__))
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
