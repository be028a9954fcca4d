"""What `like` means: % is any text, _ any one character, and a backslash takes the next character as it is.

The pattern is cut at its % into pieces of fixed length, which are looked for from left to right, the first and the
last at the ends. Taking the leftmost place for each piece never spoils a match, so nothing is tried twice: the time
is at most text times pattern, whatever the pattern.

Words of a text, and what it means that a text satisfies a word pattern (the WP model of DIAS, thesis section 2.2).

A word is a longest run of letters and digits, without regard to case; everything else separates words.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from tocsin.language.syntax import WordAnd, WordNot, WordOr, WordPattern, Words

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


# Words of a text, and what it means that a text satisfies a word pattern (the WP model of DIAS, thesis section 2.2).


_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """Return the words of a text in order, in the form in which words are compared."""
    folded = text.casefold()
    if folded.isascii():
        return _WORD.findall(folded)
    return "".join(map(_letter_or_blank, unicodedata.normalize("NFC", folded))).split()


def _letter_or_blank(char: str) -> str:
    """Return the character if it is part of a word: a letter, a digit, or a mark that belongs to the letter before it."""
    return char if char.isalnum() or unicodedata.category(char).startswith("M") else " "


def satisfies(text_words: list[str], pattern: WordPattern) -> bool:
    """Return whether a text with these words satisfies the pattern."""
    match pattern:
        case Words():
            return _occurs(text_words, pattern)
        case WordAnd(parts):
            return all(satisfies(text_words, part) for part in parts)
        case WordOr(parts):
            return any(satisfies(text_words, part) for part in parts)
        case WordNot(part):
            return not satisfies(text_words, part)


def _occurs(text_words: list[str], pattern: Words) -> bool:
    """Return whether the words stand somewhere in this order, with as many words between as the gaps allow."""
    ends = _positions(text_words, pattern.words[0])
    for word, (least, most) in zip(pattern.words[1:], pattern.gaps, strict=True):
        ends = [at for at in _positions(text_words, word) if any(least <= at - end - 1 <= most for end in ends)]
    return bool(ends)


def _positions(text_words: list[str], word: str) -> list[int]:
    return [at for at, other in enumerate(text_words) if other == word]


def required_words(pattern: WordPattern) -> frozenset[str]:
    """Return words that every text satisfying the pattern has."""
    match pattern:
        case Words(found):
            return frozenset(found)
        case WordAnd(parts):
            return frozenset().union(*map(required_words, parts))
        case WordOr(parts):
            return frozenset.intersection(*map(required_words, parts)) if parts else frozenset()
        case WordNot():
            return frozenset()
