"""Words of a text, and what it means that a text satisfies a word pattern (the WP model of DIAS, thesis section 2.2).

A word is a longest run of letters and digits, without regard to case; everything else separates words.
"""

from __future__ import annotations

import re
import unicodedata

from tocsin.language.syntax import WordAnd, WordNot, WordOr, WordPattern, Words

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
