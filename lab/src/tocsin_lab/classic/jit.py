"""Decorators for compiled functions, as in index/jit.py: `kernel` for what Python calls, `helper` for what kernels call.

A kernel takes arrays of several types, which Python cannot say; so its parameters bear no types, and to the type
checker a compiled function is one that takes and returns anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.index import jit


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function compiled for its argument types at first call, and cached on disk."""
    return jit.kernel(function)


def helper(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function compiled into the kernels that call it."""
    return jit.helper(function)
