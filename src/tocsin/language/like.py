"""What `like` means: % is any text, _ any one character, and a backslash takes the next character as it is.

The pattern is cut at its % into pieces of fixed length, which are looked for from left to right, the first and the
last at the ends. Taking the leftmost place for each piece never spoils a match, so nothing is tried twice: the time
is at most text times pattern, whatever the pattern.
"""

from __future__ import annotations

import re
from functools import lru_cache

Pieces = tuple[re.Pattern[str], ...]


def is_like(text: str, pattern: str) -> bool:
    """Return whether the whole text is like the pattern."""
    pieces = _pieces(pattern)
    if len(pieces) == 1:
        return pieces[0].fullmatch(text) is not None
    first = pieces[0].match(text)
    if first is None:
        return False
    at = first.end()
    for piece in pieces[1:-1]:
        found = piece.search(text, at)
        if found is None:
            return False
        at = found.end()
    return _ends_with(pieces[-1], text, at)


def _ends_with(piece: re.Pattern[str], text: str, at: int) -> bool:
    """Return whether the text, from `at` on, ends with the piece."""
    start = len(text) - _length(piece)
    return start >= at and piece.fullmatch(text, start) is not None


@lru_cache(maxsize=10_000)
def _pieces(pattern: str) -> Pieces:
    """Return the pieces between the % of the pattern; one more than there are %."""
    pieces, piece, at = [], "", 0
    while at < len(pattern):
        char = pattern[at]
        if char == "%":
            pieces.append(piece)
            piece = ""
        elif char == "_":
            piece += "."
        else:
            if char == "\\" and at + 1 < len(pattern):
                at += 1
            piece += re.escape(pattern[at])
        at += 1
    return tuple(re.compile(found, re.DOTALL) for found in [*pieces, piece])


@lru_cache(maxsize=10_000)
def _length(piece: re.Pattern[str]) -> int:
    """Return how many characters a piece matches: an escaped character counts once."""
    return len(re.sub(r"\\(.)", r"\1", piece.pattern, flags=re.DOTALL))


def split_prefix(pattern: str) -> tuple[str, str]:
    """Return the text that everything like the pattern starts with, and the rest of the pattern."""
    prefix, at = "", 0
    while at < len(pattern) and pattern[at] not in "%_":
        if pattern[at] == "\\" and at + 1 < len(pattern):
            at += 1
        prefix += pattern[at]
        at += 1
    return prefix, pattern[at:]
