"""Bounds: predicates as intervals of keys. Keys are those of the domain, as floats; texts are numbered as they come."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from tocsin.language.formula import ConditionFormula
from tocsin.language.formula_columns import EXACT
from tocsin.language.syntax import Node, Op, Predicate
from tocsin.schema import Domain, HierarchicalDomain, Value
from tocsin.symmetric.meeting import Meeting
from tocsin.symmetric.relax import relaxed

_BY_ORDER = frozenset({Op.LT, Op.LE, Op.GT, Op.GE, Op.BETWEEN})


class Bound(NamedTuple):
    """The keys from low to high of an attribute; only values that are floats exactly can be compared with it."""

    attribute: str
    low: float
    high: float


class Sides(NamedTuple):
    """The domains of what bounds are about, and of one's own names; book.py has it the other way round."""

    event_domains: Mapping[str, Domain]
    property_domains: Mapping[str, Domain]
    multiple: frozenset[str]


class Keys:
    """The keys of an event's values, and the bounds that predicates on them are."""

    def __init__(self, meeting: Meeting | Sides) -> None:
        self.meeting = meeting
        self.own = frozenset(meeting.property_domains)
        self._texts: dict[str, dict[str, int]] = {}

    def bounds_of(self, formulas: Iterable[ConditionFormula]) -> list[Bound] | None:
        """Return the bounds that these parts are, whatever one's own properties; None where one is no bound."""
        found: list[Bound] = []
        for formula in formulas:
            if not self.own.isdisjoint(formula.names):
                return None
            node, exact = relaxed(formula.root, {}, self.own, frozenset())
            bound = self.bound_of(node) if exact else None
            if bound is None:
                return None
            found.append(bound)
        return found

    def bound_of(self, node: Node) -> Bound | None:
        """Return the bound that a predicate is; None where it is none."""
        if not isinstance(node, Predicate) or node.attribute in self.meeting.multiple:
            return None
        domain = self.meeting.event_domains[node.attribute]
        operand: Any = node.operand
        if node.op is Op.KIND_OF and isinstance(domain, HierarchicalDomain):
            first, last = domain.intervals[operand]
            return Bound(node.attribute, float(first), float(last))
        if node.op is not Op.EQ and (node.op not in _BY_ORDER or domain.kind not in ("numeric", "time")):
            return None
        ends = operand if node.op is Op.BETWEEN else (operand, operand)
        low, high = (self.key(node.attribute, domain, end, intern=True) for end in ends)
        if low is None or high is None:
            return None
        match node.op:
            case Op.LT:
                return Bound(node.attribute, -math.inf, math.nextafter(high, -math.inf))
            case Op.LE:
                return Bound(node.attribute, -math.inf, high)
            case Op.GT:
                return Bound(node.attribute, math.nextafter(low, math.inf), math.inf)
            case Op.GE:
                return Bound(node.attribute, low, math.inf)
            case _:
                return Bound(node.attribute, low, high)

    def key(self, attribute: str, domain: Domain, value: Value, *, intern: bool = False) -> float | None:
        """Return the key of a value as a float; None where that is not exact, or the domain has no such keys."""
        if domain.kind == "point":
            return None
        key = domain.key(value)
        if isinstance(key, str):
            texts = self._texts.setdefault(attribute, {})
            return float(texts.setdefault(key, len(texts)) if intern else texts.get(key, -1))
        if isinstance(key, Decimal) or (isinstance(key, int) and abs(key) > EXACT):
            return None
        return float(key)  # type: ignore[arg-type]

    def key_of(self, attribute: str, value: Value | None) -> float | str | None:
        """Return what a value is compared by: a float, or a text whose number `number_of` has; None where neither is exact."""
        domain = self.meeting.event_domains[attribute]
        if value is None or domain.kind == "point":
            return None
        key = domain.key(value)
        return key if isinstance(key, str) else self.key(attribute, domain, value)

    def number_of(self, attribute: str, text: str) -> int:
        """Return the number of a text, -1 where no row wants it."""
        return self._texts.get(attribute, {}).get(text, -1)
