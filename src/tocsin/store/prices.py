"""Prices: about how many bytes of memory a subscription takes, known from its stored form alone.

A few hundred bytes for being there, and about 200 for each constant: 150 lists of 6,000 constants took 188 MB. A rough
estimate, and the same one whenever it is asked for, so that quotas in this unit are exact.
"""

from __future__ import annotations

THERE = 256
CONSTANT = 200


def price_of(tree: bytes) -> int:
    """Return the price of a subscription in bytes, by its JSON tree; commas stand for constants."""
    return THERE + len(tree) + CONSTANT * tree.count(b",")
