"""Deciders: what the index leaves to be decided, cheapest first.

The index finds rows whose atoms hold for an event. A row may have checks besides (compile/table.py): predicates that codes
cannot decide, comparisons of formulas, and what its conjunction asks of operators. They are decided in this order, each
kind for all that the kinds before have left; every answer is that of language/semantics.py. A row holds if all its checks
do; it fails if none is false and some fails.

Formulas: the comparisons that a segment's rows leave to be decided, for many pairs of events and rows at once.

    price < 0.8 * estimate        the template is  price < #0 * estimate

Comparisons that differ in numbers only share a template, whose numbers are columns, by check; so do the properties that a
comparison mentions. A template is then computed for all pairs that ask it in a few array operations (language/formula_vector.py).
Where one number alone differs, and the truth can change but once as it grows, as that of the template above, many pairs of an
event are told by the number at which it does, which halving finds: arithmetic that rounds keeps the order of numbers.

Word checks: those of a segment's checks that ask for words in order, decided from the words of texts by a kernel.

Circle checks: those that ask whether a point lies within a distance, decided for all pairs at once; what is so near the edge
that rounding could matter is left to the definition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.compile.table import Check, CheckKind, Column
from tocsin.errors import FormulaFailed
from tocsin.index.coder import TextCoder
from tocsin.index.encode import EventSource
from tocsin.index.jit import kernel
from tocsin.index.layout import Section
from tocsin.index.word_tokens import WordPatterns, WordTokens
from tocsin.language.bind import bind_condition
from tocsin.language.documents import node_from_json
from tocsin.language.element_conditions import ElementTest, compiled
from tocsin.language.formula import FLOAT, INT, TIME, ConditionFormula, Scope, one_value
from tocsin.language.formula_columns import ValueColumn, column_of, several_column
from tocsin.language.formula_vector import Holding, condition_column
from tocsin.language.json_reader import literal_from_json
from tocsin.language.semantics import Situation, holds
from tocsin.language.sides import sides_of
from tocsin.language.syntax import (
    Arithmetic,
    AttributeValue,
    Comparison,
    Constant,
    Negative,
    Not,
    Op,
    Predicate,
    Within,
    Words,
)
from tocsin.language.units import EARTH_RADIUS_METRES, METRES
from tocsin.operators.questions import HOLDS, trusted_scope
from tocsin.schema import NOW, Event, PointDomain, Schema, Value
from tocsin.schema.readings import ReadableAttributes, joined_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from tocsin.index.subscription_index import Tier
    from tocsin.language.formula import Substitution
    from tocsin.language.syntax import Expression, Node
    from tocsin.matching.engine import Inquiry
    from tocsin.operators.problem import EventEvaluation
    from tocsin.operators.questions import OperatorQuestions


Int64s = npt.NDArray[np.int64]
_FITS = 2**63
Bools = npt.NDArray[np.bool_]
PAIRS_OF_AN_EVENT = 64  # from so many on, halving takes less than computing each


@dataclass
class _Template:
    """A comparison without its numbers and properties, and those of each check that is of it."""

    shape: str
    numbers: int  # how many numbers it lacks
    own: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    formula: ConditionFormula | None = None
    columns: dict[str, ValueColumn] = field(default_factory=dict)
    steps: _Steps | None = None


class _Steps(NamedTuple):
    """Of a template whose truth can change but once as one number grows, the only one that differs from row to row.

    `numbers` are all that it is, ascending, and `rank` is that of each row among them.
    """

    name: str
    numbers: ValueColumn
    rank: Int64s
    others: dict[str, ValueColumn]


class Formulas:
    """The comparisons among the checks of one segment."""

    def __init__(self, checks: Sequence[Check], schema: Schema) -> None:
        self._schema, self._attributes = schema, schema.view().attributes
        self._templates: list[_Template] = []
        self.template_of = np.full(len(checks), -1, np.int32)
        self._place = np.zeros(len(checks), np.int64)  # of each check among the rows of its template
        known: dict[tuple[Any, ...], int] = {}
        for number, check in enumerate(checks):
            if check.kind is CheckKind.FORMULA:
                self._take(number, check, known)

    def _take(self, number: int, check: Check, known: dict[tuple[Any, ...], int]) -> None:
        numbers: list[int | float] = []
        shape = msgspec.json.encode(_without_numbers(msgspec.json.decode(check.expression), numbers)).decode()
        own = {name: literal_from_json(value) for name, value in msgspec.json.decode(check.own).items()}
        key = (shape, tuple(map(type, numbers)), tuple(own))
        if key not in known:
            known[key] = len(self._templates)
            self._templates.append(_Template(shape, len(numbers), tuple(own)))
        template = self._templates[known[key]]
        self._place[number] = len(template.rows)
        template.rows.append((*numbers, *own.values()))
        self.template_of[number] = known[key]

    def hold(
        self, source: EventSource, checks: npt.NDArray[np.int32], events: Int64s, computed: Mapping[str, ValueColumn]
    ) -> list[tuple[Int64s, Holding]]:
        """Return, for groups of the pairs (check, event), which hold and which fail; `computed` has values for each pair."""
        found = []
        of = self.template_of[checks]
        for number in range(len(self._templates)):
            pairs = np.flatnonzero(of == number)
            if not len(pairs):
                continue
            found.append((pairs, self._hold(self._templates[number], source, checks[pairs], events[pairs],
                                            {name: column.take(pairs) for name, column in computed.items()})))  # fmt: skip
        return found

    def _hold(
        self, template: _Template, source: EventSource, checks: npt.NDArray[np.int32], events: Int64s,
        computed: Mapping[str, ValueColumn],
    ) -> Holding:  # fmt: skip
        formula = self._made(template)
        place = self._place[checks]
        asked, inverse = _distinct(events)
        constants: dict[str, tuple[Value, ...]] = {}
        of_events: dict[str, ValueColumn] = {}
        for name in formula.names:
            if name not in computed and name not in template.columns and self._is_of_events(name):
                domain = TIME if name == NOW else self._schema.domain_of(name)
                values = source.values(name, domain, asked)
                if len(asked) > 1:
                    of_events[name] = several_column(domain, values)
                elif values[0] is not None:
                    constants[name] = values[0]
        if (
            template.steps is not None
            and not computed
            and len(events) >= PAIRS_OF_AN_EVENT * len(asked) > PAIRS_OF_AN_EVENT
        ):
            held = _by_steps(formula, template.steps, of_events, len(asked), place, inverse)
            if held is not None:
                return Holding(held)
        columns = {name: column.take(place) for name, column in template.columns.items()}
        columns |= {name: column.take(inverse) for name, column in of_events.items()}
        columns |= {name: computed[name] for name in formula.names if name in computed}
        return condition_column(formula, columns, len(events), constants)

    def _is_of_events(self, name: str) -> bool:
        return name == NOW or name in self._attributes  # else: a property that is not given

    def _made(self, template: _Template) -> ConditionFormula:
        """Return the template's formula; it and the columns are made when they are first needed."""
        if template.formula is None:
            sides = sides_of(self._schema, ()).subscription_scope
            kinds = [INT if type(value) is int else FLOAT for value in template.rows[0][: template.numbers]]
            names = {f"#{at}": domain for at, domain in enumerate(kinds)}
            attributes: Mapping[str, Any] = {
                **sides.attributes,
                **{name: one_value(name, domain) for name, domain in names.items()},
            }
            if isinstance(sides.attributes, ReadableAttributes):
                attributes = sides.attributes | attributes
            scope = Scope(attributes, aliases=sides.aliases, trusted=True)
            domains = {**names, **{name: attributes[name].domain for name in template.own}}
            listed = list(zip(*template.rows, strict=True)) if domains else []
            template.columns = {
                name: column_of(domain, values) for (name, domain), values in zip(domains.items(), listed, strict=True)
            }
            template.formula = bind_condition(node_from_json(msgspec.json.decode(template.shape)), scope)
            if not template.own:
                template.steps = _steps_of(template.formula.root, template.columns)
        return template.formula


def _distinct(events: Int64s) -> tuple[Int64s, Int64s]:
    """Return the distinct events, and of each its place among them; mostly they are in their order already."""
    if (events[1:] < events[:-1]).any():
        distinct, inverse = np.unique(events, return_inverse=True)
        return distinct, inverse
    new = np.ones(len(events), np.bool_)
    np.not_equal(events[1:], events[:-1], out=new[1:])
    return events[new], np.cumsum(new) - 1


def _steps_of(node: Node, columns: Mapping[str, ValueColumn]) -> _Steps | None:
    """Return the numbers at which the truth of a template may change; None where more than one differs, or who knows."""
    while isinstance(node, Not):
        node = node.part
    differing = [name for name, column in columns.items() if len(column) and (column.values != column.values[0]).any()]
    if len(differing) != 1 or not isinstance(node, Comparison) or node.op not in (Op.LT, Op.LE, Op.GT, Op.GE):
        return None
    (name,) = differing
    column = columns[name]
    if column.members is not None or {_way(node.left, name), _way(node.right, name)} != {False, True}:
        return None
    first, rank = np.unique(column.values, return_index=True, return_inverse=True)[1:]
    others = {other: each for other, each in columns.items() if other != name}
    return _Steps(name, column.take(first), rank.astype(np.int64), others)


def _way(tree: Expression, name: str) -> bool | None:
    """Return whether the value of an expression goes one way, up or down, as a number grows; False: it is not in it, None: who knows."""
    match tree:
        case Constant() | AttributeValue():
            return isinstance(tree, AttributeValue) and tree.name == name
        case Negative(part):
            return _way(part, name)
        case Arithmetic(op, left, right):
            ways = _way(left, name), _way(right, name)
            if None in ways or ways == (True, True) or op == "%" or (op == "/" and ways[1]):
                return None
            return True in ways
        case _:
            return None


def _by_steps(
    formula: ConditionFormula, steps: _Steps, of_events: Mapping[str, ValueColumn], events: int, rows: Int64s, event: Int64s
) -> Bools | None:  # fmt: skip
    """Return which pairs of a row of the template and an event hold; None where some number is one that arrays do not hold."""

    def tried(rank: Int64s) -> Bools | None:
        found = condition_column(formula, {**fixed, steps.name: steps.numbers.take(rank)}, events)
        return found.holds if found.failed is None and not found.by_definition else None

    low, high = np.zeros(events, np.int64), np.full(events, len(steps.numbers) - 1)
    fixed = {**of_events, **{name: column.take(low) for name, column in steps.others.items()}}
    first, last = tried(low), tried(high)
    if first is None or last is None:
        return None
    high[first == last] = len(steps.numbers)  # it never changes
    while True:
        open_events = (high - low > 1) & (first != last)
        if not open_events.any():
            break
        middle = np.where(open_events, (low + high) >> 1, low)
        found = tried(middle)
        if found is None:
            return None
        as_first = found == first
        low, high = np.where(open_events & as_first, middle, low), np.where(open_events & ~as_first, middle, high)
    held: Bools = np.where(steps.rank[rows] < high[event], first[event], last[event])
    return held


def _without_numbers(tree: Any, numbers: list[int | float]) -> Any:
    """Return the JSON tree of a comparison with its numbers as names; adds them to a list."""
    match tree:
        case {"compare": [left, op, right]}:
            return {"compare": [_value(left, numbers), op, _value(right, numbers)]}
        case {"not": part}:
            return {"not": _without_numbers(part, numbers)}
        case _:
            return tree


def _value(tree: Any, numbers: list[int | float]) -> Any:
    """Return the JSON tree of an expression with its numbers as names; those within a case stay."""
    match tree:
        case bool():
            return tree
        case int() | float() if -_FITS <= tree < _FITS:
            numbers.append(tree)
            return {"attribute": f"#{len(numbers) - 1}"}
        case {"negative": part}:
            return {"negative": _value(part, numbers)}
        case dict() if len(tree) == 1 and next(iter(tree)) in "+-*/%":
            ((op, (left, right)),) = tree.items()
            return {op: [_value(left, numbers), _value(right, numbers)]}
        case _:
            return tree


# Word checks.


class _OfAttribute(NamedTuple):
    """The checks on one attribute that ask for words in order; per check its pattern (-1: none) and whether negated."""

    patterns: WordPatterns
    pattern: npt.NDArray[np.int32]
    negated: Bools

    def hold(self, tokens: WordTokens, checks: npt.NDArray[np.int32], texts: Int64s) -> Bools:
        """Return which pairs of a check, one of these, and a text hold."""
        found = tokens.satisfying(self.patterns, self.pattern[checks], texts)
        holds: Bools = (found != self.negated[checks]) & tokens.present[texts]
        return holds


class WordChecks:
    """The word checks of one segment, by attribute; `coders` are those of the segment's words, by attribute."""

    def __init__(
        self, checks: Sequence[Check], node_of: Callable[[int], Node], schema: Schema, coders: Mapping[str, TextCoder]
    ) -> None:
        self._schema = schema
        found: dict[str, list[tuple[int, Words, bool]]] = {}
        for number, check in enumerate(checks):
            if check.kind is CheckKind.PREDICATE and '"contains"' in check.expression:
                node = node_of(number)
                predicate = node.part if isinstance(node, Not) else node
                if isinstance(predicate, Predicate) and isinstance(predicate.operand, Words):
                    found.setdefault(check.attribute, []).append((number, predicate.operand, isinstance(node, Not)))
        self._attributes = {name: _of_attribute(asked, len(checks), coders.get(name)) for name, asked in found.items()}
        self._all = len(found) == 1 and len(next(iter(found.values()))) == len(checks)

    def decide(self, source: EventSource, checks: npt.NDArray[np.int32], events: Int64s) -> tuple[Bools, Bools]:
        """Return which pairs of a check and an event are decided by the words of texts, and whether these hold."""
        if self._all:
            ((attribute, asked),) = self._attributes.items()
            tokens = source.word_tokens(attribute, self._schema.domain_of(attribute))
            if tokens is not None:
                return np.ones(len(checks), np.bool_), asked.hold(tokens, checks, events)
        decided, holds = np.zeros(len(checks), np.bool_), np.zeros(len(checks), np.bool_)
        for attribute, asked in self._attributes.items():
            pairs = np.flatnonzero(asked.pattern[checks] >= 0)
            tokens = source.word_tokens(attribute, self._schema.domain_of(attribute)) if len(pairs) else None
            if tokens is not None:
                decided[pairs], holds[pairs] = True, asked.hold(tokens, checks[pairs], events[pairs])
        return decided, holds


def _of_attribute(asked: list[tuple[int, Words, bool]], checks: int, coder: TextCoder | None) -> _OfAttribute:
    pattern, negated = np.full(checks, -1, np.int32), np.zeros(checks, np.bool_)
    for place, (number, _, isnt) in enumerate(asked):
        pattern[number], negated[number] = place, isnt
    return _OfAttribute(WordPatterns([words for _, words, _ in asked], coder), pattern, negated)


# Circle checks.

FEW_PAIRS = 8  # of fewer, the definition is quicker than arrays
_EDGE_METRES = 10.0  # far above what rounding makes of a distance anywhere on Earth


class CircleChecks:
    """The checks of one segment that ask for a distance from a point, by attribute."""

    def __init__(self, checks: Sequence[Check], node_of: Callable[[int], Node], schema: Schema) -> None:
        self._schema = schema
        self._circle = np.full((len(checks), 3), np.nan)  # latitude, longitude, metres
        self._negated = np.zeros(len(checks), np.bool_)
        found: dict[str, list[int]] = {}
        for number, check in enumerate(checks):
            if check.kind is CheckKind.PREDICATE and '"within"' in check.expression:
                node = node_of(number)
                predicate = node.part if isinstance(node, Not) else node
                operand = predicate.operand if isinstance(predicate, Predicate) else None
                if isinstance(operand, Within) and isinstance(schema.domain_of(check.attribute), PointDomain):
                    found.setdefault(check.attribute, []).append(number)
                    self._circle[number] = (*operand.center, float(operand.amount) * METRES[operand.unit])  # type: ignore[misc]
                    self._negated[number] = isinstance(node, Not)
        self._asks = {name: np.isin(np.arange(len(checks)), numbers) for name, numbers in found.items()}

    def decide(self, source: EventSource, checks: npt.NDArray[np.int32], events: Int64s) -> tuple[Bools, Bools]:
        """Return which pairs of a check and an event are decided by the points' distance, and whether these hold."""
        decided, holds = np.zeros(len(checks), np.bool_), np.zeros(len(checks), np.bool_)
        for attribute, asks in self._asks.items():
            pairs = np.flatnonzero(asks[checks])
            points = self._points(source, attribute) if len(pairs) else None
            if points is None:
                continue
            asked = checks[pairs]
            latitude, longitude, metres = self._circle[asked].T
            there, here = points[0][events[pairs]], points[1][events[pairs]]
            a, b = np.radians(there), np.radians(latitude)
            chord = np.sin((b - a) / 2) ** 2 + np.cos(a) * np.cos(b) * np.sin(np.radians(longitude - here) / 2) ** 2
            beyond = 2 * EARTH_RADIUS_METRES * np.arcsin(np.sqrt(np.minimum(1.0, chord))) - metres
            decided[pairs] = ~(np.abs(beyond) <= _EDGE_METRES)  # those without a point, which are NaN, too
            holds[pairs] = np.where(self._negated[asked], beyond > 0, beyond <= 0)
        return decided, holds

    def _points(self, source: EventSource, attribute: str) -> tuple[npt.NDArray[np.float64], ...] | None:
        """Return latitude and longitude of all events, NaN where they have none; None where some have several points."""
        found = []
        for derivation in ("latitude", "longitude"):
            domain = self._schema.domain_of(attribute)
            keys = source.keys(Column(attribute, domain, False, derivation, np.zeros(0)))
            degrees = np.full(source.size, np.nan)
            if keys is not None:
                lists = keys.as_lists()
                assert lists.offset is not None
                counts = np.diff(lists.offset)
                if (counts > 1).any():
                    return None
                values = lists.values if lists.keys is None else np.array(lists.keys, np.float64)[lists.values]
                degrees[counts == 1] = values
            found.append(degrees)
        return tuple(found)


# Deciders.


_NOTHING_COMPUTED: Mapping[str, ValueColumn] = {}


class Candidates:
    """Rows with checks that the index has found for events, and what has become of each.

    `position` is that of the row among the segment's rows with checks. `computed` has the values of computed attributes for
    each; `failure` why one fails so far.
    """

    def __init__(
        self, event: Int64s, position: Int64s, computed: Mapping[str, ValueColumn] = _NOTHING_COMPUTED
    ) -> None:
        self.event, self.position, self.computed = event, position, computed
        self.open: Bools = np.ones(len(event), np.bool_)  # not false so far
        self.failure: dict[int, str] = {}
        self.bindings: dict[int, tuple[Substitution, ...]] = {}

    def refuse(self, which: Int64s) -> None:
        """Take note that some are false."""
        self.open[which] = False

    def fail(self, which: int, reason: str) -> None:
        """Take note that one fails, unless it did before."""
        self.failure.setdefault(which, reason)

    def part(self, which: Int64s, names: Collection[str]) -> Candidates:
        """Return some of them, for which these attributes are computed."""
        computed = {name: column.take(which) for name, column in self.computed.items() if name in names}
        return Candidates(self.event[which], self.position[which], computed)

    def take_over(self, which: Int64s, part: Candidates) -> None:
        """Take over what became of some of them."""
        self.open[which] = part.open
        for at, reason in part.failure.items():
            self.fail(int(which[at]), reason)
        self.bindings.update((int(which[at]), bindings) for at, bindings in part.bindings.items())

    def values(self, at: int, event: Event) -> tuple[dict[str, tuple[Value, ...]], dict[str, FormulaFailed]]:
        """Return the values of the event, with what is computed for one of them, and what could not be."""
        values = joined_values(event.values, {})
        failed: dict[str, FormulaFailed] = {}
        for name, column in self.computed.items():
            reason, value = column.reason(at), column.value(at)
            if reason is not None:
                failed[name] = FormulaFailed(reason)
            elif value is not None:
                values[name] = (value,)
        return values, failed

    def held(self) -> Bools:
        """Return which hold."""
        found = self.open.copy()
        if self.failure:
            found[list(self.failure)] = False
        return found


class Deciders:
    """Decides the checks of one tier's rows."""

    def __init__(self, tier: Tier, schema: Schema, asked: OperatorQuestions) -> None:
        self.tier, self.schema, self.asked = tier, schema, asked
        segment = tier.segment
        self.rows = segment.section(Section.CHECKED_ROW)
        self.number = segment.section(Section.CHECKED_NUMBER)
        self._offset = segment.section(Section.CHECKED_OFFSET)
        self._check = segment.section(Section.CHECKED_CHECK)

    @cached_property
    def _checks(self) -> Any:
        return self.tier.segment.checks

    @cached_property
    def _kind(self) -> npt.NDArray[np.int8]:
        return np.array([check.kind for check in self._checks], np.int8)

    @cached_property
    def _kinds(self) -> list[int]:
        """The kinds that there are, those that are asked first before the others."""
        present: list[int] = np.unique(self._kind).tolist()
        return [kind for kind in self._deciders if kind in present]

    @cached_property
    def _deciders(self) -> dict[int, Callable[..., None]]:
        """What decides each kind, in the order in which they are asked."""
        return {
            CheckKind.PREDICATE: self._decide_predicates,
            CheckKind.SCOPE: self._decide_scopes,
            CheckKind.FORMULA: self._decide_formulas,
            CheckKind.ASKED: self._decide_asked,
        }

    @cached_property
    def asks(self) -> bool:
        """Whether some row asks operators."""
        return bool((self._kind == CheckKind.ASKED).any())

    @cached_property
    def asks_arrival(self) -> bool:
        """Whether some row asks when an event arrived."""
        return any(f'"{NOW}"' in check.expression for check in self._checks)

    @cached_property
    def _formulas(self) -> Formulas:
        return Formulas(self._checks, self.schema)

    @cached_property
    def _words(self) -> WordChecks:
        coders = {coder.column.attribute: coder.words for coder in self.tier.encoder.coders if coder.words is not None}
        return WordChecks(self._checks, lambda number: self._predicate(number).root, self.schema, coders)

    @cached_property
    def _circles(self) -> CircleChecks:
        return CircleChecks(self._checks, lambda number: self._predicate(number).root, self.schema)

    @cached_property
    def _predicates(self) -> dict[int, ConditionFormula]:
        return {}

    @cached_property
    def _scopes(self) -> dict[int, tuple[ElementTest, Collection[str]]]:
        return {}

    @cached_property
    def _own(self) -> dict[str, dict[str, tuple[Value, ...]]]:
        return {}

    def decide(self, candidates: Candidates, source: EventSource, inquiry: Inquiry) -> None:
        """Decide the checks of rows; what operators say, and the values of variables, go to the inquiry."""
        pair, check = spread_checks(self._offset, self._check, candidates.position)
        for which in self._kinds:
            decide = self._deciders[which]
            if len(self._kinds) == 1 and candidates.open.all():
                decide(candidates, pair, check, source, inquiry)
                return
            chosen = np.flatnonzero((self._kind[check] == which) & candidates.open[pair])
            if len(chosen):
                decide(candidates, pair[chosen], check[chosen], source, inquiry)

    # --- predicates ---------------------------------------------------------------------------------------------------

    def _decide_predicates(
        self, candidates: Candidates, pair: Int64s, check: npt.NDArray[np.int32], source: EventSource, _: Inquiry
    ) -> None:
        if not candidates.computed:
            for checks, fewest in ((self._words, 1), (self._circles, FEW_PAIRS)):
                if len(pair) >= fewest:
                    decided, held = checks.decide(source, check, candidates.event[pair])
                    candidates.refuse(pair[decided & ~held])
                    pair, check = pair[~decided], check[~decided]
            self._decide_each(candidates, pair, check, source)
            return
        for number in np.unique(check).tolist():
            of = pair[check == number]
            of = of[candidates.open[of]]
            name = self._checks[number].attribute
            if name not in candidates.computed:
                self._decide_each(candidates, of, np.full(len(of), number, np.int32), source)
                continue
            found = condition_column(self._predicate(number), {name: candidates.computed[name].take(of)}, len(of))
            candidates.refuse(of[~found.holds & ((found.failed == 0) if found.failed is not None else True)])
            for at in np.flatnonzero(found.failed).tolist() if found.failed is not None else ():
                candidates.fail(int(of[at]), found.reason(at) or "")

    def _decide_each(
        self, candidates: Candidates, pair: Int64s, check: npt.NDArray[np.int32], source: EventSource
    ) -> None:
        """Decide pairs one by one, by the definition; the values of an event are read once."""
        if not len(pair):
            return
        events, inverse = np.unique(candidates.event[pair], return_inverse=True)
        known: dict[str, list[Situation | None]] = {}
        refused = []
        for at, number, event in zip(pair.tolist(), check.tolist(), inverse.tolist(), strict=True):
            name = self._checks[number].attribute
            if name not in known:
                values = source.values(name, self.schema.domain_of(name), events)
                known[name] = [None if found is None else Situation({name: found}) for found in values]
            situation = known[name][event]
            if situation is None or (candidates.open[at] and not holds(self._predicate(number).root, situation)):
                refused.append(at)
        candidates.refuse(np.array(refused, np.int64))

    def _predicate(self, number: int) -> ConditionFormula:
        known = self._predicates.get(number)
        if known is None:
            node = node_from_json(msgspec.json.decode(self._checks[number].expression))
            known = self._predicates[number] = bind_condition(node, trusted_scope(self.schema))
        return known

    # --- comparisons --------------------------------------------------------------------------------------------------

    def _decide_formulas(
        self, candidates: Candidates, pair: Int64s, check: npt.NDArray[np.int32], source: EventSource, _: Inquiry
    ) -> None:
        computed = {name: column.take(pair) for name, column in candidates.computed.items()}
        for which, found in self._formulas.hold(source, check, candidates.event[pair], computed):
            of = pair[which]
            if found.failed is None:
                candidates.refuse(of[~found.holds])
                continue
            candidates.refuse(of[~found.holds & (found.failed == 0)])
            for at in np.flatnonzero(found.failed).tolist():
                candidates.fail(int(of[at]), found.reason(at) or "")

    # --- scopes -------------------------------------------------------------------------------------------------------

    def _decide_scopes(
        self, candidates: Candidates, pair: Int64s, check: npt.NDArray[np.int32], source: EventSource, _: Inquiry
    ) -> None:
        rows: dict[int, dict[str, tuple[Value, ...]]] = {}
        for at, event, number in zip(pair.tolist(), candidates.event[pair].tolist(), check.tolist(), strict=True):
            if not candidates.open[at]:
                continue
            test, names = self._scope(number)
            row = rows.setdefault(event, {})
            for name in names:
                if name not in row and (name == NOW or name in self.schema.view().attributes):
                    domain = TIME if name == NOW else self.schema.domain_of(name)
                    (values,) = source.values(name, domain, np.array([event]))
                    row[name] = values or ()
            situation = self._element_row(names, row, self._checks[number].own, candidates, at)
            try:
                if not test(situation):
                    candidates.open[at] = False
            except FormulaFailed as error:
                candidates.fail(at, error.reason)

    def _element_row(
        self, names: Collection[str], row: dict[str, tuple[Value, ...]], own: str, candidates: Candidates, at: int
    ) -> Situation:
        """Return what a scope is decided about: the event's values of the names that it mentions, and what one says of oneself."""
        values = {name: row[name] for name in names if row.get(name)}
        failed: dict[str, FormulaFailed] = {}
        for name in names if candidates.computed else ():
            column = candidates.computed.get(name)
            if column is not None:
                values.pop(name, None)
                if (reason := column.reason(at)) is not None:
                    failed[name] = FormulaFailed(reason)
                elif (value := column.value(at)) is not None:
                    values[name] = (value,)
        if own != "{}":
            values.update(self._properties(own))
        return Situation(values, failed=failed)

    def _scope(self, number: int) -> tuple[ElementTest, Collection[str]]:
        """Return a check about elements as a function, made when it is first needed, and the names outside that it mentions."""
        known = self._scopes.get(number)
        if known is None:
            node = node_from_json(msgspec.json.decode(self._checks[number].expression))
            formula = bind_condition(node, trusted_scope(self.schema))
            known = self._scopes[number] = compiled(formula.root), formula.names
        return known

    # --- operators ----------------------------------------------------------------------------------------------------

    def _decide_asked(
        self, candidates: Candidates, pair: Int64s, check: npt.NDArray[np.int32], source: EventSource, inquiry: Inquiry
    ) -> None:
        events = candidates.event[pair]
        texts: dict[int, dict[str, None]] = {}
        for event, number in zip(events.tolist(), check.tolist(), strict=True):
            texts.setdefault(event, {})[self._checks[number].expression] = None
        evaluations = {event: inquiry.evaluation(event, source.event(event), self.asked) for event in texts}
        left = dict(zip(texts, self.asked.decide([(evaluations[e], list(texts[e])) for e in texts]), strict=True))
        for at, event, number in zip(pair.tolist(), events.tolist(), check.tolist(), strict=True):
            expression, own = self._checks[number].expression, self._checks[number].own
            if not left[event][expression]:
                candidates.open[at] = False
                continue
            answer = self._answer(expression, own, evaluations[event], candidates, at)
            if answer is None:
                candidates.open[at] = False
            elif isinstance(answer, str):
                candidates.fail(at, answer)
            elif answer is not HOLDS:
                candidates.bindings[at] = answer

    def _answer(
        self, expression: str, own: str, evaluation: EventEvaluation, candidates: Candidates, at: int
    ) -> tuple[Substitution, ...] | str | None:
        values, failed = candidates.values(at, evaluation.event)
        values.update(self._properties(own))
        return self.asked.answer(expression, evaluation, values, failed)

    def _properties(self, own: str) -> dict[str, tuple[Value, ...]]:
        known = self._own.get(own)
        if known is None:
            known = {name: (literal_from_json(value),) for name, value in msgspec.json.decode(own).items()}
            self._own[own] = known
        return known


@kernel
def spread_checks(
    offset: Int64s, check: npt.NDArray[np.int32], position: Int64s
) -> tuple[Int64s, npt.NDArray[np.int32]]:
    """Return pairs of a candidate and a check, for each check of each candidate: check[offset[p] : offset[p + 1]] of its p."""
    total = 0
    for p in position:
        total += offset[p + 1] - offset[p]
    pair, found = np.empty(total, np.int64), np.empty(total, np.int32)
    n = 0
    for i in range(len(position)):
        for z in range(offset[position[i]], offset[position[i] + 1]):
            pair[n], found[n] = i, check[z]
            n += 1
    return pair, found
