"""The syntax tree: what a subscription is, whichever of its forms it was written in.

The text form (parse.py), the JSON tree (json_form.py), the builder (builder.py) and the bulk form (bulk_form.py) all
make these nodes; bind.py checks them against a schema; semantics.py says what they mean. Nodes are values: frozen,
hashable, equal when they say the same. A span, where there is one, tells where in the text a node stood; it never
takes part in equality.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from tocsin.errors import Span
from tocsin.schema import Point

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
    LIKE = "like"
    WITHIN = "within"
    IN_BOX = "in box"
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


Operand = Literal | tuple[Literal, ...] | WordPattern | Within | Box | None


# --- boolean expressions ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Predicate:
    """attribute, operator, operand.

    The operand is a literal; for `in`, `contains any` and `contains all` a tuple of literals; for `between` a pair;
    for `contains` a literal or a word pattern; for `within` a Within, for `in box` a Box; for `is present` and
    `is absent` None.
    """

    attribute: str
    op: Op
    operand: Operand = None
    span: Span | None = field(default=None, compare=False, repr=False)  # of the whole predicate
    operand_span: Span | None = field(default=None, compare=False, repr=False)
    attribute_span: Span | None = field(default=None, compare=False, repr=False)


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


@dataclass(frozen=True, slots=True)
class Constraint:
    """A comparison of two expressions: `?y > 2 * ?z`."""

    left: Expression
    op: Op
    right: Expression
    span: Span | None = field(default=None, compare=False, repr=False)


Node = Predicate | And | Or | Not | OperatorCall | Constraint

ALWAYS = And(())
NEVER = Or(())


# --- value expressions: for value constraints, rules and programs ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constant:
    value: Literal
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AttributeValue:
    """The value of an attribute (or property) of that name."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Variable:
    """`?people`: bound by an operator, shared within one subscription."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """left op right, op one of + - * / %."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Negative:
    part: Expression


@dataclass(frozen=True, slots=True)
class Case:
    """`case when … then … else … end`; None where there is no else."""

    branches: tuple[tuple[Node, Expression], ...]
    otherwise: Expression | None


@dataclass(frozen=True, slots=True)
class Call:
    """A registered function as a value: `program('auto_price', age)`."""

    name: str
    arguments: tuple[Expression, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


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
