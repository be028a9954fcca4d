"""Decorators for compiled functions: `kernel` for what Python calls, `helper` and `inlined` for what kernels call.

Only kernels are cached on disk, so that a cold start loads a handful of files. Both release the GIL. They keep the
Python signature for the type checker; index/ and matching/columnar/ use nothing else of Numba but index/bits.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import numba

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

F = TypeVar("F", bound="Callable[..., Any]")


def kernel(function: F) -> F:
    """Return the function compiled for its argument types at first call, and cached on disk."""
    return cast("F", numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def helper(function: F) -> F:
    """Return the function compiled into the kernels that call it."""
    return cast("F", numba.njit(nogil=True, error_model="numpy")(function))


def inlined(function: F) -> F:
    """Return the function compiled into its callers statement by statement, for those that take many arrays."""
    return cast("F", numba.njit(inline="always")(function))
