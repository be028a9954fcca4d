"""Text patterns: what `like`, `starts with`, `ends with`, `contains text` and `matches` mean.

A like pattern: % is any text, _ any one character, and a backslash takes a following %, _ or backslash as it is.
`starts with`, `ends with` and `contains text` are such patterns too (as_like), so that one index finds all of them. A pattern
is cut at its % into pieces of fixed length, which are looked for from left to right, the first and the last at the ends.
Taking the leftmost place for each piece never spoils a match, so nothing is tried twice.

`matches` takes a regular expression in RE2's syntax, which occurs somewhere in the text; RE2 takes time linear in the
text, whatever the pattern (docs/decisions/0140-patterns.md).

Ignoring case: both sides in the form of str.casefold; for regular expressions RE2's own (?i).

Networks: a text that is an address, as Python's ipaddress reads it.

Words: a longest run of letters and digits, without regard to case; everything else separates words. What it means that a
text satisfies a word pattern is the WP model of DIAS (thesis section 2.2).
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from tocsin.language.syntax import Op, Predicate, TextPatterns, WordAnd, WordNot, WordOr, WordPattern, Words

if TYPE_CHECKING:
    from re2 import _Regexp

ANY_CHARACTER = None
FOLDED, AS_IT_IS = "f", "c"  # the first character of a pattern in an index: the form of the text that it looks at
LONGEST_PIECE = 64  # characters of a piece that has a _
LONGEST_PATTERN = 4_096  # characters
LARGEST_PROGRAM = 1_000  # instructions of a regular expression
_MEMORY = 8 << 20  # bytes that one regular expression may use while it runs
_SPECIAL = "%_\\"

Piece = tuple[str | None, ...]  # characters; None is any one


class Like(NamedTuple):
    """A like pattern, cut at its %: `starts` and `ends` tell whether the first and the last piece stand at the ends."""

    pieces: tuple[Piece, ...]  # none is empty
    starts: bool
    ends: bool


# --- like -------------------------------------------------------------------------------------------------------------


def wrong_like(pattern: str) -> str | None:
    """Return what is wrong with a like pattern, and the remedy; None where nothing is."""
    if len(pattern) > LONGEST_PATTERN:
        return f"a pattern has at most {LONGEST_PATTERN:,} characters; this one has {len(pattern):,}"
    at = 0
    while at < len(pattern):
        if pattern[at] == "\\":
            if pattern[at + 1 : at + 2] not in ("%", "_", "\\"):
                return (
                    "in a like pattern a backslash stands before %, _ or another backslash; for a backslash write \\\\, "
                    "or use `starts with`, `ends with` or `contains text`, which take a text as it is"
                )
            at += 1
        at += 1
    if any(len(piece) > LONGEST_PIECE and ANY_CHARACTER in piece for piece in like_of(pattern).pieces):
        return f"between two % there are at most {LONGEST_PIECE} characters where one of them is _"
    return None


def escaped(text: str) -> str:
    """Return the like pattern that only the text itself is like."""
    return "".join(f"\\{char}" if char in _SPECIAL else char for char in text)


@lru_cache(maxsize=10_000)
def like_of(pattern: str) -> Like:
    """Return a like pattern in its pieces."""
    pieces: list[Piece] = []
    piece: list[str | None] = []
    at, starts, ends = 0, not pattern.startswith("%"), True
    while at < len(pattern):
        char, ends = pattern[at], True
        if char == "%":
            if piece:
                pieces.append(tuple(piece))
            piece, ends = [], False
        elif char == "_":
            piece.append(ANY_CHARACTER)
        else:
            if char == "\\" and at + 1 < len(pattern):
                at += 1
            piece.append(pattern[at])
        at += 1
    if piece:
        pieces.append(tuple(piece))
    return Like(tuple(pieces), starts, ends)


def canonical_like(pattern: str) -> str:
    """Return the pattern that says the same, written in one way only."""
    like = like_of(pattern)
    middle = "%".join("".join("_" if char is None else escaped(char) for char in piece) for piece in like.pieces)
    if not like.pieces:
        return "" if like.starts else "%"
    return f"{'' if like.starts else '%'}{middle}{'' if like.ends else '%'}"


def is_like(text: str, pattern: str) -> bool:
    """Return whether the whole text is like the pattern."""
    pieces, starts, ends = like_of(pattern)
    if not pieces:
        return not text or not starts
    at, last = 0, len(text)
    if starts and ends and len(pieces) == 1:
        return last == len(pieces[0]) and _stands(pieces[0], text, 0)
    if starts:
        if not _stands(pieces[0], text, 0):
            return False
        at, pieces = len(pieces[0]), pieces[1:]
    if ends:
        last -= len(pieces[-1])
        if last < at or not _stands(pieces[-1], text, last):
            return False
        pieces = pieces[:-1]
    for piece in pieces:
        at = _place(piece, text, at)
        if at < 0:
            return False
        at += len(piece)
    return at <= last


def _stands(piece: Piece, text: str, at: int) -> bool:
    """Return whether the piece stands at a place of the text."""
    if at + len(piece) > len(text):
        return False
    return all(text.startswith(run, at + start) for start, run in _runs(piece))


def _place(piece: Piece, text: str, at: int) -> int:
    """Return the first place from `at` on where the piece stands, -1 where there is none."""
    if None not in piece:
        return text.find("".join(piece), at)  # type: ignore[arg-type]
    offset, literal = max(_runs(piece), key=lambda run: len(run[1]), default=(0, ""))
    found = text.find(literal, at + offset)
    while found >= 0 and found - offset + len(piece) <= len(text):
        if _stands(piece, text, found - offset):
            return found - offset
        found = text.find(literal, found + 1)
    return -1


@lru_cache(maxsize=10_000)
def _runs(piece: Piece) -> list[tuple[int, str]]:
    """Return the longest runs of characters of a piece, with their places."""
    found: list[tuple[int, str]] = []
    start = 0
    for end in range(len(piece) + 1):
        if end == len(piece) or piece[end] is None:
            if end > start:
                found.append((start, "".join(piece[start:end])))  # type: ignore[arg-type]
            start = end + 1
    return found


def split_prefix(pattern: str) -> tuple[str, str]:
    """Return the text that everything like the pattern starts with, and the rest of the pattern."""
    prefix, at = "", 0
    while at < len(pattern) and pattern[at] not in "%_":
        if pattern[at] == "\\" and at + 1 < len(pattern):
            at += 1
        prefix += pattern[at]
        at += 1
    return prefix, pattern[at:]


# --- patterns in an index ---------------------------------------------------------------------------------------------


def is_like_key(text: str, key: str) -> bool:
    """Return whether a text is like the pattern of a key: FOLDED or AS_IT_IS, then a like pattern."""
    return is_like(text.casefold() if key[0] == FOLDED else text, key[1:])


def predicate_of_key(attribute: str, key: str) -> Predicate:
    """Return the predicate that a key of an index says."""
    like = like_of(key[1:])
    op, text = Op.LIKE, key[1:]
    if len(like.pieces) == 1 and ANY_CHARACTER not in like.pieces[0] and not (like.starts and like.ends):
        text = "".join(like.pieces[0])  # type: ignore[arg-type]
        op = Op.STARTS_WITH if like.starts else Op.ENDS_WITH if like.ends else Op.CONTAINS_TEXT
    return Predicate(attribute, op, TextPatterns((text,), ignoring_case=True) if key[0] == FOLDED else text)


# --- regular expressions ----------------------------------------------------------------------------------------------


def wrong_regex(pattern: str) -> str | None:
    """Return what is wrong with a regular expression; None where nothing is."""
    import re2

    if len(pattern) > LONGEST_PATTERN:
        return f"a pattern has at most {LONGEST_PATTERN:,} characters; this one has {len(pattern):,}"
    try:
        size = regex_of(pattern, ignoring_case=True).programsize
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        said = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        return f"this is no regular expression: {said}{_advice(pattern)}"
    if size > LARGEST_PROGRAM:
        return (
            f"this regular expression is too large: {size:,} steps of at most {LARGEST_PROGRAM:,}; "
            "repetitions such as {1,500} and classes beyond ASCII make it large"
        )
    return None


def _advice(pattern: str) -> str:
    if any(sign in pattern for sign in ("(?=", "(?!", "(?<=", "(?<!")):
        return ". There is no looking ahead or behind: say what is forbidden by a second condition, `and not (… matches …)`"
    if any(f"\\{digit}" in pattern for digit in "123456789"):
        return ". There are no references to groups"
    return ". The syntax is that of RE2"


@lru_cache(maxsize=10_000)
def regex_of(pattern: str, *, ignoring_case: bool) -> _Regexp:
    """Return a regular expression, compiled; raises re2.error."""
    import re2

    options = re2.Options()
    options.never_capture, options.log_errors, options.max_mem = True, False, _MEMORY
    options.case_sensitive = not ignoring_case
    return re2.compile(pattern, options)


def matches(text: str, pattern: str, *, ignoring_case: bool) -> bool:
    """Return whether the regular expression occurs in the text."""
    return regex_of(pattern, ignoring_case=ignoring_case).search(text.encode()) is not None


def needed_text(pattern: str) -> str:
    """Return a text that everything matched has, whatever the case, casefolded; empty where none is easily seen.

    Only what stands outside of groups and classes, is not repeated to nothing, and is ASCII is looked at; anything unusual
    gives the empty text.
    """
    runs, run, at = [], "", 0
    for flags in ("(?i)", "(?s)", "(?is)", "(?si)"):
        if pattern.startswith(flags):
            at = len(flags)
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "\\":
            escape = pattern[at : at + 1]
            at += 1
            if escape in tuple("dDwWsSbBAz"):
                char = ""
            elif escape.isalnum() or not escape or not escape.isascii():
                return ""
            else:
                char = escape
        elif char == "|":
            return ""
        elif char in "([":
            if char == "(" and pattern[at : at + 1] == "?" and pattern[at : at + 2] != "?:":
                return ""
            end = _closing(pattern, at, char)
            if end < 0:
                return ""
            at, char = end, ""
        elif char in ".^$" or not char.isascii():
            char = ""
        elif char in ")]{}*+?":
            return ""
        quantifier = pattern[at : at + 1]
        if not char or quantifier in ("*", "?", "{"):
            runs.append(run)
            run = ""
            at = _after_quantifier(pattern, at)
        elif quantifier == "+":
            runs.append(run + char)
            run = ""
            at = _after_quantifier(pattern, at)
        else:
            run += char
    return max([*runs, run], key=len).casefold()


def _after_quantifier(pattern: str, at: int) -> int:
    if pattern[at : at + 1] == "{":
        at = max(pattern.find("}", at), at) + 1
    elif pattern[at : at + 1] in ("*", "+", "?"):
        at += 1
    else:
        return at
    return at + 1 if pattern[at : at + 1] in ("?", "+", "*") else at


def _closing(pattern: str, at: int, opening: str) -> int:
    """Return the place after the bracket that closes the one before `at`; -1 where it is not easily seen."""
    if opening == "[":
        first = at + (pattern[at : at + 1] == "^")
        at = first
        while at < len(pattern):
            if pattern[at] == "\\":
                at += 1
            elif pattern[at] == "[":
                return -1
            elif pattern[at] == "]" and at > first:
                return at + 1
            at += 1
        return -1
    while at < len(pattern):
        if pattern[at] == "\\":
            if pattern[at + 1 : at + 2] == "Q":
                return -1
            at += 1
        elif pattern[at] in "([":
            at = _closing(pattern, at + 1, pattern[at])
            if at < 0:
                return -1
            continue
        elif pattern[at] == ")":
            return at + 1
        at += 1
    return -1


# --- networks ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=10_000)
def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text.strip())
    except ValueError:
        return None


def wrong_network(text: str) -> str | None:
    """Return what is wrong with a network; None where nothing is."""
    if _network(text) is not None:
        return None
    try:
        meant = ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        return "a network is written as its first address and the bits that count: '10.0.0.0/8', '2001:db8::/32'"
    return f"{text} is an address within a network; that network is written '{meant}'"


def in_network(text: str, network: str) -> bool:
    """Return whether a text is an address, of IPv4 or IPv6, that lies in a network."""
    found = _network(network)
    try:
        return found is not None and ipaddress.ip_address(text) in found
    except ValueError:
        return False


MOST_PREFIXES = 32


def network_prefixes(network: str) -> tuple[str, ...]:
    """Return texts of which each address of a network starts with one; none where they are written in several ways."""
    found = _network(network)
    if found is None or found.version == 6:
        return ()
    whole, bits = divmod(found.prefixlen, 8)
    parts = str(found.network_address).split(".")
    if bits and 1 << (8 - bits) <= MOST_PREFIXES:
        first = int(parts[whole])
        each = [[*parts[:whole], str(last)] for last in range(first, first + (1 << (8 - bits)))]
    else:
        each = [parts[:whole]]
    return tuple(".".join(listed) + ("." if 0 < len(listed) < 4 else "") for listed in each)


# --- words -------------------------------------------------------------------------------------------------------------

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
