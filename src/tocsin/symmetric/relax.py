"""What of a subscriber's condition can be decided from an offer's static attributes alone.

`relaxed` turns a part into plain predicates on those attributes, such as the columnar engine indexes. The subscriber's
own properties are known, so what asks about them alone is decided, and `price <= budget` becomes `price <= 700`. What
depends on a dynamic attribute, or is no predicate, becomes `true`: the result then holds whenever the part may hold, and
is not exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from tocsin.errors import FormulaFailed
from tocsin.language.formula import Compared, Every, Opposite, Reference, Satisfies, Some, Term, Test, is_numeric
from tocsin.language.formula_semantics import is_true, value_of
from tocsin.language.syntax import ALWAYS, NEVER, And, Node, Not, Op, Or, Predicate
from tocsin.schema import Value
from tocsin.symmetric.semantics import names_of

_TURNED = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_EXACT = 2**53


class Relaxed(NamedTuple):
    """Predicates on static attributes, and whether they say all that the part says."""

    node: Node
    exact: bool


_UNKNOWN = Relaxed(ALWAYS, False)


def relaxed(
    test: Test, properties: Mapping[str, Value], own: frozenset[str], dynamic: frozenset[str], *, negated: bool = False
) -> Relaxed:
    """Return the test, or its negation, over static attributes; `own` are the names of all properties."""
    match test:
        case Every(parts) | Some(parts):
            inner = [relaxed(part, properties, own, dynamic, negated=negated) for part in parts]
            connective = And if isinstance(test, Every) != negated else Or
            nodes = tuple(part.node for part in inner)
            return Relaxed(nodes[0] if len(nodes) == 1 else connective(nodes), all(part.exact for part in inner))
        case Opposite(part):
            return relaxed(part, properties, own, dynamic, negated=not negated)
        case Satisfies(name, predicate) if name not in own:
            if name in dynamic:
                return _UNKNOWN
            return Relaxed(_signed(replace(predicate, attribute=name), negated=negated), True)
        case _ if own.issuperset(names_of(test)):
            return _decided(test, properties, negated=negated)
        case Compared():
            return _predicate(test, properties, own, dynamic, negated=negated)
        case _:
            return _UNKNOWN


def _signed(predicate: Predicate, *, negated: bool) -> Node:
    return Not(predicate) if negated else predicate


def _decided(test: Test, properties: Mapping[str, Value], *, negated: bool) -> Relaxed:
    """Return what the properties alone decide."""
    try:
        return Relaxed(ALWAYS if is_true(test, properties, negated=negated) else NEVER, True)
    except FormulaFailed:
        return _UNKNOWN  # a failure must come out as one


def _predicate(
    test: Compared, properties: Mapping[str, Value], own: frozenset[str], dynamic: frozenset[str], *, negated: bool
) -> Relaxed:
    """Return `attribute op something of one's own` as a predicate."""
    for attribute, other, op in ((test.left, test.right, test.op), (test.right, test.left, _TURNED[test.op])):
        if _is_static(attribute, own, dynamic) and own.issuperset(names_of(other)):
            assert isinstance(attribute, Reference)
            try:
                value: Any = value_of(other, properties)
            except FormulaFailed:
                return _UNKNOWN
            if value is None:
                return Relaxed(NEVER, True)
            if is_numeric(test.domain) and abs(value) < _EXACT:  # a float attribute is compared as the nearest float
                return Relaxed(_signed(Predicate(attribute.name, op, value), negated=negated), True)
    return _UNKNOWN


def _is_static(term: Term, own: frozenset[str], dynamic: frozenset[str]) -> bool:
    return isinstance(term, Reference) and term.name not in own and term.name not in dynamic
