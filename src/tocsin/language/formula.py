"""Formulas: what value expressions and conditions may speak of, and what is made of them.

    case when years_ncd > 7 then 900 else base * (1 + age / 100) end
    age >= 40 and years_ncd >= 3 and price <= 0.1 * income

The tree is that of every expression (syntax.py). bind.py makes a formula of it by checking it against a Scope: which names
and variables there are, of which domains, which functions may be called, and which operators. semantics.py defines what a
formula means for one row of values; formula_vector.py computes it for many rows at once, and is tested against it.

Types of formulas: which domain a computed value has, and what may be compared with what.

times      a time and a duration give a time, two times the duration between them; durations are added, subtracted, compared
numbers    int with int gives int, but `/` always gives float; with a float, float; a decimal with an int, decimal
case       the branches agree: all numbers (the widest type), all texts, or all of one kind
compare    numbers with numbers; texts with texts, in order only within one domain; otherwise like with like
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, Protocol

from tocsin.errors import BindError
from tocsin.language import syntax
from tocsin.language.syntax import Expression, Node, OperatorCall
from tocsin.schema import (
    BooleanDomain,
    Domain,
    EnumeratedDomain,
    Event,
    HierarchicalDomain,
    NumericDomain,
    PointDomain,
    TextDomain,
    TimeDomain,
    Value,
    ViewAttribute,
)

if TYPE_CHECKING:
    from tocsin.language.formula_columns import ValueColumn


# The domains of values that no attribute gives a narrower one: constants and what arithmetic makes.
INT = NumericDomain(name="int", type="int")
FLOAT = NumericDomain(name="float", type="float")
DECIMAL = NumericDomain(name="decimal", type="decimal")
TEXT = TextDomain(name="text")
BOOLEAN = BooleanDomain(name="boolean")
TIME = TimeDomain(name="time")
POINT = PointDomain(name="point")


class DurationDomain(NumericDomain, frozen=True, kw_only=True, tag="duration"):
    """Lengths of time, in microseconds; no attribute has one."""

    name: str = "duration"
    type: Literal["int", "float", "decimal"] = "int"


DURATION = DurationDomain()


@dataclass(frozen=True, slots=True)
class Function:
    """A function that formulas may call.

    `scalar` takes one value per parameter and returns a value of `returns`, or None for no value; it raises
    FormulaFailed where it has none to give. It is never given an absent argument: the result is absent then. `bulk`,
    where there is one, does the same for columns, without absent rows; it may mark rows as failed. The first `leading`
    arguments of a call only choose the function. A `lasting` one says the same whenever it is asked, so that results may
    be kept.
    """

    name: str
    parameters: tuple[Domain, ...]
    returns: Domain
    scalar: Callable[..., Value | None] = field(compare=False)
    bulk: Callable[[Sequence[ValueColumn]], ValueColumn] | None = field(default=None, compare=False)
    leading: int = 0
    lasting: bool = False


# Given a call's name and its leading constant argument (None where it has none): the function; None where there is none.
Resolver = Callable[[str, object], Function | None]


def no_functions(_name: str, _first: object) -> None:
    """Resolve nothing."""
    return


# --- operators --------------------------------------------------------------------------------------------------------

Substitution = Mapping[str, Value]  # variable -> value


class Operators(Protocol):
    """The operators that conditions may call: what binding and the definition ask of operators/registry.py."""

    def bind_call(self, call: OperatorCall, attributes: Mapping[str, ViewAttribute]) -> OperatorCall:
        """Return the call with canonical arguments; raises BindError. Its arguments are constants and variables."""

    def variable_domains(self, call: OperatorCall) -> Mapping[str, Domain]:
        """Return the domain of each variable of a bound call."""

    def solutions(self, call: OperatorCall, event: Event) -> Sequence[Substitution]:
        """Return every substitution of the call's variables for which it holds; raises FormulaFailed.

        For a call without variables that is one empty substitution, or none.
        """


class _NoOperators:
    """There are none."""

    def bind_call(self, call: OperatorCall, attributes: Mapping[str, ViewAttribute]) -> OperatorCall:
        del attributes
        raise BindError(f"there is no operator {call.name!r} here", span=call.span)

    def variable_domains(self, call: OperatorCall) -> Mapping[str, Domain]:
        raise AssertionError(f"{call.name} was never bound")

    def solutions(self, call: OperatorCall, event: Event) -> Sequence[Substitution]:
        del event
        raise AssertionError(f"{call.name} was never bound")


NO_OPERATORS: Operators = _NoOperators()


# --- scopes and formulas ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scope:
    """What a condition or formula may speak of.

    `attributes` has each by the name that it has in a bound tree, `aliases` further names as written. `variables` gives the
    domains of `?x`; None where variables make no sense. `unknown` says what is wrong with a name that is in neither.
    `trusted` is for trees that were bound before, under the view of their own event types: a name that has one value there
    may have several elsewhere, and is absent from formulas then.
    """

    attributes: Mapping[str, ViewAttribute]
    variables: Mapping[str, Domain] | None = None
    resolve: Resolver = no_functions
    aliases: Mapping[str, str] = field(default_factory=dict)
    operators: Operators | None = None  # None where calls of operators make no sense
    unknown: Callable[[str], str] | None = None
    trusted: bool = False
    has_arrival: bool = False  # whether there is a `now()`: in subscriptions
    arrays: tuple[str, ...] = ()  # of whose elements it speaks, the innermost first

    @classmethod
    def of(cls, names: Mapping[str, Domain], variables: Mapping[str, Domain] | None = None, **more: object) -> Scope:
        """Return the scope of names with one value each."""
        return cls({name: one_value(name, domain) for name, domain in names.items()}, variables, **more)  # type: ignore[arg-type]


def one_value(name: str, domain: Domain) -> ViewAttribute:
    """Return an attribute with one value."""
    return ViewAttribute(name, domain, mandatory=False, multiple=False, ever_multiple=False)


@dataclass(frozen=True, slots=True)
class ValueFormula:
    """A formula that gives a value of its domain, or none. `names` are those it mentions, as keys, each once."""

    root: Expression
    names: tuple[str, ...]

    @property
    def domain(self) -> Domain:
        return domain_of(self.root)


@dataclass(frozen=True, slots=True)
class ConditionFormula:
    """A formula that holds or does not."""

    root: Node
    names: tuple[str, ...]


def domain_of(bound: Expression) -> Domain:
    """Return the domain of a bound expression's value."""
    assert bound.domain is not None, "an expression that was not bound"
    return bound.domain


def is_numeric(domain: Domain) -> bool:
    return isinstance(domain, NumericDomain) and not isinstance(domain, DurationDomain)


def is_text_like(domain: Domain) -> bool:
    """Return whether the values are texts, listed or free."""
    return domain.kind in ("text", "enumerated", "hierarchical")


def numeric_type(domain: Domain) -> str:
    """Return 'int', 'float' or 'decimal'."""
    assert isinstance(domain, NumericDomain)
    return domain.type


# Types of formulas.


_WIDTH = {"int": 0, "decimal": 1, "float": 2}
_UNORDERED_TEXT = TextDomain(name="text", operators=frozenset({"=", "!="}))
_SAID = {
    "text": "text", "boolean": "true or false", "time": "a time", "point": "a point", "object": "an object",
    "duration": "a duration", "ip": "an address", "dynamic": "of no declared type",
}  # fmt: skip


_TIMES: Mapping[tuple[str, str, str], Domain] = {
    ("time", "+", "duration"): TIME,
    ("duration", "+", "time"): TIME,
    ("time", "-", "duration"): TIME,
    ("time", "-", "time"): DURATION,
    ("duration", "+", "duration"): DURATION,
    ("duration", "-", "duration"): DURATION,
}


def domain_of_literal(value: syntax.Literal | timedelta) -> Domain:
    """Return the domain of a constant by itself."""
    match value:
        case bool():
            return BOOLEAN
        case int():
            return INT
        case float():
            return FLOAT
        case Decimal():
            return DECIMAL
        case str():
            return TEXT
        case datetime():
            return TIME
        case timedelta():
            return DURATION
        case _:
            return POINT


def plain_number(domain: Domain) -> Domain:
    """Return the domain of all numbers of the domain's type."""
    return {"int": INT, "float": FLOAT, "decimal": DECIMAL}[numeric_type(domain)]


def arithmetic_domain(op: str, left: Domain, right: Domain) -> Domain | None:
    """Return the domain of left op right; None where there is no such thing."""
    if not (is_numeric(left) and is_numeric(right)):
        kinds = (left.kind, op, right.kind)
        if kinds in _TIMES:
            return _TIMES[kinds]
        whole = is_numeric(right) and numeric_type(right) == "int"
        return DURATION if left == DURATION and op == "*" and whole else None
    wider = max(plain_number(left), plain_number(right), key=lambda domain: _WIDTH[numeric_type(domain)])
    return FLOAT if op == "/" and wider == INT else wider


def common_domain(one: Domain, other: Domain) -> Domain | None:
    """Return the domain of a value that comes from one of the two; None where they are not alike."""
    if one == other:
        return one
    if is_numeric(one) and is_numeric(other):
        return max(plain_number(one), plain_number(other), key=lambda domain: _WIDTH[numeric_type(domain)])
    if is_text_like(one) and is_text_like(other):
        return TEXT
    return one if one.kind == other.kind else None


def comparing_domain(one: Domain, other: Domain) -> Domain | None:
    """Return the domain by whose keys values of the two are compared; None where they cannot be."""
    if is_numeric(one) and is_numeric(other):
        return FLOAT
    if is_text_like(one) and is_text_like(other):
        if one == other:
            return one
        if isinstance(one, TextDomain) and isinstance(other, TextDomain):
            return one if one.case == "folded" else other
        return _UNORDERED_TEXT
    return one if one.kind == other.kind else None


def is_ordered(domain: Domain) -> bool:
    """Return whether values of the domain can be compared by more than equality."""
    if isinstance(domain, EnumeratedDomain):
        return domain.order != "none"
    return isinstance(domain, HierarchicalDomain) or (
        domain.kind in ("numeric", "text", "time", "duration", "ip") and "<" in domain.offered
    )


def fits(found: Domain, wanted: Domain) -> bool:
    """Return whether a formula's value is of the kind that an attribute has."""
    if is_numeric(wanted):
        return is_numeric(found)
    return is_text_like(found) if is_text_like(wanted) else found.kind == wanted.kind


def kind_of(domain: Domain) -> str:
    """Return the domain's kind, all texts being of one."""
    return "text" if is_text_like(domain) else domain.kind


def said(domain: Domain) -> str:
    """Return how messages call a value of the domain."""
    if is_numeric(domain):
        return {"int": "a whole number", "float": "a number", "decimal": "a decimal number"}[numeric_type(domain)]
    return _SAID[kind_of(domain)]
