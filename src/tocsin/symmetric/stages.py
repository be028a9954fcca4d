"""The stages of matching one offer (section 4.2.3 of the paper), after its analysis (offer.py, prepared.py).

    Match Static   the subscribers whose conditions the static sub-event may satisfy
    Match Dynamic  dynamic attributes are computed for the survivors only, and the conditions on them checked
    Match Final    the rules over property columns; those on dynamic attributes last

The planner (plan.py) chooses how the first survivors are found: by the columnar engine over the conditions, by the rows
of the most selective rule in the order of its property, or by bitmaps over both sides, for all offers of a batch together
(batch.py). Whatever the way, the answer is that of semantics.py: a row for which anything fails is decided by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tocsin.language.formula import ConditionFormula, Satisfies
from tocsin.language.formula_columns import Column
from tocsin.language.formula_vector import compute_column, condition_column
from tocsin.symmetric.admit_column import admit_column
from tocsin.symmetric.columns import Rows
from tocsin.symmetric.computing import Computing
from tocsin.symmetric.matched import Failure, Matched, Work
from tocsin.symmetric.meeting import Meeting
from tocsin.symmetric.offer import DynamicAttribute, Offer, admitted
from tocsin.symmetric.plan import FIRST_GUESS, SWITCHED_OFF, LaterPlan, Plan, choose
from tocsin.symmetric.prepared import Prepared
from tocsin.symmetric.roster import Roster
from tocsin.symmetric.semantics import decide

_REMEMBER = 0.2  # how much the newest offer counts in what is expected of the next


@dataclass(slots=True)
class _Survivors:
    """Rows that nothing has refused so far; `doubtful` marks those for which something failed."""

    rows: Rows
    doubtful: Any = field(default=None)

    def __post_init__(self) -> None:
        if self.doubtful is None:
            self.doubtful = np.zeros(len(self.rows), np.bool_)

    def keep(self, holds: Any) -> None:
        self.rows, self.doubtful = self.rows[holds], self.doubtful[holds]


class Stages:
    """Matches analysed offers with the subscribers of a roster."""

    def __init__(self, meeting: Meeting, roster: Roster, *, rule_indexes: bool = True) -> None:
        self.meeting, self.roster, self.rule_indexes = meeting, roster, rule_indexes
        self.work = Work()
        self.computing = Computing(roster)
        self._static_share: dict[frozenset[str], float] = {}

    def plan(self, offer: Offer, prepared: Prepared, counts: Sequence[int]) -> Plan:
        """Return how an offer is matched; `counts` says for how many rows each of its intervals holds."""
        if not self.rule_indexes:
            return SWITCHED_OFF
        counted = list(zip(counts, prepared.predicates, strict=True))
        for predicate in prepared.counted:
            if (count := self.roster.properties[predicate.name].count(predicate)) is not None:
                counted.append((count, predicate))
        return choose(offer, counted, len(self.roster), self.static_share(prepared.dynamic))

    def static_share(self, dynamic: frozenset[str]) -> float:
        """Return for which share of the subscribers conditions are expected to hold, as they did for earlier offers."""
        return self._static_share.get(dynamic, FIRST_GUESS)

    def match(self, offer: Offer, prepared: Prepared, plan: Plan) -> Matched:
        """Return whom an offer matches, the first survivors found by conditions or by one rule."""
        if plan.first == "rules":
            assert plan.access is not None
            survivors = self._by_order(plan.access, prepared)
        else:
            survivors = self._by_static(offer, prepared)
        return self._rest(offer, prepared, plan, survivors, found_statically=plan.first == "static")

    def match_found(self, offer: Offer, prepared: Prepared, plan: Plan | LaterPlan, rows: Rows) -> Matched:
        """Return whom an offer matches among rows that its intervals and keys leave (batch.py)."""
        survivors = self._checked(rows, prepared.unsure, prepared.others, prepared)
        return self._rest(offer, prepared, plan, survivors, found_statically=False)

    def _rest(
        self,
        offer: Offer,
        prepared: Prepared,
        plan: Plan | LaterPlan,
        survivors: _Survivors,
        *,
        found_statically: bool,
    ) -> Matched:
        """Match Dynamic, and the rules about what it computes."""
        computed = self._match_dynamic(offer.dynamic, survivors, prepared, found_statically=found_statically)
        for rule in prepared.late:
            kept = self._test(rule, survivors, prepared.row, computed)
            computed = {name: column.take(kept) for name, column in computed.items()}
        return self._finished(offer, survivors, computed, plan)

    def _by_static(self, offer: Offer, prepared: Prepared) -> _Survivors:
        """Match Static by the engine, then the rules that need nothing computed."""
        rows = self.roster.match_static(offer.event, prepared.dynamic)
        self.work.static_survivors += len(rows)
        self._learn(prepared.dynamic, len(rows), len(self.roster))
        survivors = _Survivors(self._within_rules(rows, prepared))
        for rule in prepared.others:
            self._test(rule, survivors, prepared.row, {})
        return survivors

    def _by_order(self, access: Satisfies, prepared: Prepared) -> _Survivors:
        """Match Final by the rows in the order of a value, then the conditions that need nothing computed."""
        self.work.rules_first += 1
        static = [name for name in self.meeting.event_domains if name not in prepared.dynamic]
        rows = self.roster.live(self.roster.properties[access.name].rows(access))
        rows = self._within_rules(rows, prepared)
        left = len(rows)
        rows, unsure = self.roster.wants.refine(rows, static, prepared.row)
        self._learn(prepared.dynamic, len(rows), left)
        return self._checked(rows, unsure, prepared.others, prepared)

    def _checked(
        self, rows: Rows, unsure: Sequence[str], rules: Sequence[ConditionFormula], prepared: Prepared
    ) -> _Survivors:
        """Return the rows that rules, and conditions that need nothing computed, leave."""
        survivors = _Survivors(rows)
        for rule in rules:
            self._test(rule, survivors, prepared.row, {})
        checked = self.roster.wants.check(
            survivors.rows, unsure, prepared.row, {}, self.roster.subscriber, found_statically=False,
            later=prepared.dynamic,
        )  # fmt: skip
        survivors.doubtful |= checked.doubtful
        survivors.keep(checked.holds)
        return survivors

    def _learn(self, dynamic: frozenset[str], held: int, of: int) -> None:
        """Remember for which share of the subscribers the conditions held."""
        if of:
            before = self._static_share.get(dynamic, held / of)
            self._static_share[dynamic] = before + _REMEMBER * (held / of - before)

    def _within_rules(self, rows: Rows, prepared: Prepared) -> Rows:
        """Return those of the rows that are in the intervals of all rules."""
        for predicate in prepared.predicates:
            column = self.roster.properties[predicate.name]
            interval = column.interval(predicate)
            assert interval is not None
            self.work.rule_rows += len(rows)
            rows = column.within(rows, interval)
        return rows

    def _test(
        self, rule: ConditionFormula, survivors: _Survivors, row: Mapping[str, Any], computed: Mapping[str, Column]
    ) -> Any:
        """Take from the survivors those that a rule refuses; return which stay."""
        rows = survivors.rows
        self.work.rule_rows += len(rows)
        columns = {
            name: self.roster.properties[name].column(rows) for name in rule.names if name in self.roster.properties
        }
        columns.update((name, computed[name]) for name in rule.names if name in computed)
        found = condition_column(rule, columns, len(rows), row)
        holds = found.holds
        if found.failed is not None:
            failed = found.failed != 0
            survivors.doubtful |= failed
            holds = holds | failed | survivors.doubtful
        elif computed and survivors.doubtful.any():
            holds = holds | survivors.doubtful
        survivors.keep(holds)
        return holds

    def _match_dynamic(
        self,
        attributes: tuple[DynamicAttribute, ...],
        survivors: _Survivors,
        prepared: Prepared,
        *,
        found_statically: bool,
    ) -> dict[str, Column]:
        """Compute the dynamic attributes for the survivors; take from them those whose conditions they do not satisfy."""
        computed: dict[str, Column] = {}
        for attribute in attributes:
            column, doubtful = self._compute(attribute, survivors.rows, prepared.row)
            if doubtful is not None:
                survivors.doubtful |= doubtful
            computed[attribute.name] = column
        checked = self.roster.wants.check(
            survivors.rows, sorted(prepared.dynamic), prepared.row, computed, self.roster.subscriber,
            found_statically=True, only=None if found_statically else prepared.dynamic,
        )  # fmt: skip
        holds = checked.holds | survivors.doubtful  # what failed is decided by the definition
        survivors.doubtful |= checked.doubtful
        survivors.keep(holds)
        return {name: column.take(holds) for name, column in computed.items()}

    def _compute(self, attribute: DynamicAttribute, rows: Rows, row: Mapping[str, Any]) -> tuple[Column, Any]:
        """Return an attribute's values, and which rows are doubtful (None: none)."""
        one = self.computing.of(attribute)
        by_machine = self.computing.compute(one, rows, row, self.work, one.kept)
        if by_machine is not None and (by_machine[1] is None or not by_machine[1].any()):
            return by_machine[0], None
        if by_machine is None:
            self.work.dynamic_rows += len(rows)
        names = attribute.formula.names
        columns = {name: self.roster.properties[name].column(rows) for name in names if name in self.roster.properties}
        found = compute_column(attribute.formula, columns, len(rows), row)
        column = admit_column(found, attribute.domain, lambda value: admitted(value, attribute.domain, attribute.name))
        return column, None if column.failed is None else column.failed != 0

    def _finished(
        self, offer: Offer, survivors: _Survivors, computed: Mapping[str, Column], plan: Plan | LaterPlan
    ) -> Matched:
        """Return the answer, the doubtful rows decided by the definition."""
        failures: list[Failure] = []
        if not survivors.doubtful.any():
            return self._told(survivors.rows, computed, failures, plan)
        matched = ~survivors.doubtful
        for place in np.flatnonzero(survivors.doubtful).tolist():
            subscriber = self.roster.subscriber(int(survivors.rows[place]))
            verdict = decide(offer, subscriber, self.meeting)
            matched[place] = verdict.matched
            if verdict.failure is not None:
                failures.append(Failure(subscriber.id, verdict.failure))
        self.work.decided_by_definition += int(survivors.doubtful.sum())
        taken = {name: column.take(matched) for name, column in computed.items()}
        return self._told(survivors.rows[matched], taken, failures, plan)

    def _told(
        self, rows: Rows, computed: Mapping[str, Column], failures: list[Failure], plan: Plan | LaterPlan
    ) -> Matched:
        self.work.offers += 1
        self.work.matches += len(rows)
        self.work.failures += len(failures)
        return Matched(self.roster.ids.of(rows), computed, tuple(failures), plan)
