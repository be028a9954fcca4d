"""Formulas: value expressions and conditions with their types, ready to be computed.

    case when years_ncd > 7 then 900 else base * (1 + age / 100) end
    age >= 40 and years_ncd >= 3 and price <= 0.1 * income

The text and its tree are those of every expression (parse.py, syntax.py, render.py). formula_bind.py makes a Formula of
a tree by checking it against a Scope: which names and variables there are, of which domains, and which functions may be
called. formula_semantics.py defines what a formula means for one row of values; formula_vector.py computes it for many
rows at once, and is tested against the definition.

The typed nodes below differ from those of syntax.py in two ways: each value knows its domain, and names, variables and
calls are resolved. A variable `?x` is a reference named "?x".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tocsin.language.syntax import Expression, Node, Op, Predicate
from tocsin.schema import BooleanDomain, Domain, NumericDomain, PointDomain, TextDomain, TimeDomain, Value

if TYPE_CHECKING:
    from tocsin.language.formula_columns import Column

# The domains of values that no attribute gives a narrower one: constants and what arithmetic makes.
INT = NumericDomain(name="int", type="int")
FLOAT = NumericDomain(name="float", type="float")
DECIMAL = NumericDomain(name="decimal", type="decimal")
TEXT = TextDomain(name="text")
BOOLEAN = BooleanDomain(name="boolean")
TIME = TimeDomain(name="time")
POINT = PointDomain(name="point")


@dataclass(frozen=True, slots=True)
class Body:
    """What a function computes, where that is a formula over its parameters."""

    parameters: tuple[str, ...]
    formula: ValueFormula


@dataclass(frozen=True, slots=True)
class Function:
    """A function that formulas may call.

    `scalar` takes one value per parameter and returns a value of `returns`, or None for no value; it raises
    FormulaFailed where it has none to give. It is never given an absent argument: the result is absent then. `bulk`,
    where there is one, does the same for columns, without absent rows; it may mark rows as failed.
    """

    name: str
    parameters: tuple[Domain, ...]
    returns: Domain
    scalar: Callable[..., Value | None] = field(compare=False)
    bulk: Callable[[Sequence[Column]], Column] | None = field(default=None, compare=False)
    body: Body | None = field(default=None, compare=False)


# Given a call's name and its leading constant argument (None where it has none): the function, and how many leading
# arguments only chose it. None where there is no such function.
Resolver = Callable[[str, object], "tuple[Function, int] | None"]


def no_functions(_name: str, _first: object) -> None:
    """Resolve nothing."""
    return


def functions_by_name(functions: Mapping[str, Function]) -> Resolver:
    """Return the resolver for functions that are called by their own names."""
    return lambda name, _first: (functions[name], 0) if name in functions else None


@dataclass(frozen=True, slots=True)
class Scope:
    """What a formula may speak of.

    `names` gives the domain of each attribute; those in `multiple` may have several values, so only predicates can ask
    about them. `aliases` maps names as written to names in `names`. `variables` gives the domains of `?x`; None where
    variables make no sense.
    """

    names: Mapping[str, Domain]
    variables: Mapping[str, Domain] | None = None
    resolve: Resolver = no_functions
    aliases: Mapping[str, str] = field(default_factory=dict)
    multiple: frozenset[str] = frozenset()


# --- values -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Given:
    """A constant."""

    value: Value
    domain: Domain


@dataclass(frozen=True, slots=True)
class Reference:
    """The value of an attribute, or of a variable where the name begins with a question mark."""

    name: str
    domain: Domain


@dataclass(frozen=True, slots=True)
class Computed:
    """left op right, both numeric."""

    op: str
    left: Term
    right: Term
    domain: Domain


@dataclass(frozen=True, slots=True)
class Negated:
    part: Term
    domain: Domain


@dataclass(frozen=True, slots=True)
class Choice:
    """The first branch whose condition holds; else `otherwise`; else no value."""

    branches: tuple[tuple[Test, Term], ...]
    otherwise: Term | None
    domain: Domain


@dataclass(frozen=True, slots=True)
class Invoked:
    """A function's result."""

    function: Function
    arguments: tuple[Term, ...]
    domain: Domain


Term = Given | Reference | Computed | Negated | Choice | Invoked


# --- conditions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Satisfies:
    """A predicate of the language about an attribute or variable, its operand canonical."""

    name: str
    predicate: Predicate
    domain: Domain
    multiple: bool = False


@dataclass(frozen=True, slots=True)
class Compared:
    """left op right, compared as values of `domain` (of no domain in particular for numbers)."""

    left: Term
    op: Op
    right: Term
    domain: Domain


@dataclass(frozen=True, slots=True)
class Every:
    parts: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class Some:
    parts: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class Opposite:
    part: Test


@dataclass(frozen=True, slots=True)
class Answered:
    """What a function with a boolean result says."""

    function: Function
    arguments: tuple[Term, ...]


Test = Satisfies | Compared | Every | Some | Opposite | Answered


# --- whole formulas ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ValueFormula:
    """A formula that gives a value of `root.domain`, or none."""

    source: Expression
    root: Term
    names: tuple[str, ...]  # attributes, and variables with their question marks, in the order of first mention

    @property
    def domain(self) -> Domain:
        return self.root.domain


@dataclass(frozen=True, slots=True)
class ConditionFormula:
    """A formula that holds or does not."""

    source: Node
    root: Test
    names: tuple[str, ...]


Formula = ValueFormula | ConditionFormula


def is_numeric(domain: Domain) -> bool:
    return isinstance(domain, NumericDomain)


def is_text_like(domain: Domain) -> bool:
    """Return whether the values are texts, listed or free."""
    return domain.kind in ("text", "enumerated", "hierarchical")


def numeric_type(domain: Domain) -> str:
    """Return 'int', 'float' or 'decimal'."""
    assert isinstance(domain, NumericDomain)
    return domain.type
