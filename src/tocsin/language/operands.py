"""Operands: what stands beside an attribute, checked against its domain and made canonical.

Used by bind.py, once the operator is known to be one that the attribute has.

Which operators an attribute has: those that its domain offers, and those that follow from them.

`in` follows from `=`, `between` from `>=` and `<=`, the three `contains` on attributes with several values from `=`;
`ends with`, `contains text`, `matches` and `in network` from `like`; `is present` and `is absent` are always there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import cast

from tocsin.errors import BadValue, BindError, Span
from tocsin.language import syntax
from tocsin.language.bounds import MAX_GAP, check_corners
from tocsin.language.literals import check_literal, render_literal
from tocsin.language.syntax import (
    PATTERN_OPERATORS,
    Box,
    Literal,
    Op,
    Operand,
    Polygon,
    Predicate,
    TextPatterns,
    Within,
    WordPattern,
    Words,
)
from tocsin.language.text_patterns import words, wrong_like, wrong_network, wrong_regex
from tocsin.language.units import METRES, SECONDS
from tocsin.schema import Domain, Key, NumericDomain, PointDomain, TextDomain, ViewAttribute

CONTAINING = frozenset({Op.CONTAINS, Op.CONTAINS_ANY, Op.CONTAINS_ALL})
_FROM_LIKE = frozenset({Op.ENDS_WITH, Op.CONTAINS_TEXT, Op.MATCHES, Op.IN_NETWORK})
_ALWAYS = frozenset({Op.PRESENT, Op.ABSENT})
KINDS = {
    "time": "a time",
    "point": "a point",
    "ip": "an address",
}  # how an attribute's kind is said where an adjective would not do


def operators_of(attribute: ViewAttribute) -> tuple[Op, ...]:
    """Return the operators that predicates on the attribute may use, in the order of Op."""
    return tuple(op for op in Op if _has(attribute, op))


def _has(attribute: ViewAttribute, op: Op) -> bool:
    offered = attribute.domain.offered
    if op in _ALWAYS:
        return True
    if op in CONTAINING:
        members = attribute.multiple and not offered.isdisjoint({"=", "contains"})
        return "contains" in offered if attribute.domain.kind == "text" else members
    if op is Op.IN:
        return "=" in offered or (attribute.multiple and "contains" in offered)
    if op in _FROM_LIKE:
        return "like" in offered or op.value in offered
    if op is Op.BETWEEN:
        return {">=", "<="} <= offered
    return op.value in offered


def check_offered(predicate: Predicate, attribute: ViewAttribute) -> None:
    """Raise BindError if the attribute does not have the predicate's operator."""
    if not _has(attribute, predicate.op):
        raise BindError(_refusal(predicate, attribute), span=predicate.span)


def _refusal(predicate: Predicate, attribute: ViewAttribute) -> str:
    name, op, domain = attribute.name, predicate.op, attribute.domain
    kind = KINDS.get(domain.kind, domain.kind)
    if op in CONTAINING and domain.kind != "text" and not attribute.multiple:
        instead = f"{name} in (…)"
        if op is Op.CONTAINS and isinstance(predicate.operand, str | int | float):
            instead = f"{name} = {render_literal(predicate.operand)}"
        return f"{name} is {kind} and has one value in an event, so it contains nothing. Write: {instead}"
    if domain.kind == "object":
        return f"{name} is an array of objects, which are not compared; ask about its elements: some {name} (…)"
    listed = ", ".join(other.value for other in operators_of(attribute))
    narrowed = f" in the domain {domain.name!r}" if op.value in domain.possible else ""
    return f"{name} is {kind} and has no operator `{op.value}`{narrowed}; it has: {listed}"


# Operands.


_STAR = re.compile(r"\w\*|\*\w")
_AMOUNT = NumericDomain(name="amount")
_EXAMPLES = {
    "numeric": ("a number", "100"),
    "text": ("a text", "'mini'"),
    "boolean": ("true or false", "true"),
    "time": ("a time", "time '2026-11-15T10:00Z'"),
    "point": ("a point", "(40.85, -73.88)"),
    "ip": ("an address", "'10.1.2.3'"),
}
_PATTERNS = (Words, syntax.WordAnd, syntax.WordOr, syntax.WordNot)
# Operators for which a text longer than any in the domain still makes sense.
_LOOSE = frozenset({Op.LT, Op.LE, Op.GT, Op.GE, Op.BETWEEN, Op.CONTAINS, Op.CONTAINS_ANY, Op.CONTAINS_ALL})


def canonical_operand(predicate: Predicate, attribute: ViewAttribute) -> Operand:
    """Return the predicate's operand as its domain has it; raises BindError."""
    return _Operand(predicate, attribute).canonical()


class _Operand:
    """The operand of one predicate."""

    def __init__(self, predicate: Predicate, attribute: ViewAttribute) -> None:
        self.name, self.op, self.raw = predicate.attribute, predicate.op, predicate.operand
        self.domain: Domain = attribute.domain
        self.span: Span | None = predicate.operand_span or predicate.span

    def wrong(self, message: str) -> BindError:
        return BindError(message, span=self.span)

    def canonical(self) -> Operand:
        return _CANONICAL.get(self.op, _Operand.value)(self)

    # --- by operator --------------------------------------------------------------------------------------------------

    def nothing(self) -> Operand:
        if self.raw is not None:
            raise self.wrong(f"`{self.op.value}` takes no operand")
        return None

    def value(self) -> Operand:
        return self.admit(self.raw)

    def pair(self) -> Operand:
        if not isinstance(self.raw, tuple) or len(self.raw) != 2:
            raise self.wrong("`between` takes two values: between 1 and 5")
        return self.admit(self.raw[0]), self.admit(self.raw[1])

    def members(self) -> Operand:
        """The distinct values of a list, in the order of their first mention."""
        if not isinstance(self.raw, tuple) or not self.raw:
            raise self.wrong(f"`{self.op.value}` takes a list of at least one value")
        by_key: dict[Key, Literal] = {}
        for value in map(self.admit, self.raw):
            by_key.setdefault(self.domain.key(value), value)
        return tuple(by_key.values())

    def words(self) -> Operand:
        """The operand of the operators that contain."""
        is_text = self.domain.kind == "text"
        if self.op is not Op.CONTAINS:
            if not is_text:
                return self.members()
            if not isinstance(self.raw, tuple) or not self.raw:
                raise self.wrong(f"`{self.op.value}` takes a list of at least one text")
            return tuple(dict.fromkeys(map(self.with_words, self.raw)))
        if isinstance(self.raw, _PATTERNS):
            return self.pattern(self.raw) if is_text else self.admit(self._only_word(self.raw))
        return self.with_words(self.raw) if is_text else self.admit(self.raw)

    def patterns(self) -> Operand:
        """The operand of an operator of patterns: a text; several, or one without regard to case, as TextPatterns."""
        raw = self.raw
        if not isinstance(raw, TextPatterns):
            return self._pattern_text(raw)
        if not raw.texts:
            raise self.wrong(f"`{self.op.value}` takes a list of at least one text")
        texts = tuple(dict.fromkeys(map(self._pattern_text, raw.texts)))
        if len(texts) == 1 and not raw.ignoring_case:
            return texts[0]
        return TextPatterns(texts, raw.every and len(texts) > 1, raw.ignoring_case)

    def _pattern_text(self, raw: object) -> str:
        text = cast("str", self.admit(raw))
        wrong = None
        if self.op is Op.LIKE:
            wrong = wrong_like(text)
        elif self.op is Op.MATCHES:
            wrong = wrong_regex(text)
        elif self.op is Op.IN_NETWORK:
            wrong = wrong_network(text)
        if wrong is not None:
            raise self.wrong(wrong)
        return text

    def within(self) -> Operand:
        raw = self.raw
        if not isinstance(raw, Within):
            raise self.wrong("`within` takes an amount, a unit and a center: within 5 km of (40.85, -73.88)")
        units = tuple(METRES) if isinstance(self.domain, PointDomain) else tuple(SECONDS)
        if raw.unit not in units:
            kind = KINDS.get(self.domain.kind, self.domain.kind)
            raise self.wrong(f"{self.name} is {kind}; {raw.unit} does not measure that. Units: {', '.join(units)}")
        try:
            amount = _AMOUNT.admit_operand(raw.amount)
        except BadValue as error:
            raise self.wrong(str(error)) from None
        if amount < 0:
            raise self.wrong(f"within {amount} {raw.unit} holds nowhere; write an amount that is not negative")
        return Within(amount, raw.unit, self.admit(raw.center))

    def box(self) -> Operand:
        raw = self.raw
        if not isinstance(raw, Box):
            raise self.wrong("`in box` takes four corners: in box (south, west, north, east)")
        south, west = self._corner(raw.south, raw.west)
        north, east = self._corner(raw.north, raw.east)
        if south > north:
            raise self.wrong(f"south {south} is above north {north}; the order is (south, west, north, east)")
        return Box(south, west, north, east)

    def polygon(self) -> Operand:
        raw = self.raw
        if not isinstance(raw, Polygon) or len(dict.fromkeys(raw.corners)) < 3:
            raise self.wrong(
                "`in polygon` takes at least three corners: in polygon ((40.7, -74), (40.9, -74), (40.8, -73.8))"
            )
        return Polygon(check_corners(tuple(self._corner(*corner) for corner in raw.corners)))

    def _corner(self, latitude: float, longitude: float) -> tuple[float, float]:
        return cast("tuple[float, float]", self.admit((latitude, longitude)))

    # --- values -------------------------------------------------------------------------------------------------------

    def admit(self, raw: object) -> Literal:
        """Return one value as the domain has it."""
        literal = check_literal(raw)
        try:
            if isinstance(self.domain, NumericDomain):
                return self.domain.admit_operand(literal)
            loose = isinstance(self.domain, TextDomain) and (self.op in _LOOSE or self.op in PATTERN_OPERATORS)
            if isinstance(literal, str) and (loose or self.op is Op.IN_NETWORK):
                return literal
            return self.domain.admit(literal)  # type: ignore[return-value]  # no literal is an object
        except BadValue as error:
            raise self.wrong(self._mismatch(literal, error)) from None

    def _mismatch(self, raw: Literal, error: BadValue) -> str:
        """Return what is wrong with a value, and what would be right."""
        found, kind = _kind(raw), self.domain.kind
        values = getattr(self.domain, "values", ())
        right, example = _EXAMPLES.get(kind, ("one of its values", render_literal(values[0]) if values else ""))
        if isinstance(raw, str) and kind in ("enumerated", "hierarchical", "time", "ip"):
            return f"{self.name}: {error}"
        if found == {"numeric": "a number", "text": "text", "boolean": "true or false"}.get(kind, KINDS.get(kind)):
            return f"{self.name}: {error}"
        said = f"{self.name} is {KINDS.get(kind, kind)}; {shown_literal(raw)} is {found}"
        return f"{said}. Write {right}, such as: {self.name} {self._with(example)}"

    def _with(self, example: str) -> str:
        match self.op:
            case Op.IN | Op.CONTAINS_ANY | Op.CONTAINS_ALL:
                return f"{self.op.value} ({example})"
            case Op.BETWEEN:
                return f"between {example} and {example}"
            case Op.WITHIN:
                unit = "5 km" if self.domain.kind == "point" else "2 hours"
                return f"within {unit} of {example}"
            case _:
                return f"{self.op.value} {example}"

    # --- words --------------------------------------------------------------------------------------------------------

    def with_words(self, raw: object) -> str:
        """Return the text, which must have a word."""
        text = self.admit(raw)
        if _STAR.search(cast("str", text)):
            raise self.wrong(
                f"{shown_literal(text)} asks for whole words, and a * means nothing in them; for a part of a text write "
                f"{self.name} contains text '…', starts with '…' or like '%…%'"
            )
        if not words(cast("str", text)):
            raise self.wrong(f"{shown_literal(text)} has no word to look for; words are made of letters and digits")
        return cast("str", text)

    def pattern(self, pattern: WordPattern) -> WordPattern:
        """Return the word pattern with its words in the form in which words are compared."""
        match pattern:
            case Words(found, gaps):
                if len(gaps) != len(found) - 1 or any(not 0 <= least <= most <= MAX_GAP for least, most in gaps):
                    raise self.wrong("a proximity stands between two words and has the least first: near[1..5]")
                return Words(tuple(map(self._word, found)), gaps)
            case syntax.WordNot(part):
                return syntax.WordNot(self.pattern(part))
            case syntax.WordAnd(parts) | syntax.WordOr(parts):
                if not parts:
                    raise self.wrong("a word pattern needs at least one word")
                bound = tuple(map(self.pattern, parts))
                return bound[0] if len(bound) == 1 else type(pattern)(bound)

    def _word(self, text: str) -> str:
        found = words(self.with_words(text))
        if len(found) == 1:
            return found[0]
        phrase = " near[0..0] ".join(render_literal(word) for word in found[:8])
        raise self.wrong(f"{shown_literal(text)} is {len(found)} words; in a word pattern, write: {phrase}")

    def _only_word(self, pattern: WordPattern) -> str:
        """Return the one value that `contains ('red')` names where words make no sense."""
        if isinstance(pattern, Words) and len(pattern.words) == 1:
            return pattern.words[0]
        raise self.wrong(f"word patterns are for text; {self.name} is {KINDS.get(self.domain.kind, self.domain.kind)}")


_CANONICAL: dict[Op, Callable[[_Operand], Operand]] = {
    Op.PRESENT: _Operand.nothing,
    Op.ABSENT: _Operand.nothing,
    Op.BETWEEN: _Operand.pair,
    Op.IN: _Operand.members,
    Op.CONTAINS: _Operand.words,
    Op.CONTAINS_ANY: _Operand.words,
    Op.CONTAINS_ALL: _Operand.words,
    Op.WITHIN: _Operand.within,
    **dict.fromkeys(PATTERN_OPERATORS, _Operand.patterns),
    Op.IN_BOX: _Operand.box,
    Op.IN_POLYGON: _Operand.polygon,
}


def _kind(value: Literal) -> str:
    match value:
        case bool():
            return "true or false"
        case str():
            return "text"
        case int() | float() | Decimal():
            return "a number"
        case datetime():
            return "a time"
        case _:
            return "a point"


def shown_literal(value: Literal, limit: int = 60) -> str:
    """Return a value as an expression has it, cut where it is long."""
    text = render_literal(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
