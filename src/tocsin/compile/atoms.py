"""Atoms: the parts of a conjunction, with every operator reduced to intervals of keys.

Made from bound predicates, merged by normalise.py, coded by table_builder.py. A column is named by
(attribute, derivation), see table.py.

From a bound predicate to the atoms that decide it.

`expand` first rewrites predicates that are combinations of simpler ones (`contains all`, word patterns over a single
text) into trees of those; `atoms_of` then turns each predicate, or its negation, into a conjunction of atoms. Where
codes cannot decide a predicate, a Checked atom does, beside atoms that hold whenever it holds.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tocsin.compile.table import Derivation
from tocsin.language.semantics import value_satisfies
from tocsin.language.syntax import (
    PATTERN_OPERATORS,
    And,
    Box,
    Node,
    Not,
    Op,
    Or,
    Polygon,
    Predicate,
    TextPatterns,
    Within,
    WordAnd,
    WordNot,
    WordOr,
    WordPattern,
    Words,
)
from tocsin.language.text_patterns import (
    AS_IT_IS,
    FOLDED,
    canonical_like,
    escaped,
    needed_text,
    network_prefixes,
    required_words,
    split_prefix,
    words,
)
from tocsin.language.units import METRES, MICROSECONDS, box_around, box_of
from tocsin.schema import (
    BooleanDomain,
    Domain,
    EnumeratedDomain,
    HierarchicalDomain,
    IpDomain,
    NumericDomain,
    PointDomain,
    TextDomain,
    TimeDomain,
    Value,
    ViewAttribute,
)


class Interval(NamedTuple):
    """Keys from low to high; None is no bound. An open end does not belong to the interval."""

    low: Any = None
    high: Any = None
    low_open: bool = False
    high_open: bool = False

    def is_empty(self) -> bool:
        if self.low is None or self.high is None:
            return False
        return bool(self.low > self.high or (self.low == self.high and (self.low_open or self.high_open)))

    def is_point(self) -> bool:
        return self.low is not None and not self.low_open and not self.high_open and bool(self.low == self.high)

    def holds(self, key: Any) -> bool:
        if self.low is not None and (key < self.low or (self.low_open and key == self.low)):
            return False
        return self.high is None or key < self.high or (key == self.high and not self.high_open)


def point(key: Any) -> Interval:
    return Interval(key, key)


@dataclass(frozen=True, slots=True)
class Among:
    """Some value's key lies in one of the intervals; negated: the attribute is bound and no value's key does."""

    attribute: str
    derivation: Derivation
    intervals: tuple[Interval, ...]  # disjoint, ascending, none empty
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """The attribute is bound; negated: it is not."""

    attribute: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """The predicate holds, as the definition says; negated: the attribute is bound and the predicate does not hold."""

    predicate: Predicate
    negated: bool = False

    @property
    def attribute(self) -> str:
        return self.predicate.attribute


@dataclass(frozen=True, slots=True)
class Decided:
    """A comparison of formulas, or all that a conjunction asks of operators and variables, negation included.

    No index knows anything of it: it is decided for what the index finds. `own` are the properties that it mentions.
    `whole` tells that it is the whole condition of a subscription, whose normal form would be too large.
    """

    node: Node
    own: tuple[tuple[str, Value], ...] = ()
    whole: bool = False


Atom = Among | Bound | Checked | Decided
Conjunction = tuple[Atom, ...]


def intersection(a: Sequence[Interval], b: Sequence[Interval]) -> tuple[Interval, ...]:
    """Return the intervals that lie in both; both ascending and disjoint, and so is the result."""
    found = (_overlap(x, y) for x in a for y in b)
    return tuple(interval for interval in found if not interval.is_empty())


def _overlap(a: Interval, b: Interval) -> Interval:
    low, low_open = a.low, a.low_open
    if low is None or (b.low is not None and (b.low > low or (b.low == low and b.low_open))):
        low, low_open = b.low, b.low_open
    high, high_open = a.high, a.high_open
    if high is None or (b.high is not None and (b.high < high or (b.high == high and b.high_open))):
        high, high_open = b.high, b.high_open
    return Interval(low, high, low_open, high_open)


def complement(intervals: Sequence[Interval]) -> tuple[Interval, ...]:
    """Return the gaps before, between and after ascending disjoint intervals."""
    gaps, low, low_open = [], None, False
    for interval in intervals:
        if interval.low is not None:
            gap = Interval(low, interval.low, low_open, not interval.low_open)
            if not gap.is_empty():
                gaps.append(gap)
        if interval.high is None:
            return tuple(gaps)
        low, low_open = interval.high, not interval.high_open
    return (*gaps, Interval(low, None, low_open))


def points(keys: Sequence[Any]) -> tuple[Interval, ...]:
    """Return one interval per distinct key, ascending."""
    return tuple(point(key) for key in sorted(set(keys)))


def runs(numbers: Sequence[int]) -> tuple[Interval, ...]:
    """Return the intervals that cover exactly these whole numbers, neighbours joined."""
    found: list[Interval] = []
    for number in sorted(set(numbers)):
        if found and found[-1].high == number - 1:
            found[-1] = Interval(found[-1].low, number)
        else:
            found.append(point(number))
    return tuple(found)


# From a bound predicate to the atoms that decide it.


NOTHING: tuple[Interval, ...] = ()


def expand(predicate: Predicate, entry: ViewAttribute) -> Node:
    """Return the predicate as a tree of simpler ones, where it is one."""
    match predicate.op:
        case Op.CONTAINS_ALL:
            return And(tuple(expand(_contains(predicate, member), entry) for member in predicate.operand))  # type: ignore[union-attr]
        case Op.CONTAINS_ANY if entry.domain.kind != "text":
            return replace(predicate, op=Op.IN)
        case Op.CONTAINS_ANY if not all(len(set(words(member))) == 1 for member in predicate.operand):  # type: ignore[union-attr,arg-type]
            return Or(tuple(expand(_contains(predicate, member), entry) for member in predicate.operand))  # type: ignore[union-attr]
        case Op.CONTAINS if entry.domain.kind != "text":
            return replace(predicate, op=Op.EQ)
        case Op.CONTAINS if not entry.ever_multiple:
            return _expand_words(predicate, _as_pattern(predicate.operand))
        case Op.MATCHES | Op.IN_NETWORK if (
            isinstance(predicate.operand, TextPatterns) and len(predicate.operand.texts) > 1
        ):
            return _expand_patterns(predicate, predicate.operand)
        case op if op in PATTERN_OPERATORS and isinstance(predicate.operand, TextPatterns) and predicate.operand.every:
            return _expand_patterns(predicate, predicate.operand)
        case Op.LIKE if not isinstance(predicate.operand, TextPatterns):
            return _expand_like(predicate)
    return predicate


def _expand_patterns(predicate: Predicate, patterns: TextPatterns) -> Node:
    """Return several patterns as so many predicates."""
    each = tuple(
        replace(predicate, operand=TextPatterns((text,), ignoring_case=True) if patterns.ignoring_case else text)
        for text in patterns.texts
    )
    return And(each) if patterns.every else Or(each)


def _contains(predicate: Predicate, operand: Any) -> Predicate:
    return replace(predicate, op=Op.CONTAINS, operand=operand)


def _as_pattern(operand: Any) -> WordPattern:
    if not isinstance(operand, str):
        return operand  # type: ignore[no-any-return]
    found = [Words((word,)) for word in dict.fromkeys(words(operand))]
    return found[0] if len(found) == 1 else WordAnd(tuple(found))


def _expand_words(predicate: Predicate, pattern: WordPattern) -> Node:
    """Return a word pattern over one text as a tree of predicates: one value makes `not` and `or` those of logic."""
    match pattern:
        case Words():
            return _contains(predicate, pattern)
        case WordAnd(parts):
            return And(tuple(_expand_words(predicate, part) for part in parts))
        case WordOr(parts):
            return Or(tuple(_expand_words(predicate, part) for part in parts))
        case WordNot(part):
            return Not(_expand_words(predicate, part))


def _expand_like(predicate: Predicate) -> Node:
    """Return `like 'abc'` as an equality and `like 'abc%'` as a prefix; anything else stays."""
    prefix, rest = split_prefix(str(predicate.operand))
    if rest.strip("%"):
        return predicate
    return replace(predicate, op=Op.STARTS_WITH if rest else Op.EQ, operand=prefix)


def atoms_of(predicate: Predicate, entry: ViewAttribute, *, negated: bool) -> list[Atom] | None:
    """Return the atoms that together say what the predicate, or its negation, says; None where it can never hold."""
    name, domain, op = predicate.attribute, entry.domain, predicate.op
    if op is Op.PRESENT or op is Op.ABSENT:
        return [Bound(name, negated=(op is Op.ABSENT) != negated)]
    if op is Op.NE:
        return atoms_of(replace(predicate, op=Op.EQ), entry, negated=not negated)
    if isinstance(domain, PointDomain):
        return _point_atoms(predicate, entry, negated=negated)
    if op in (Op.CONTAINS, Op.CONTAINS_ANY):
        return _word_atoms(predicate, negated=negated)
    if op is Op.IN_NETWORK and isinstance(domain, IpDomain):
        text = predicate.operand.texts[0] if isinstance(predicate.operand, TextPatterns) else str(predicate.operand)
        return _among(name, "value", (Interval(*domain.network_keys(text)),), negated=negated)
    if op is Op.MATCHES or op is Op.IN_NETWORK:
        return _needing_atoms(predicate, negated=negated)
    if op in PATTERN_OPERATORS and (op is not Op.STARTS_WITH or isinstance(predicate.operand, TextPatterns)):
        return _pattern_atoms(predicate, domain, negated=negated)
    return _among(name, "value", intervals_of(predicate, domain), negated=negated)


def _among(
    name: str, derivation: Derivation, intervals: tuple[Interval, ...], *, negated: bool = False
) -> list[Atom] | None:
    """Return the atom for these intervals; where they hold nothing, what is left of it."""
    if not intervals:
        return [Bound(name)] if negated else None
    return [Among(name, derivation, intervals, negated)]


def _word_atoms(predicate: Predicate, *, negated: bool) -> list[Atom] | None:
    name = predicate.attribute
    if predicate.op is Op.CONTAINS_ANY:  # of single words, see expand
        found = [words(member)[0] for member in predicate.operand]  # type: ignore[union-attr,arg-type]
        return _among(name, "words", points(found), negated=negated)
    pattern = _as_pattern(predicate.operand)
    if isinstance(pattern, Words) and len(pattern.words) == 1:
        return _among(name, "words", (point(pattern.words[0]),), negated=negated)
    if negated:
        return [Bound(name), Checked(predicate, negated=True)]
    needed: list[Atom] = [Among(name, "words", (point(word),)) for word in sorted(required_words(pattern))]
    return [*(needed or [Bound(name)]), Checked(predicate)]


def _pattern_atoms(predicate: Predicate, domain: Domain, *, negated: bool) -> list[Atom] | None:
    """Return what the index decides: one of these patterns is found."""
    name, operand = predicate.attribute, predicate.operand
    texts, folded = (operand.texts, operand.ignoring_case) if isinstance(operand, TextPatterns) else ((operand,), False)
    if isinstance(domain, TextDomain) and domain.case == "folded":
        folded = True
    keys = [_as_like(predicate.op, text.casefold() if folded else text) for text in map(str, texts)]
    if "%" in keys:  # every text is like it
        return None if negated else [Bound(name)]
    form = FOLDED if folded else AS_IT_IS
    return _among(name, "patterns", points([form + key for key in keys]), negated=negated)


def _as_like(op: Op, text: str) -> str:
    """Return the like pattern, canonical, that says the same."""
    match op:
        case Op.LIKE:
            return canonical_like(text)
        case Op.STARTS_WITH:
            return canonical_like(f"{escaped(text)}%")
        case Op.ENDS_WITH:
            return canonical_like(f"%{escaped(text)}")
        case _:
            return canonical_like(f"%{escaped(text)}%")


def _needing_atoms(predicate: Predicate, *, negated: bool) -> list[Atom]:
    """Return a check, and the text without which a regular expression cannot occur, or an address lie in a network."""
    name, operand = predicate.attribute, predicate.operand
    text = operand.texts[0] if isinstance(operand, TextPatterns) else str(operand)
    regex = predicate.op is Op.MATCHES
    needed = () if negated else (needed_text(text),) if regex else network_prefixes(text)
    if not all(needed) or not needed:
        return [Bound(name), Checked(predicate, negated)]
    keys = [FOLDED + canonical_like(f"{'%' if regex else ''}{escaped(each)}%") for each in needed]
    return [Among(name, "patterns", points(keys)), Checked(predicate)]


def _point_atoms(predicate: Predicate, entry: ViewAttribute, *, negated: bool) -> list[Atom] | None:
    """Return the box around what the predicate asks for, and the check that makes it exact where the box does not."""
    name, operand = predicate.attribute, predicate.operand
    if negated or predicate.op is Op.IN:
        return [Bound(name), Checked(predicate, negated)]
    match operand:
        case Within(amount, unit, center):
            box, exact = box_around(center, float(amount) * METRES[unit]), False  # type: ignore[arg-type]
        case Polygon():
            box, exact = box_of(operand), False
        case Box():
            box, exact = operand, not entry.ever_multiple
        case (latitude, longitude):
            box, exact = Box(latitude, longitude, latitude, longitude), not entry.ever_multiple  # type: ignore[arg-type]
        case _:
            raise AssertionError(f"{predicate.op} on a point with {operand!r}")
    if box.south > box.north:
        return None
    atoms: list[Atom] = [
        Among(name, "latitude", (Interval(box.south, box.north),)),
        Among(name, "longitude", _longitudes(box)),
    ]
    return atoms if exact else [*atoms, Checked(predicate)]


def _longitudes(box: Box) -> tuple[Interval, ...]:
    if box.west <= box.east:
        return (Interval(box.west, box.east),)
    return (Interval(None, box.east), Interval(box.west, None))


# --- intervals of keys ------------------------------------------------------------------------------------------------


def intervals_of(predicate: Predicate, domain: Domain) -> tuple[Interval, ...]:
    """Return the keys that satisfy a predicate other than !=, as ascending disjoint intervals."""
    op, operand = predicate.op, predicate.operand
    match domain:
        case EnumeratedDomain() | BooleanDomain() | HierarchicalDomain():
            return _finite(op, operand, domain)
        case TimeDomain() if isinstance(operand, Within):
            reach = math.floor(operand.amount * MICROSECONDS[operand.unit])
            center = domain.key(operand.center)
            return (Interval(center - reach, center + reach),) if reach >= 0 else NOTHING
        case TextDomain() if op is Op.STARTS_WITH:
            return (starting_with(str(domain.key(operand))),)  # type: ignore[arg-type]
    found = _ordered(op, operand, domain)
    if limits_of(domain) is not None:
        found = tuple(map(whole, found))
    return tuple(interval for interval in found if not interval.is_empty())


def _ordered(op: Op, operand: Any, domain: Domain) -> tuple[Interval, ...]:
    key = domain.key
    match op:
        case Op.EQ:
            return (point(key(operand)),)
        case Op.LT | Op.LE:
            return (Interval(None, key(operand), high_open=op is Op.LT),)
        case Op.GT | Op.GE:
            return (Interval(key(operand), None, low_open=op is Op.GT),)
        case Op.BETWEEN:
            return (Interval(key(operand[0]), key(operand[1])),)
        case Op.IN:
            return points([key(member) for member in operand])
    raise AssertionError(f"{op} on {domain.kind}")


def whole(interval: Interval) -> Interval:
    """Return the interval between whole numbers that holds the same whole numbers: `< 2.5` is `<= 2`."""
    low, high = interval.low, interval.high
    if low is not None:
        low = math.floor(low) + 1 if interval.low_open else math.ceil(low)
    if high is not None:
        high = math.ceil(high) - 1 if interval.high_open else math.floor(high)
    return Interval(low, high)


def limits_of(domain: Domain) -> Interval | None:
    """Return the least and the greatest key of a domain with whole-numbered keys; None for the others."""
    match domain:
        case BooleanDomain():
            return Interval(0, 1)
        case EnumeratedDomain() | HierarchicalDomain():
            return Interval(0, len(domain.values) - 1)
        case TimeDomain():
            return Interval()
        case NumericDomain(type="int"):
            return whole(Interval(domain.minimum, domain.maximum))
    return None


def _finite(
    op: Op, operand: Any, domain: EnumeratedDomain | BooleanDomain | HierarchicalDomain
) -> tuple[Interval, ...]:
    key = domain.key
    if op is Op.EQ:
        return (point(key(operand)),)
    if op is Op.IN:
        return runs([key(member) for member in operand])
    if isinstance(domain, HierarchicalDomain) and op in (Op.KIND_OF, Op.LE, Op.LT):
        first, last = domain.intervals[operand]
        found = Interval(first + (op is Op.LT), last)
        return NOTHING if found.is_empty() else (found,)
    if isinstance(domain, HierarchicalDomain) and op in (Op.GE, Op.GT):
        above = [key(value) for value in domain.ancestors(operand)]
        return runs([*above, key(operand)] if op is Op.GE else above)
    values: tuple[Any, ...] = (False, True) if isinstance(domain, BooleanDomain) else domain.values
    return runs([key(value) for value in values if value_satisfies(domain, op, value, operand)])


def starting_with(prefix: str) -> Interval:
    """Return the interval of the texts that start with the prefix: up to the next text that does not."""
    stem = prefix.rstrip(chr(sys.maxunicode))
    if not stem:
        return Interval(prefix, None)
    return Interval(prefix, stem[:-1] + chr(ord(stem[-1]) + 1), high_open=True)
