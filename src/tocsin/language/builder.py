"""The builder: subscriptions written in Python.

    from tocsin.language import attributes as a, subscription, word

    subscription(
        "car", "antique",
        where=(a.price < 1300) & (a.brand == "mini") | ~(a.colour == "brown"),
        properties={"age": 42},
    )

Gives the same syntax tree as the other forms. Attributes with a dot or an odd name: a.seller.name, a["seller.name"].
"""  # fmt: skip

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tocsin.errors import ParseError
from tocsin.language import bounds, syntax
from tocsin.language.bounds import MAX_GAP, check_corners, check_name, check_string
from tocsin.language.literals import check_coordinate, check_literal, check_number
from tocsin.language.render import render
from tocsin.language.syntax import (
    ALWAYS,
    NEVER,
    Box,
    Literal,
    Node,
    Op,
    Operand,
    Polygon,
    Predicate,
    Subscription,
    TextPatterns,
    Within,
)
from tocsin.schema import Number
from tocsin.schema.readings import Reading

_HOW_TO_COMBINE = (
    "a condition is neither true nor false before there is an event. Combine conditions with & | ~ instead of and, or, "
    'not, in parentheses each: (a.price < 1300) & (a.brand == "mini"); for a range, write a.price.between(1, 5)'
)


@dataclass(frozen=True, slots=True, repr=False)
class Condition:
    """A condition under construction; `node` is the syntax tree so far."""

    node: Node

    def __and__(self, other: Condition | Node) -> Condition:
        return Condition(_joined(syntax.And, ALWAYS, self.node, node_of(other)))

    def __rand__(self, other: Node) -> Condition:
        return Condition(_joined(syntax.And, ALWAYS, other, self.node))

    def __or__(self, other: Condition | Node) -> Condition:
        return Condition(_joined(syntax.Or, NEVER, self.node, node_of(other)))

    def __ror__(self, other: Node) -> Condition:
        return Condition(_joined(syntax.Or, NEVER, other, self.node))

    def __invert__(self) -> Condition:
        return Condition(syntax.Not(self.node))

    def __bool__(self) -> bool:
        raise TypeError(_HOW_TO_COMBINE)

    def __repr__(self) -> str:
        return f"<condition {render(self.node)}>"


def node_of(condition: Condition | Node) -> Node:
    """Return the syntax tree of a condition."""
    if isinstance(condition, Condition):
        return condition.node
    if isinstance(condition, Node):
        return condition
    raise TypeError(f"expected a condition such as a.price < 1300, not {condition!r}")


def _joined(connective: type[syntax.And] | type[syntax.Or], neutral: Node, left: Node, right: Node) -> Node:
    """Return the two joined by a connective, flat: x & y & z has three parts."""
    parts = [part for node in (left, right) for part in (node.parts if isinstance(node, connective) else (node,))]
    if not parts:
        return neutral
    return parts[0] if len(parts) == 1 else connective(tuple(parts))


def at_least(count: int, *conditions: Condition | Node) -> Condition:
    """Return: so many of the conditions hold."""
    return Condition(bounds.at_least(count, tuple(map(node_of, conditions))))


def subscription(
    *event_types: str,
    where: Condition | Node | None = None,
    properties: Mapping[str, Literal] | None = None,
) -> Subscription:
    """Return the subscription to events of these types (of any, where none is named) that satisfy `where`."""
    return Subscription(
        tuple(map(check_name, event_types)),
        ALWAYS if where is None else node_of(where),
        tuple((check_name(name), check_literal(value)) for name, value in (properties or {}).items()),
    )


# --- attributes -------------------------------------------------------------------------------------------------------


class Attributes:
    """All attributes there may be: a.price, a["seller name"]."""

    def __getattr__(self, name: str) -> Attribute:
        if name.startswith("__"):
            raise AttributeError(name)  # Python asks for many such names
        return Attribute(name)

    def __getitem__(self, name: str) -> Attribute:
        return Attribute(name)


class Attribute:
    """An attribute; comparing it gives a condition."""

    __slots__ = ("_name",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str) -> None:
        self._name = check_name(name)

    def __getattr__(self, part: str) -> Attribute:
        if part.startswith("_"):
            raise AttributeError(part)
        return Attribute(f"{self._name}.{part}")

    def __getitem__(self, part: str) -> Attribute:
        return Attribute(f"{self._name}.{part}")

    def __repr__(self) -> str:
        return f"<attribute {self._name}>"

    def __bool__(self) -> bool:
        raise TypeError(_HOW_TO_COMBINE)

    def _is(self, op: Op, operand: Operand) -> Condition:
        return Condition(Predicate(self._name, op, operand))

    def _compared(self, op: Op, value: object) -> Condition:
        if isinstance(value, Formula):
            return Condition(syntax.Comparison(syntax.AttributeValue(self._name), op, value.expression))
        return self._is(op, _literal(value))

    def read_as(self, kind: Reading) -> Attribute:
        """Return the attribute as a number, a text, a time or a truth value, where the schema does not say what it is."""
        return Attribute(f"{self._name} as {kind}")

    def __eq__(self, value: Any) -> Condition:  # type: ignore[override]
        return self._compared(Op.EQ, value)

    def __ne__(self, value: Any) -> Condition:  # type: ignore[override]
        return self._compared(Op.NE, value)

    def __lt__(self, value: Literal | Formula) -> Condition:
        return self._compared(Op.LT, value)

    def __le__(self, value: Literal | Formula) -> Condition:
        return self._compared(Op.LE, value)

    def __gt__(self, value: Literal | Formula) -> Condition:
        return self._compared(Op.GT, value)

    def __ge__(self, value: Literal | Formula) -> Condition:
        return self._compared(Op.GE, value)

    def in_(self, *values: Literal | Iterable[Literal]) -> Condition:
        """Return whether it is one of these, given one by one or in a list; points in a list."""
        return self._is(Op.IN, _literals(values))

    def between(self, low: Literal, high: Literal) -> Condition:
        return self._is(Op.BETWEEN, (_literal(low), _literal(high)))

    def contains(self, value: Literal | Pattern) -> Condition:
        """On text: these words occur, or the word pattern is satisfied. Else: the value is among the values."""
        return self._is(Op.CONTAINS, value.pattern if isinstance(value, Pattern) else _literal(value))

    def contains_any(self, *values: Literal | Iterable[Literal]) -> Condition:
        return self._is(Op.CONTAINS_ANY, _literals(values))

    def contains_all(self, *values: Literal | Iterable[Literal]) -> Condition:
        return self._is(Op.CONTAINS_ALL, _literals(values))

    def kind_of(self, value: str) -> Condition:
        return self._is(Op.KIND_OF, _literal(value))

    def starts_with(self, *texts: str, every: bool = False, ignoring_case: bool = False) -> Condition:
        """Return: it starts with one of these texts."""
        return self._is(Op.STARTS_WITH, _patterns(texts, every=every, ignoring_case=ignoring_case))

    def ends_with(self, *texts: str, every: bool = False, ignoring_case: bool = False) -> Condition:
        return self._is(Op.ENDS_WITH, _patterns(texts, every=every, ignoring_case=ignoring_case))

    def contains_text(self, *texts: str, every: bool = False, ignoring_case: bool = False) -> Condition:
        """Return: one of these texts is a part of it, or with `every` all are."""
        return self._is(Op.CONTAINS_TEXT, _patterns(texts, every=every, ignoring_case=ignoring_case))

    def like(self, *patterns: str, every: bool = False, ignoring_case: bool = False) -> Condition:
        return self._is(Op.LIKE, _patterns(patterns, every=every, ignoring_case=ignoring_case))

    def matches(self, *patterns: str, every: bool = False, ignoring_case: bool = False) -> Condition:
        """Return: a regular expression, in RE2's syntax, occurs in it."""
        return self._is(Op.MATCHES, _patterns(patterns, every=every, ignoring_case=ignoring_case))

    def in_network(self, *networks: str) -> Condition:
        """Return: it is an address in one of these networks, such as '10.0.0.0/8'."""
        return self._is(Op.IN_NETWORK, _patterns(networks, every=False, ignoring_case=False))

    def within(self, *, of: Literal, **amount: Number) -> Condition:
        """Return: not farther away. Units are keywords: km=5, of=(40.85, -73.88); hours=2, of=datetime(…)."""
        if len(amount) != 1 or not amount.keys() <= UNITS:
            raise ParseError(f"within takes one amount, such as km=5; units are {', '.join(sorted(UNITS))}")
        [(unit, number)] = amount.items()
        return self._is(Op.WITHIN, Within(check_number(number), unit, _literal(of)))

    def in_box(self, south: float, west: float, north: float, east: float) -> Condition:
        return self._is(Op.IN_BOX, Box(*map(check_coordinate, (south, west, north, east))))

    def in_polygon(self, *corners: tuple[float, float]) -> Condition:
        """Return: it lies in the polygon of these corners, its edges included."""
        return self._is(Op.IN_POLYGON, Polygon(check_corners(tuple(_literal(corner) for corner in corners))))  # type: ignore[misc]

    def some(self, condition: Condition | Node) -> Condition:
        """Return: one element of this array of objects satisfies the condition, in which names are those of elements."""
        return self._scope(syntax.Quantifier.SOME, condition)

    def every(self, condition: Condition | Node) -> Condition:
        return self._scope(syntax.Quantifier.EVERY, condition)

    def no(self, condition: Condition | Node) -> Condition:
        return self._scope(syntax.Quantifier.NO, condition)

    def _scope(self, quantifier: syntax.Quantifier, condition: Condition | Node) -> Condition:
        return Condition(syntax.ScopeCondition(quantifier, self._name, node_of(condition)))

    def is_present(self) -> Condition:
        return self._is(Op.PRESENT, None)

    def is_absent(self) -> Condition:
        return self._is(Op.ABSENT, None)


UNITS = frozenset({"m", "km", "mi", "seconds", "minutes", "hours", "days", "weeks"})

attributes = Attributes()


def _literal(value: object) -> Literal:
    if value is None:
        raise ParseError("there is no null; to ask whether there is a value, use is_present() or is_absent()")
    if isinstance(value, Attribute | Formula):
        raise ParseError("an attribute is compared with a constant")
    return check_literal(value)


def _patterns(texts: tuple[str, ...], *, every: bool, ignoring_case: bool) -> Operand:
    found = _literals(texts)
    if len(found) == 1 and not ignoring_case:
        return found[0]
    return TextPatterns(found, every, ignoring_case)  # type: ignore[arg-type]


def _literals(values: tuple[Any, ...]) -> tuple[Literal, ...]:
    if len(values) == 1 and isinstance(values[0], Iterable) and not isinstance(values[0], str):
        values = tuple(values[0])
    if not values:
        raise ParseError("the list is empty; no value would be in it")
    return tuple(map(_literal, values))


# --- word patterns ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pattern:
    """A word pattern under construction."""

    pattern: syntax.WordPattern

    def near(self, least: int, most: int, other: Pattern | str) -> Pattern:
        """Return: these words, then `other`, with `least` to `most` other words between."""
        after = other.pattern if isinstance(other, Pattern) else word(other).pattern
        if not isinstance(self.pattern, syntax.Words) or not isinstance(after, syntax.Words):
            raise ParseError("near stands between words; combine other patterns with & | ~")
        if not 0 <= least <= most <= MAX_GAP:
            raise ParseError(f"near takes the least and the most words between, at most {MAX_GAP:,}: near(1, 5, …)")
        words, gaps = self.pattern.words + after.words, (*self.pattern.gaps, (least, most), *after.gaps)
        return Pattern(syntax.Words(words, gaps))

    def __and__(self, other: Pattern) -> Pattern:
        return Pattern(syntax.WordAnd(self._parts(syntax.WordAnd) + other._parts(syntax.WordAnd)))

    def __or__(self, other: Pattern) -> Pattern:
        return Pattern(syntax.WordOr(self._parts(syntax.WordOr) + other._parts(syntax.WordOr)))

    def __invert__(self) -> Pattern:
        return Pattern(syntax.WordNot(self.pattern))

    def __bool__(self) -> bool:
        raise TypeError(_HOW_TO_COMBINE)

    def _parts(self, connective: type[syntax.WordAnd] | type[syntax.WordOr]) -> tuple[syntax.WordPattern, ...]:
        return self.pattern.parts if isinstance(self.pattern, connective) else (self.pattern,)


def word(text: str) -> Pattern:
    """Return the pattern of a single word, which can be near others."""
    return Pattern(syntax.Words((check_string(text),)))


# --- operators, variables and formulas --------------------------------------------------------------------------------


class Formula:
    """A value expression under construction, of variables and constants; comparing it gives a value constraint."""

    __slots__ = ("expression",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expression: syntax.Expression) -> None:
        self.expression = expression

    def __bool__(self) -> bool:
        raise TypeError(_HOW_TO_COMBINE)

    def __repr__(self) -> str:
        return f"<formula {render(self.expression)}>"

    def _compared(self, op: Op, other: object) -> Condition:
        return Condition(syntax.Comparison(self.expression, op, _expression(other)))

    def __eq__(self, other: Any) -> Condition:  # type: ignore[override]
        return self._compared(Op.EQ, other)

    def __ne__(self, other: Any) -> Condition:  # type: ignore[override]
        return self._compared(Op.NE, other)

    def __lt__(self, other: Formula | Literal) -> Condition:
        return self._compared(Op.LT, other)

    def __le__(self, other: Formula | Literal) -> Condition:
        return self._compared(Op.LE, other)

    def __gt__(self, other: Formula | Literal) -> Condition:
        return self._compared(Op.GT, other)

    def __ge__(self, other: Formula | Literal) -> Condition:
        return self._compared(Op.GE, other)

    def __add__(self, other: Formula | Literal | timedelta) -> Formula:
        return _arithmetic("+", self, other)

    def __radd__(self, other: Literal | timedelta) -> Formula:
        return _arithmetic("+", other, self)

    def __sub__(self, other: Formula | Literal | timedelta) -> Formula:
        return _arithmetic("-", self, other)

    def __rsub__(self, other: Literal | timedelta) -> Formula:
        return _arithmetic("-", other, self)

    def __mul__(self, other: Formula | Literal) -> Formula:
        return _arithmetic("*", self, other)

    def __rmul__(self, other: Literal) -> Formula:
        return _arithmetic("*", other, self)

    def __truediv__(self, other: Formula | Literal) -> Formula:
        return _arithmetic("/", self, other)

    def __rtruediv__(self, other: Literal) -> Formula:
        return _arithmetic("/", other, self)

    def __mod__(self, other: Formula | Literal) -> Formula:
        return _arithmetic("%", self, other)

    def __rmod__(self, other: Literal) -> Formula:
        return _arithmetic("%", other, self)

    def __neg__(self) -> Formula:
        return Formula(syntax.Negative(self.expression))


def _arithmetic(op: str, left: object, right: object) -> Formula:
    return Formula(syntax.Arithmetic(op, _expression(left), _expression(right)))


def _expression(value: object) -> syntax.Expression:
    if isinstance(value, Formula):
        return value.expression
    if isinstance(value, Attribute):
        return syntax.AttributeValue(value._name)
    return syntax.Constant(value if isinstance(value, timedelta) else _literal(value))


def function(name: str, *arguments: Formula | Attribute | Literal) -> Formula:
    """Return what a function gives for these arguments, such as "hour", a.closes, "Europe/Berlin"."""
    return Formula(syntax.Call(check_name(name), tuple(map(_expression, arguments))))


def variable(name: str) -> Formula:
    """Return the variable of that name, for an operator to bind and value constraints to use."""
    return Formula(syntax.Variable(check_name(name)))


def operator(name: str, *arguments: Formula | Literal) -> Condition:
    """Return the condition that a user-supplied operator is; its arguments are constants and variables."""
    return Condition(syntax.OperatorCall(check_name(name), tuple(map(_expression, arguments))))
