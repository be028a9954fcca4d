"""Decorators for compiled functions: `kernel` and `lean_kernel` for what Python calls, `helper` and `inlined` for the rest.

Only kernels are cached on disk, so that a cold start loads a handful of files. All release the GIL. They keep the
Python signature for the type checker; index/ and matching/columnar/ use nothing else of Numba but columnar/bits.py.

Numba counts references to arrays, by atomic additions at each call that takes arrays: 200 ns for a call with thirty.
Lean kernels count none. So they may not make arrays, only use and slice those that they are given, and what they call
may not return arrays, unless it is inlined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def kernel(function: F) -> F:
    """Return the function compiled for its argument types at first call, and cached on disk."""
    return cast("F", numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def lean_kernel(function: F) -> F:
    """As kernel, without counting references: for kernels that make no arrays."""
    uncounted: dict[str, Any] = {"_nrt": False}  # the option has no place in Numba's stubs
    return cast("F", numba.njit(cache=True, nogil=True, error_model="numpy", **uncounted)(function))


def helper(function: F) -> F:
    """Return the function compiled into the kernels that call it."""
    return cast("F", numba.njit(nogil=True, error_model="numpy")(function))


def inlined(function: F) -> F:
    """Return the function compiled into its callers statement by statement, for those that take many arrays."""
    return cast("F", numba.njit(inline="always")(function))
