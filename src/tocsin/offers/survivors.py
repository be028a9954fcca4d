"""Survivors of the scan: what could not be told by bitmaps is decided, cheapest first, and attributes are computed.

Offers are looked at in groups: those whose computed values are kept, or whose formulas have one shape, together; one with
rules that are no intervals, alone. What became of a pair is decided as language/semantics.py says: a refusal wins
over a failure, and of failures the first is told, computed attributes before rules.

Shapes of formulas: those of many offers that differ in their constants only are computed together.

    case when years_ncd > 7 then 300 + (90 - age) * 4 else 500 end
    case when years_ncd > 7 then 320 + (90 - age) * 3 else 480 end      the same shape

In a shape each number stands as a name of its own, whose value is that of the offer; so do the attributes of the event.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.compile.properties import united
from tocsin.language.formula import ValueFormula, domain_of
from tocsin.language.formula_columns import ValueColumn, absent_column, column_of
from tocsin.language.formula_vector import condition_column
from tocsin.language.offer import ComputedAttribute, Offer
from tocsin.language.semantics import Row
from tocsin.language.syntax import (
    And,
    Arithmetic,
    AttributeValue,
    Call,
    Case,
    Comparison,
    Constant,
    Expression,
    Negative,
    Node,
    Not,
    OperatorCall,
    Or,
    Predicate,
    ScopeCondition,
)
from tocsin.offers import scan_kernel as k
from tocsin.offers.requests import CodedPairs, CodedValues, Computing, Kept, Known, Rest, compute, given_of
from tocsin.schema import Domain, Value


class FormulaShape(NamedTuple):
    """A formula without its constants; `key` is the same for formulas of one shape, `given` what the offer says.

    given[i] is the domain and the value, None where it is absent, of the name #i.
    """

    key: Hashable
    formula: ValueFormula
    given: list[tuple[Domain, Value | None]]


def shape_of(attribute: ComputedAttribute, row: Row, others: Collection[str]) -> FormulaShape | None:
    """Return the shape of an attribute's formula for an offer of these values; None where it has none.

    `others` are the names that are no matter of the offer: properties, and what else it computes.
    """
    work, formula = _Shaping(row, others), attribute.formula
    try:
        root = work.value(formula.root)
    except _NoShape:
        return None
    names = (*(name for name in formula.names if name in others), *work.names)
    domains = tuple(domain.name for domain, _ in work.given)
    key = attribute.name, root, domains, tuple(map(id, work.functions))
    return FormulaShape(key, ValueFormula(root, names), work.given)


class _NoShape(Exception):
    """A predicate asks about the event, whose attribute may have several values."""


class _Shaping:
    def __init__(self, row: Row, others: Collection[str]) -> None:
        self.row, self.others = row, others
        self.given: list[tuple[Domain, Value | None]] = []
        self.names: list[str] = []
        self.functions: list[Any] = []  # trees that call different versions of a program are equal

    def _given(self, domain: Domain, value: Value | None) -> AttributeValue:
        self.names.append(f"#{len(self.given)}")
        self.given.append((domain, value))
        return AttributeValue(self.names[-1], domain=domain)

    def value(self, tree: Expression) -> Expression:
        match tree:
            case Constant(value) if domain_of(tree).kind == "numeric" and not isinstance(value, timedelta):
                return self._given(domain_of(tree), value)
            case AttributeValue(name) if name not in self.others:
                values = self.row.get(name)
                return self._given(domain_of(tree), values[0] if values is not None and len(values) == 1 else None)
            case Negative(part):
                return Negative(self.value(part), tree.domain)
            case Arithmetic(op, left, right):
                return Arithmetic(op, self.value(left), self.value(right), tree.domain)
            case Case(branches, otherwise):
                shaped = tuple((self.node(when), self.value(then)) for when, then in branches)
                return Case(shaped, None if otherwise is None else self.value(otherwise), tree.domain)
            case Call(_, arguments, function=function):
                assert function is not None
                self.functions.append(function)
                leading, rest = arguments[: function.leading], arguments[function.leading :]
                return replace(tree, arguments=(*leading, *map(self.value, rest)))
            case _:
                return tree

    def node(self, node: Node) -> Node:
        match node:
            case And(parts) | Or(parts):
                return type(node)(tuple(map(self.node, parts)))
            case Not(part):
                return Not(self.node(part))
            case Comparison(left, op, right):
                return Comparison(self.value(left), op, self.value(right), domain=node.domain)
            case Predicate(name) if name not in self.others:
                raise _NoShape
            case ScopeCondition():
                raise _NoShape
            case OperatorCall(_, arguments, function=function):
                assert function is not None
                self.functions.append(function)
                leading, rest = arguments[: function.leading], arguments[function.leading :]
                return replace(node, arguments=(*leading, *map(self.value, rest)))
            case _:
                return node


# Survivors of the scan.


Int64s = npt.NDArray[np.int64]
Computed = tuple[tuple[Known, Kept | None], ...]  # the computed attributes of an offer
_NOT_FAILED = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class OfferCandidates:
    """Pairs of an offer and a row that nothing refused so far, ordered by offer.

    `computed` has the attributes that offers compute, a value for each candidate; absent where its offer computes no such
    attribute. failure[i] is 0, or the number of the reason (from 1) why something could not be computed or decided.
    """

    offer: k.Int32s  # position among the offers
    number: k.Int32s  # of the subscription, in the segment
    row: k.Int32s  # of the segment: the conjunction that may hold
    computed: dict[str, ValueColumn]
    failure: k.Int32s
    reasons: list[str]

    def __len__(self) -> int:
        return len(self.offer)


class Static(NamedTuple):
    """The static values of offers, codes[column, offer], and the least and greatest of each where they are several.

    ABSENT, or UNKNOWN where the offer computes the attribute. Columns in `lists` have the number of the offer's list in
    place of a code. `several` says which offers have several codes somewhere.
    """

    codes: k.Int32s
    least: k.Int32s
    greatest: k.Int32s
    lists: Mapping[int, tuple[Int64s, k.Int32s]]
    several: k.Flags


@dataclass(slots=True)
class _Group:
    """Offers that are looked at together; where they are several, `shapes` are those of each, unless all is kept."""

    computed: Computed  # of the first
    rest: Sequence[Rest] = ()
    offers: list[int] = field(default_factory=list)
    shapes: list[tuple[FormulaShape, ...]] = field(default_factory=list)
    known: list[Computed] = field(default_factory=list)


@dataclass(slots=True)
class _Pairs:
    """OfferCandidates on their way: which offer, which row (by position), what was computed, what failed first."""

    offer: k.Int32s
    position: k.Int32s
    columns: dict[str, ValueColumn]
    rank: k.Int32s  # of what failed first: computed attributes come before rules
    reason: k.Int32s

    @classmethod
    def of(cls, offer: k.Int32s, position: k.Int32s) -> _Pairs:
        return cls(offer, position, {}, np.full(len(offer), _NOT_FAILED, np.int32), np.zeros(len(offer), np.int32))

    def __len__(self) -> int:
        return len(self.offer)

    def keep(self, chosen: k.Flags) -> None:
        """Let go of all pairs but these."""
        if chosen.all():
            return
        self.offer, self.position = self.offer[chosen], self.position[chosen]
        self.rank, self.reason = self.rank[chosen], self.reason[chosen]
        self.columns = {name: column.take(chosen) for name, column in self.columns.items()}


class Survivors:
    """Decides what the scan of one batch has left."""

    def __init__(
        self,
        computing: Computing,
        offers: Sequence[Offer],
        computed: Sequence[Computed],
        rest: Mapping[int, Sequence[Rest]],
        static: Static,
    ) -> None:
        self.computing, self.rows = computing, computing.rows
        self.offers, self.computed, self.rest, self.static = offers, computed, rest, static
        self.reasons: dict[str, int] = {}

    def candidates(self, offer: k.Int32s, positions: k.Int32s, starts: Int64s) -> OfferCandidates:
        """Return who is left of these pairs; those of offer o are at starts[o] .. starts[o + 1]."""
        done = []
        groups = self._grouped(np.flatnonzero(np.diff(starts)).tolist())
        for group in groups:
            if len(groups) == 1:
                pairs = _Pairs.of(offer, positions)
            else:
                spans = [slice(starts[at], starts[at + 1]) for at in group.offers]
                pairs = _Pairs.of(
                    np.concatenate([offer[span] for span in spans]), np.concatenate([positions[span] for span in spans])
                )
            self._decide(group, pairs)
            done.append(pairs)
        return self._joined(done)

    # --- groups -------------------------------------------------------------------------------------------------------

    def _grouped(self, offers: Iterable[int]) -> list[_Group]:
        together: dict[Any, _Group] = {}
        groups: list[_Group] = []
        for at in offers:
            computed, rest = self.computed[at], self.rest.get(at, ())
            shapes: tuple[FormulaShape, ...] | None = None
            key: Any = None
            if not rest and all(kept is not None for _, kept in computed):
                key = tuple([id(known) for known, _ in computed])
            elif not rest and not any(kept is not None for _, kept in computed):
                shapes = self._shapes(self.offers[at])
                key = shapes and tuple([shape.key for shape in shapes])
            group = None if key is None else together.get(key)
            if group is None:
                group = _Group(computed, rest)
                groups.append(group)
                if key is not None:
                    together[key] = group
            group.offers.append(at)
            group.known.append(computed)
            if shapes is not None:
                group.shapes.append(shapes)
        return groups

    def _shapes(self, offer: Offer) -> tuple[FormulaShape, ...] | None:
        """Return the shapes of an offer's formulas; None where one has none."""
        others = self.computing.own | {each.name for each in offer.computed}
        found = [shape_of(each, offer.values, others) for each in offer.computed]
        return tuple(each for each in found if each is not None) if None not in found else None

    # --- deciding -----------------------------------------------------------------------------------------------------

    def _decide(self, group: _Group, pairs: _Pairs) -> None:
        """Let go of those of a group's pairs that something refuses; add what is computed for the others."""
        names = {known.attribute.name for known, _ in group.computed}
        early = [each for each in group.rest if names.isdisjoint(each.condition.names)]
        self._decide_rules(early, group, pairs)
        rows = self.rows
        if rows.some_loose or self.static.lists:
            unsure = rows.loose[pairs.position] | self.static.several[pairs.offer]
            if unsure.any():
                self._decide_rows(pairs, np.flatnonzero(unsure), {})
        if not group.computed:
            return
        coded = self._compute(group, pairs)
        # Rows that accept what is kept were found by the scan, unless hulls do not tell all that they ask.
        if coded and (rows.some_loose or self.static.lists or any(of.is_list for _, of in coded.values())):
            self._decide_rows(pairs, np.arange(len(pairs)), self._with_kept(group, pairs, coded))
        elif coded:  # hulls tell all
            keep = np.ones(len(pairs), np.bool_)
            for column, (values, _) in coded.items():
                k.accept(pairs.position, values, *rows.hull(column), keep)
            pairs.keep(keep)
        elif rows.some_loose and (unsure := rows.loose[pairs.position]).any():
            self._decide_rows(pairs, np.flatnonzero(unsure), self._with_kept(group, pairs, coded))
        self._decide_rules([each for each in group.rest if each not in early], group, pairs)

    @staticmethod
    def _with_kept(group: _Group, pairs: _Pairs, coded: CodedPairs) -> CodedPairs:
        for _, kept in group.computed:
            if kept is not None:
                coded |= kept.codes(pairs.position)
        return coded

    def _decide_rows(self, pairs: _Pairs, chosen: Int64s, coded: CodedPairs) -> None:
        """Let go of those of the chosen pairs whose rows do not hold."""
        computed = {column: (values[chosen], of) for column, (values, of) in coded.items()}
        given = given_of(self.static.codes, self.static.lists, computed)
        keep = np.ones(len(pairs), np.bool_)
        keep[chosen] = self.rows.holding(given, pairs.position[chosen], pairs.offer[chosen])
        pairs.keep(keep)

    def _compute(self, group: _Group, pairs: _Pairs) -> CodedPairs:
        """Add the computed attributes to the pairs; return what those that are not kept are in the tier's columns."""
        coded: CodedPairs = {}
        properties: dict[str, ValueColumn] | None = None
        for rank, (known, kept) in enumerate(group.computed):
            name = known.attribute.name
            if kept is not None:
                column = kept.take(pairs.position)
            else:
                if properties is None:
                    properties = self._properties(group, pairs)
                column = self._fresh(group, pairs, rank, {**properties, **pairs.columns})
                for at, coder in self.computing.coders(name).items():
                    of = CodedValues(coder, column)
                    coded[at] = of.values, of
            pairs.columns[name] = column
            if column.failed is not None:
                self._mark(pairs, rank - len(group.computed), column.failed, column.reasons)
        return coded

    def _fresh(self, group: _Group, pairs: _Pairs, rank: int, given: dict[str, ValueColumn]) -> ValueColumn:
        """Return what a computed attribute of the group is for the pairs."""
        attribute = group.computed[rank][0].attribute
        for computed in group.known:
            computed[rank][0].computed += len(pairs) // len(group.known)
        if len(group.offers) == 1:
            return compute(attribute, given, len(pairs), self.offers[group.offers[0]].values)
        place = np.searchsorted(group.offers, pairs.offer)
        shapes = [each[rank] for each in group.shapes]
        for at, (domain, _) in enumerate(shapes[0].given):
            given[f"#{at}"] = column_of(domain, [shape.given[at][1] for shape in shapes]).take(place)
        shaped = ComputedAttribute(attribute.name, shapes[0].formula, attribute.domain)
        return compute(shaped, given, len(pairs), {})

    def _properties(self, group: _Group, pairs: _Pairs) -> dict[str, ValueColumn]:
        """Return the properties that the group's formulas and rules mention."""
        stored, number = self.rows.segment.properties, self.rows.number[pairs.position]
        mentioned = [known.attribute.formula.names for known, _ in group.computed]
        mentioned += [each.condition.names for each in group.rest]
        return {name: stored[name].column.take(number) for names in mentioned for name in names if name in stored}

    def _decide_rules(self, rest: Iterable[Rest], group: _Group, pairs: _Pairs) -> None:
        """Let go of the pairs that a rule refuses, and mark those for which one fails."""
        for each in rest:
            columns = {**self._properties(group, pairs), **pairs.columns}
            found = condition_column(each.condition, columns, len(pairs), self.offers[group.offers[0]].values)
            keep = found.holds
            if found.failed is not None:
                keep = keep | (found.failed != 0)
                self._mark(pairs, each.rule, found.failed, found.reasons)
            pairs.keep(keep)

    def _mark(self, pairs: _Pairs, rank: int, failed: k.Int32s, reasons: tuple[str, ...]) -> None:
        """Remember why pairs failed, unless something of a lower rank did."""
        numbers = np.array([0, *(self.reasons.setdefault(each, len(self.reasons) + 1) for each in reasons)], np.int32)
        first = (failed != 0) & (rank < pairs.rank)
        pairs.rank[first], pairs.reason[first] = rank, numbers[failed[first]]

    # --- the answer ---------------------------------------------------------------------------------------------------

    def _joined(self, done: Sequence[_Pairs]) -> OfferCandidates:
        """Return the candidates of all groups, in the order of the offers."""
        if len(done) == 1:
            (whole,) = done
            offer, position, reason, columns = whole.offer, whole.position, whole.reason, whole.columns
        else:
            nothing = np.zeros(0, np.int32)
            offer = np.concatenate([nothing, *(pairs.offer for pairs in done)])
            order = np.argsort(offer, kind="stable")
            offer = offer[order]
            position = np.concatenate([nothing, *(pairs.position for pairs in done)])[order]
            reason = np.concatenate([nothing, *(pairs.reason for pairs in done)])[order]
            columns = {name: column.take(order) for name, column in self._joined_columns(done).items()}
        for name, domain in {
            each.attribute.name: each.attribute.domain for one in self.computed for each, _ in one
        }.items():
            if name not in columns:  # no candidate's offer computes it
                columns[name] = absent_column(domain, len(offer))
        number, row = np.empty(len(position), np.int32), np.empty(len(position), np.int32)
        k.gather(position, self.rows.number, self.rows.row, number, row)
        return OfferCandidates(offer, number, row, columns, reason, list(self.reasons))

    @staticmethod
    def _joined_columns(done: Sequence[_Pairs]) -> dict[str, ValueColumn]:
        domains = {name: column.domain for pairs in done for name, column in pairs.columns.items()}
        return {
            name: united([pairs.columns.get(name) or absent_column(domain, len(pairs)) for pairs in done])
            for name, domain in domains.items()
        }
