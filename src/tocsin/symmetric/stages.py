"""The stages of matching one offer (section 4.2.3 of the paper), after its analysis (offer.py).

    Match Static   the subscribers whose conditions the static sub-event may satisfy
    Match Dynamic  dynamic attributes are computed for the survivors only, and the conditions on them checked
    Match Final    the rules over property columns; those on dynamic attributes last

The planner (plan.py) chooses how the first survivors are found: by the columnar engine over the conditions, by the rows
of the most selective rule in the order of its property, or by bitmaps over both sides. Whatever the way, the answer is
that of semantics.py: a row for which anything fails is decided by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tocsin.language.formula import ConditionFormula, Every, Satisfies
from tocsin.language.formula_columns import Column
from tocsin.language.formula_vector import compute_column, condition_column
from tocsin.schema import Event
from tocsin.symmetric.admit_column import admit_column
from tocsin.symmetric.bitmaps import every_row, rows_of
from tocsin.symmetric.columns import Interval, PropertyColumn, Rows
from tocsin.symmetric.machine import Machine, machine_for
from tocsin.symmetric.matched import Failure, Matched, Work
from tocsin.symmetric.meeting import Meeting
from tocsin.symmetric.offer import DynamicAttribute, Offer, admitted
from tocsin.symmetric.plan import FIRST_GUESS, Plan, choose
from tocsin.symmetric.roster import Roster
from tocsin.symmetric.semantics import decide, refers_to

_REMEMBER = 0.2  # how much the newest offer counts in what is expected of the next
_MOST_MACHINES = 64


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
        self._static_share: dict[frozenset[str], float] = {}
        self._machines: dict[int, tuple[DynamicAttribute, Machine | None]] = {}

    def match(self, offer: Offer) -> Matched:
        """Return whom an offer matches."""
        dynamic = frozenset(attribute.name for attribute in offer.dynamic)
        early = [rule for rule in offer.rules if not refers_to(rule, dynamic)]
        late = [rule for rule in offer.rules if refers_to(rule, dynamic)]
        row = offer.row(self.meeting)
        plan = self._plan(offer, early, dynamic)
        if plan.first == "rules":
            survivors = self._by_rules(plan, early, row, dynamic)
        else:
            survivors = self._by_static(offer.event, early, row, dynamic)
        computed = self._match_dynamic(offer.dynamic, survivors, row, dynamic, found_statically=plan.first == "static")
        for rule in late:
            kept = self._test(rule, survivors, row, computed)
            computed = {name: column.take(kept) for name, column in computed.items()}
        return self._finished(offer, survivors, computed, plan)

    def _plan(self, offer: Offer, early: list[ConditionFormula], dynamic: frozenset[str]) -> Plan:
        if not self.rule_indexes:
            return Plan("static", None, "rule indexes are switched off")
        share = self._static_share.get(dynamic, FIRST_GUESS)
        return choose(offer, tuple(rule.root for rule in early), self.roster.properties, len(self.roster), share)

    def _by_static(
        self, event: Event, early: list[ConditionFormula], row: Mapping[str, Any], dynamic: frozenset[str]
    ) -> _Survivors:
        """Match Static by the engine, then the rules that need nothing computed."""
        rows = self.roster.match_static(event, dynamic)
        self.work.static_survivors += len(rows)
        self._learn(dynamic, len(rows), len(self.roster))
        intervals, others = self._divided(early)
        for column, interval in intervals:
            self.work.rule_rows += len(rows)
            rows = column.within(rows, interval)
        survivors = _Survivors(rows)
        for rule in others:
            self._test(rule, survivors, row, {})
        return survivors

    def _by_rules(
        self, plan: Plan, early: list[ConditionFormula], row: Mapping[str, Any], dynamic: frozenset[str]
    ) -> _Survivors:
        """Match Final by an index, then the conditions that need nothing computed."""
        self.work.rules_first += 1
        static = [name for name in self.meeting.event_domains if name not in dynamic]
        intervals, others = self._divided(early)
        if plan.access is not None:
            rows = self.roster.properties[plan.access.name].rows(plan.access)
        else:
            found = every_row(len(self.roster.ids))
            intervals = [one for one in intervals if not one[0].narrow(found, one[1])]
            static = self.roster.wants.narrow(found, static, row)
            rows = rows_of(found)
        rows = self.roster.live(rows)
        for column, interval in intervals:
            self.work.rule_rows += len(rows)
            rows = column.within(rows, interval)
        left = len(rows)
        rows, unsure = self.roster.wants.refine(rows, static, row)
        if plan.access is not None:  # bitmaps have looked at the conditions already
            self._learn(dynamic, len(rows), left)
        survivors = _Survivors(rows)
        for rule in others:
            self._test(rule, survivors, row, {})
        checked = self.roster.wants.check(
            survivors.rows, unsure, row, {}, self.roster.subscriber, found_statically=False, later=dynamic
        )
        survivors.doubtful |= checked.doubtful
        survivors.keep(checked.holds)
        return survivors

    def _learn(self, dynamic: frozenset[str], held: int, of: int) -> None:
        """Remember for which share of the subscribers the conditions held."""
        if of:
            before = self._static_share.get(dynamic, held / of)
            self._static_share[dynamic] = before + _REMEMBER * (held / of - before)

    def _divided(
        self, rules: list[ConditionFormula]
    ) -> tuple[list[tuple[PropertyColumn, Interval]], list[ConditionFormula]]:
        """Return the intervals of property columns that rules are, and the rules that are none."""
        intervals: list[tuple[PropertyColumn, Interval]] = []
        others: list[ConditionFormula] = []
        for rule in rules:
            parts = rule.root.parts if isinstance(rule.root, Every) else (rule.root,)
            found: list[tuple[PropertyColumn, Interval]] = []
            for part in parts:
                column = self.roster.properties.get(part.name) if isinstance(part, Satisfies) else None
                interval = None if column is None else column.interval(part)  # type: ignore[arg-type]
                if column is not None and interval is not None:
                    found.append((column, interval))
            intervals += found
            if len(found) < len(parts):
                others.append(rule)
        return intervals, others

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
        row: Mapping[str, Any],
        dynamic: frozenset[str],
        *,
        found_statically: bool,
    ) -> dict[str, Column]:
        """Compute the dynamic attributes for the survivors; take from them those whose conditions they do not satisfy."""
        computed: dict[str, Column] = {}
        for attribute in attributes:
            column, doubtful = self._compute(attribute, survivors.rows, row)
            if doubtful is not None:
                survivors.doubtful |= doubtful
            computed[attribute.name] = column
        checked = self.roster.wants.check(
            survivors.rows, sorted(dynamic), row, computed, self.roster.subscriber, found_statically=True,
            only=None if found_statically else dynamic,
        )  # fmt: skip
        holds = checked.holds | survivors.doubtful  # what failed is decided by the definition
        survivors.doubtful |= checked.doubtful
        survivors.keep(holds)
        return {name: column.take(holds) for name, column in computed.items()}

    def _compute(self, attribute: DynamicAttribute, rows: Rows, row: Mapping[str, Any]) -> tuple[Column, Any]:
        """Return an attribute's values, and which rows are doubtful (None: none)."""
        self.work.dynamic_rows += len(rows)
        machine = self._machine(attribute)
        by_machine = None if machine is None else machine.run(self.roster.properties, rows, row)
        if by_machine is not None:
            return by_machine, None
        names = attribute.formula.names
        columns = {name: self.roster.properties[name].column(rows) for name in names if name in self.roster.properties}
        found = compute_column(attribute.formula, columns, len(rows), row)
        column = admit_column(found, attribute.domain, lambda value: admitted(value, attribute.domain, attribute.name))
        return column, None if column.failed is None else column.failed != 0

    def _machine(self, attribute: DynamicAttribute) -> Machine | None:
        """Return the machine of a dynamic attribute; the last ones are kept, by the attribute's identity."""
        known = self._machines.get(id(attribute))
        if known is None or known[0] is not attribute:
            machine = machine_for(attribute.formula, attribute.domain, self.meeting.property_domains)
            while len(self._machines) >= _MOST_MACHINES:
                del self._machines[next(iter(self._machines))]
            known = self._machines[id(attribute)] = (attribute, machine)
        return known[1]

    def _finished(self, offer: Offer, survivors: _Survivors, computed: Mapping[str, Column], plan: Plan) -> Matched:
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

    def _told(self, rows: Rows, computed: Mapping[str, Column], failures: list[Failure], plan: Plan) -> Matched:
        found = tuple(self.roster.ids.of(rows))
        self.work.offers += 1
        self.work.matches += len(found)
        self.work.failures += len(failures)
        return Matched(found, computed, tuple(failures), plan)
