"""The built-in operators, one module a subject; each imports its heavy packages when it is first called.

spatial   named regions, distances on the ellipsoid, nearest places
"""

from __future__ import annotations

from tocsin.operators.operator import Operator


def builtin_operators() -> list[Operator]:
    """Return the built-in operators, as they are without settings."""
    return []
