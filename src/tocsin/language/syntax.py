"""The syntax tree: what a subscription is, whichever of its forms it was written in.

The text form (parse.py), the builder (builder.py), the JSON tree and the bulk form (documents.py) all make these nodes;
bind.py checks them against a schema and gives them their types; semantics.py says what they mean.
Nodes are values: frozen, hashable, equal when they say the same. What does not take part in equality: a span, which
tells where in the text a node stood, and what binding adds: the domain of a value, whether an attribute may have several,
the function that a call calls.

Names in a bound tree: an attribute of the event goes by its own name, a property of the subscriber by that of its type
too (`driver.age`). Where names are keys, a variable is `?people`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

from tocsin.errors import Span
from tocsin.schema import Domain, Point

if TYPE_CHECKING:
    from tocsin.language.formula import Function


Literal = bool | int | float | Decimal | str | datetime | Point


class Op(StrEnum):
    """The operators of predicates, as the text form writes them."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    BETWEEN = "between"
    CONTAINS = "contains"
    CONTAINS_ANY = "contains any"
    CONTAINS_ALL = "contains all"
    KIND_OF = "kind of"
    STARTS_WITH = "starts with"
    ENDS_WITH = "ends with"
    CONTAINS_TEXT = "contains text"
    LIKE = "like"
    MATCHES = "matches"
    IN_NETWORK = "in network"
    WITHIN = "within"
    IN_BOX = "in box"
    IN_POLYGON = "in polygon"
    PRESENT = "is present"
    ABSENT = "is absent"


# --- word patterns: the WP model of DIAS (thesis, section 2.2) --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Words:
    """Words in this order, with gaps[i] = (least, most) other words between words[i] and words[i + 1].

    A single word has no gaps. `'boolean' near[1..5] 'proximity'`.
    """

    words: tuple[str, ...]
    gaps: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class WordAnd:
    parts: tuple[WordPattern, ...]


@dataclass(frozen=True, slots=True)
class WordOr:
    parts: tuple[WordPattern, ...]


@dataclass(frozen=True, slots=True)
class WordNot:
    part: WordPattern


WordPattern = Words | WordAnd | WordOr | WordNot


# --- operands ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Within:
    """`within 5 km of (40.85, -73.88)` for points, `within 2 hours of time '...'` for instants.

    Units: m, km, mi for points; seconds, minutes, hours, days, weeks for time.
    """

    amount: int | float | Decimal
    unit: str
    center: Literal


@dataclass(frozen=True, slots=True)
class Box:
    """`in box (south, west, north, east)`; a box whose west is greater than its east crosses the 180th meridian."""

    south: float
    west: float
    north: float
    east: float


@dataclass(frozen=True, slots=True)
class Polygon:
    """`in polygon ((lat, lon), …)`: the corners in their order; the last is joined with the first."""

    corners: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class TextPatterns:
    """Several patterns, or one without regard to case: `like any ('a%', 'b%')`, `ends with '.exe' ignoring case`.

    One of them is enough, or with `every` all are needed.
    """

    texts: tuple[str, ...]
    every: bool = False
    ignoring_case: bool = False


PATTERN_OPERATORS = frozenset({Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS_TEXT, Op.LIKE, Op.MATCHES, Op.IN_NETWORK})

Operand = Literal | tuple[Literal, ...] | WordPattern | TextPatterns | Within | Box | Polygon | None


# --- boolean expressions ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Predicate:
    """attribute, operator, operand.

    The operand is a literal; for `in`, `contains any` and `contains all` a tuple of literals; for `between` a pair;
    for `contains` a literal or a word pattern; for the operators of patterns a text or TextPatterns; for `within` a Within,
    for `in box` a Box, for `in polygon` a Polygon; for `is present` and `is absent` None.
    """

    attribute: str
    op: Op
    operand: Operand = None
    span: Span | None = field(default=None, compare=False, repr=False)  # of the whole predicate
    operand_span: Span | None = field(default=None, compare=False, repr=False)
    attribute_span: Span | None = field(default=None, compare=False, repr=False)
    domain: Domain | None = field(default=None, compare=False, repr=False)
    multiple: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold. And(()) always holds."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Some part holds. Or(()) never holds."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Node


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """A user-supplied operator as a predicate: `locIn('Bronx')`, `mobPattern(?people)`."""

    name: str
    arguments: tuple[Expression, ...]
    span: Span | None = field(default=None, compare=False, repr=False)
    function: Function | None = field(
        default=None, compare=False, repr=False
    )  # where it is no operator, but a function that says true or false


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of two expressions: `price < 0.8 * estimate`, `price <= 20 * age`; a value constraint: `?y > 2 * ?z`.

    They are compared as values of `domain`; of no domain in particular for numbers.
    """

    left: Expression
    op: Op
    right: Expression
    span: Span | None = field(default=None, compare=False, repr=False)
    domain: Domain | None = field(default=None, compare=False, repr=False)


class Quantifier(StrEnum):
    """Of how many elements of an array a scope speaks."""

    SOME = "some"
    EVERY = "every"
    NO = "no"


@dataclass(frozen=True, slots=True)
class ScopeCondition:
    """A condition on single elements of an array of objects: `some items (sku = 'A' and qty > 3)`.

    Within, a name is that of an element's attribute where there is one, else what it is outside. In a bound tree the
    attributes of elements go by their whole names: `items.sku`.
    """

    quantifier: Quantifier
    array: str
    part: Node
    span: Span | None = field(default=None, compare=False, repr=False)
    array_span: Span | None = field(default=None, compare=False, repr=False)


Leaf = Predicate | OperatorCall | Comparison | ScopeCondition
Node = Leaf | And | Or | Not

ALWAYS = And(())
NEVER = Or(())


# --- value expressions: formulas --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constant:
    """A value; a length of time stands in formulas alone."""

    value: Literal | timedelta
    span: Span | None = field(default=None, compare=False, repr=False)
    domain: Domain | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AttributeValue:
    """The value of an attribute (or property) of that name."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)
    domain: Domain | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Variable:
    """`?people`: bound by an operator, shared within one branch of a condition."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)
    domain: Domain | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """left op right, op one of + - * / %."""

    op: str
    left: Expression
    right: Expression
    domain: Domain | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negative:
    part: Expression
    domain: Domain | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Case:
    """`case when … then … else … end`: the first branch whose condition holds; None where there is no else."""

    branches: tuple[tuple[Node, Expression], ...]
    otherwise: Expression | None
    domain: Domain | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A registered function as a value: `program('auto_price', age)`."""

    name: str
    arguments: tuple[Expression, ...]
    span: Span | None = field(default=None, compare=False, repr=False)
    domain: Domain | None = field(default=None, compare=False, repr=False)
    function: Function | None = field(default=None, compare=False, repr=False)


Expression = Constant | AttributeValue | Variable | Arithmetic | Negative | Case | Call


# --- subscriptions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Subscription:
    """A standing question: of these event types (of any, where none is named), those for which `where` holds.

    `properties` say who asks (`with age = 42`), for publishers that choose their subscribers.
    """

    event_types: tuple[str, ...]
    where: Node
    properties: tuple[tuple[str, Literal], ...] = ()
    event_type_spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)
    property_spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)


# --- walking ----------------------------------------------------------------------------------------------------------


def leaves(node: Node) -> Iterator[Leaf]:
    """Yield the leaves of a condition, in the order of the text."""
    match node:
        case And(parts) | Or(parts):
            for part in parts:
                yield from leaves(part)
        case Not(part):
            yield from leaves(part)
        case _:
            yield node


def names_of(tree: Node | Expression) -> Iterator[str]:
    """Yield the names that a condition or expression mentions, as keys, in the order of the text; some more than once."""
    match tree:
        case Predicate(name) | AttributeValue(name):
            yield name
        case ScopeCondition(_, array, part):  # elements bring their own values
            yield array
            yield from (name for name in names_of(part) if not name.startswith(f"{array}."))
        case Variable(name):
            yield f"?{name}"
        case Not(part) | Negative(part):
            yield from names_of(part)
        case Comparison(left, _, right) | Arithmetic(_, left, right):
            yield from names_of(left)
            yield from names_of(right)
        case And(parts) | Or(parts) | Call(_, parts) | OperatorCall(_, parts):
            for part in parts:
                yield from names_of(part)
        case Case(branches, otherwise):
            for when, then in branches:
                yield from names_of(when)
                yield from names_of(then)
            if otherwise is not None:
                yield from names_of(otherwise)
        case _:
            return
