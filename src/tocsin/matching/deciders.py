"""Deciders: what the index leaves to be decided, cheapest first.

The index finds rows whose atoms hold for an event. A row may have checks besides (compile/table.py): predicates that codes
cannot decide, comparisons of formulas, and what its conjunction asks of operators. They are decided in this order, each
kind for all that the kinds before have left; every answer is that of language/semantics.py. A row holds if all its checks
do; it fails if none is false and some fails.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.compile.table import CheckKind
from tocsin.errors import FormulaFailed
from tocsin.index.layout import Section
from tocsin.language.bind import bind_condition
from tocsin.language.formula_columns import Column
from tocsin.language.formula_vector import condition_column
from tocsin.language.json_form import node_from_json
from tocsin.language.json_reader import literal_from_json
from tocsin.language.semantics import Situation, holds
from tocsin.matching.formulas import Formulas
from tocsin.matching.word_checks import WordChecks
from tocsin.operators.asked import HOLDS, trusted_scope
from tocsin.schema import Event, Schema, Value

if TYPE_CHECKING:
    from tocsin.index.encode import EventSource
    from tocsin.index.tier import Tier
    from tocsin.language.formula import ConditionFormula, Substitution
    from tocsin.matching.inquiry import Inquiry
    from tocsin.operators.asked import Asked
    from tocsin.operators.event_evaluation import EventEvaluation

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_NOTHING_COMPUTED: Mapping[str, Column] = {}


class Candidates:
    """Rows with checks that the index has found for events, and what has become of each.

    `position` is that of the row among the segment's rows with checks. `computed` has the values of computed attributes for
    each; `failure` why one fails so far.
    """

    def __init__(self, event: Int64s, position: Int64s, computed: Mapping[str, Column] = _NOTHING_COMPUTED) -> None:
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
        values = dict(event.values)
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

    def __init__(self, tier: Tier, schema: Schema, asked: Asked) -> None:
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
    def asks(self) -> bool:
        """Whether some row asks operators."""
        return bool((self._kind == CheckKind.ASKED).any())

    @cached_property
    def _formulas(self) -> Formulas:
        return Formulas(self._checks, self.schema)

    @cached_property
    def _words(self) -> WordChecks:
        return WordChecks(self._checks, lambda number: self._predicate(number).root, self.schema)

    @cached_property
    def _predicates(self) -> dict[int, ConditionFormula]:
        return {}

    @cached_property
    def _own(self) -> dict[str, dict[str, tuple[Value, ...]]]:
        return {}

    def decide(self, candidates: Candidates, source: EventSource, inquiry: Inquiry) -> None:
        """Decide the checks of rows; what operators say, and the values of variables, go to the inquiry."""
        start, stop = self._offset[candidates.position], self._offset[candidates.position + 1]
        pair = np.repeat(np.arange(len(start)), stop - start)  # one for each check of each candidate
        within = np.arange(len(pair)) - np.repeat(np.cumsum(stop - start) - (stop - start), stop - start)
        check = self._check[np.repeat(start, stop - start) + within]
        kind = self._kind[check]
        for which, decide in (
            (CheckKind.PREDICATE, self._decide_predicates),
            (CheckKind.FORMULA, self._decide_formulas),
            (CheckKind.ASKED, self._decide_asked),
        ):
            chosen = np.flatnonzero((kind == which) & candidates.open[pair])
            if len(chosen):
                decide(candidates, pair[chosen], check[chosen], source, inquiry)

    # --- predicates ---------------------------------------------------------------------------------------------------

    def _decide_predicates(
        self, candidates: Candidates, pair: Int64s, check: npt.NDArray[np.int32], source: EventSource, _: Inquiry
    ) -> None:
        if not candidates.computed:
            decided, held = self._words.decide(source, check, candidates.event[pair])
            candidates.refuse(pair[decided & ~held])
            pair, check = pair[~decided], check[~decided]
        for number in np.unique(check).tolist():
            of = pair[check == number]
            of = of[candidates.open[of]]
            formula, name = self._predicate(number), self._checks[number].attribute
            if name in candidates.computed:
                found = condition_column(formula, {name: candidates.computed[name].take(of)}, len(of))
                candidates.refuse(of[~found.holds & ((found.failed == 0) if found.failed is not None else True)])
                for at in np.flatnonzero(found.failed).tolist() if found.failed is not None else ():
                    candidates.fail(int(of[at]), found.reason(at) or "")
                continue
            events, inverse = np.unique(candidates.event[of], return_inverse=True)
            values = source.values(name, self.schema.domain_of(name), events)
            answers = [values_ is not None and holds(formula.root, Situation({name: values_})) for values_ in values]
            candidates.refuse(of[~np.array(answers, np.bool_)[inverse]])

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
