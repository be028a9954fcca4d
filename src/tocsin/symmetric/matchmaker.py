"""The Matchmaker: offers and subscribers of a union, matched in the paper's steps (section 4.2.3).

    Analysis       the offer becomes its static sub-event, its dynamic sub-event and its rules (offer.py)
    Match Static   the subscribers whose conditions the static sub-event may satisfy: by the columnar engine, or, where
                   the rules are more selective, by checking those that the rules leave
    Match Dynamic  dynamic attributes are computed for the survivors only, and the conditions on them checked
    Match Final    the rules over property columns, by their indexes; those on dynamic attributes last

The planner (plan.py) chooses whether Match Static or Match Final goes first. Whatever the order, the answer is that of
semantics.py: a row for which anything fails is decided by it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tocsin.errors import DuplicateSubscription, UnknownSubscription
from tocsin.language.formula import ConditionFormula
from tocsin.language.formula_columns import Column
from tocsin.language.formula_vector import compute_column, condition_column
from tocsin.language.syntax import Subscription
from tocsin.schema import Event, Schema, Value
from tocsin.symmetric.admit_column import admit_column
from tocsin.symmetric.columns import Rows
from tocsin.symmetric.explain import Explanation, explain
from tocsin.symmetric.meeting import meeting_of
from tocsin.symmetric.offer import DynamicAttribute, Offer, OfferId, admitted, bind_offer
from tocsin.symmetric.plan import FIRST_GUESS, Plan, choose
from tocsin.symmetric.programs import Programs
from tocsin.symmetric.roster import Roster
from tocsin.symmetric.semantics import Verdict, decide, refers_to
from tocsin.symmetric.subscriber import Subscriber, SubscriberId, bind_subscriber

_REMEMBER = 0.2  # how much the newest offer counts in what is expected of the next


@dataclass(slots=True)
class Work:
    """What matching has cost so far, in rows, by stage."""

    offers: int = 0
    rules_first: int = 0
    static_survivors: int = 0
    rule_rows: int = 0  # rows that rules were tested for
    dynamic_rows: int = 0  # rows that dynamic attributes were computed for
    decided_by_definition: int = 0
    matches: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Match:
    """A subscriber that an offer matches, with the values computed for it."""

    id: SubscriberId
    values: Mapping[str, Value | None]


@dataclass(frozen=True, slots=True)
class Failure:
    """A subscriber that neither side refuses, but for whom something could not be computed."""

    id: SubscriberId
    reason: str


@dataclass(frozen=True, slots=True)
class Matched:
    """What an offer met: whom, with which values, whom not because of a failure, and by which plan."""

    ids: tuple[SubscriberId, ...]
    columns: Mapping[str, Column]  # the dynamic attributes' values, in the order of `ids`
    failures: tuple[Failure, ...]
    plan: Plan

    def notifications(self) -> list[Match]:
        """Return each match with its computed values, as the subscriber is told."""
        listed = {name: column.to_list() for name, column in self.columns.items()}
        return [Match(id, {name: values[at] for name, values in listed.items()}) for at, id in enumerate(self.ids)]

    def for_publisher(self, *, reveal: bool = False) -> dict[str, Any]:
        """Return what the publisher may know: how many, and only where the operator allows it, who."""
        counts: dict[str, Any] = {"matches": len(self.ids), "failures": len(self.failures)}
        return {**counts, "subscribers": list(self.ids)} if reveal else counts


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


class Matchmaker:
    """Matches offers with subscribers, both of which come and go. Safe to share among threads."""

    def __init__(
        self, schema: Schema, union: str | None = None, *, programs: Programs | None = None, rule_indexes: bool = True
    ) -> None:
        self.meeting = meeting_of(schema, union)
        self.programs = programs or Programs()
        self.work = Work()
        self.roster = Roster(self.meeting)
        self._rule_indexes = rule_indexes
        self._static_share: dict[frozenset[str], float] = {}
        self._offers: dict[OfferId, object] = {}
        self._bound: dict[OfferId, tuple[int, Offer]] = {}
        self._lock = threading.RLock()

    # --- subscribers --------------------------------------------------------------------------------------------------

    def subscribe(self, id: SubscriberId, subscription: str | Subscription) -> None:
        """Hold a subscriber: `insurance where price <= 700 with age = 42`; raises LanguageError."""
        with self._lock:
            self.roster.add(self.bind_subscriber(id, subscription))

    def bind_subscriber(self, id: SubscriberId, subscription: str | Subscription) -> Subscriber:
        """Return the subscriber that a text or tree describes, without holding it."""
        return bind_subscriber(id, subscription, self.meeting)

    def add(self, subscriber: Subscriber) -> None:
        """Hold a subscriber that is bound already (load.py makes many at once)."""
        with self._lock:
            self.roster.add(subscriber)

    def unsubscribe(self, id: SubscriberId) -> None:
        """Let go of a subscriber; raises UnknownSubscription."""
        with self._lock:
            self.roster.remove(id)

    def __len__(self) -> int:
        return len(self.roster)

    # --- offers -------------------------------------------------------------------------------------------------------

    def analyse(self, document: object) -> Offer:
        """Return the offer that a document describes, divided into its parts; raises EventRejected."""
        return bind_offer(document, self.meeting, self.programs.resolve)

    def advertise(self, id: OfferId, document: Mapping[str, Any]) -> Matched:
        """Hold an offer for subscribers to come, and return whom it matches now."""
        with self._lock:
            if id in self._offers:
                raise DuplicateSubscription(id)
            offer = self.analyse({**document, "id": id})
            self._offers[id] = {**document, "id": id}
            return self.match(offer)

    def withdraw(self, id: OfferId) -> None:
        """Let go of an offer; raises UnknownSubscription."""
        with self._lock:
            if self._offers.pop(id, None) is None:
                raise UnknownSubscription(id)
            self._bound.pop(id, None)

    def query(self, subscription: str | Subscriber) -> list[tuple[OfferId, Verdict]]:
        """Return the live offers that a subscription, held or not, matches now, with the computed values."""
        with self._lock:
            subscriber = self.bind_subscriber(0, subscription) if isinstance(subscription, str) else subscription
            verdicts = ((id, decide(self._live(id), subscriber, self.meeting)) for id in self._offers)
            return [(id, verdict) for id, verdict in verdicts if verdict.matched]

    def _live(self, id: OfferId) -> Offer:
        """Return a held offer, bound to the programs of now."""
        generation, offer = self._bound.get(id, (-1, None))
        if offer is None or generation != self.programs.generation:
            offer = self.analyse(self._offers[id])
            self._bound[id] = (self.programs.generation, offer)
        return offer

    # --- matching -----------------------------------------------------------------------------------------------------

    def match(self, offer: object) -> Matched:
        """Return whom an offer, as a document or analysed, matches."""
        with self._lock:
            analysed = offer if isinstance(offer, Offer) else self.analyse(offer)
            return self._match(analysed)

    def _match(self, offer: Offer) -> Matched:
        dynamic = frozenset(attribute.name for attribute in offer.dynamic)
        early = tuple(rule for rule in offer.rules if not refers_to(rule, dynamic))
        late = tuple(rule for rule in offer.rules if refers_to(rule, dynamic))
        row = offer.row(self.meeting)
        plan = self._plan(offer, early, dynamic)
        if plan.access is not None:
            survivors = self._by_rules(plan, early, row, dynamic)
        else:
            survivors = self._by_static(offer.event, early, row, dynamic)
        computed = self._match_dynamic(offer.dynamic, survivors, row, dynamic, found_statically=plan.access is None)
        for rule in late:
            kept = self._test(rule, survivors, row, computed)
            computed = {name: column.take(kept) for name, column in computed.items()}
        return self._finished(offer, survivors, computed, plan)

    def _plan(self, offer: Offer, early: tuple[ConditionFormula, ...], dynamic: frozenset[str]) -> Plan:
        if not self._rule_indexes:
            return Plan("static", None, "static first: rule indexes are switched off")
        share = self._static_share.get(dynamic, FIRST_GUESS)
        return choose(offer, tuple(rule.root for rule in early), self.roster.properties, len(self.roster), share)

    def _by_static(
        self, event: Event, early: tuple[ConditionFormula, ...], row: Mapping[str, Any], dynamic: frozenset[str]
    ) -> _Survivors:
        """Match Static by the engine, then the rules that need nothing computed."""
        survivors = _Survivors(self.roster.match_static(event, dynamic))
        self.work.static_survivors += len(survivors.rows)
        share = len(survivors.rows) / max(len(self.roster), 1)
        before = self._static_share.get(dynamic, share)
        self._static_share[dynamic] = before + _REMEMBER * (share - before)
        for rule in early:
            self._test(rule, survivors, row, {})
        return survivors

    def _by_rules(
        self, plan: Plan, early: tuple[ConditionFormula, ...], row: Mapping[str, Any], dynamic: frozenset[str]
    ) -> _Survivors:
        """Match Final by an index, then the conditions that need nothing computed."""
        assert plan.access is not None
        self.work.rules_first += 1
        survivors = _Survivors(self.roster.live(self.roster.properties[plan.access.name].rows(plan.access)))
        for rule in early:
            if rule.root != plan.access:
                self._test(rule, survivors, row, {})
        static = [name for name in self.meeting.event_domains if name not in dynamic]
        checked = self.roster.wants.check(
            survivors.rows, static, row, {}, self.roster.subscriber, found_statically=False, later=dynamic
        )
        survivors.doubtful |= checked.doubtful
        survivors.keep(checked.holds)
        return survivors

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
            column = self._compute(attribute, survivors.rows, row)
            if column.failed is not None:
                survivors.doubtful |= column.failed != 0
            computed[attribute.name] = column
        checked = self.roster.wants.check(
            survivors.rows, sorted(dynamic), row, computed, self.roster.subscriber, found_statically=True,
            only=None if found_statically else dynamic,
        )  # fmt: skip
        holds = checked.holds | survivors.doubtful  # what failed is decided by the definition
        survivors.doubtful |= checked.doubtful
        survivors.keep(holds)
        return {name: column.take(holds) for name, column in computed.items()}

    def _compute(self, attribute: DynamicAttribute, rows: Rows, row: Mapping[str, Any]) -> Column:
        self.work.dynamic_rows += len(rows)
        names = attribute.formula.names
        columns = {name: self.roster.properties[name].column(rows) for name in names if name in self.roster.properties}
        found = compute_column(attribute.formula, columns, len(rows), row)
        return admit_column(found, attribute.domain, lambda value: admitted(value, attribute.domain, attribute.name))

    def _finished(self, offer: Offer, survivors: _Survivors, computed: Mapping[str, Column], plan: Plan) -> Matched:
        """Return the answer, the doubtful rows decided by the definition."""
        failures: list[Failure] = []
        matched = ~survivors.doubtful
        for place in np.flatnonzero(survivors.doubtful).tolist():
            subscriber = self.roster.subscriber(int(survivors.rows[place]))
            verdict = decide(offer, subscriber, self.meeting)
            matched[place] = verdict.matched
            if verdict.failure is not None:
                failures.append(Failure(subscriber.id, verdict.failure))
        self.work.decided_by_definition += int(survivors.doubtful.sum())
        ids = self.roster.ids
        found = tuple(ids[row] for row in survivors.rows[matched].tolist())
        self.work.offers += 1
        self.work.matches += len(found)
        self.work.failures += len(failures)
        return Matched(found, {name: column.take(matched) for name, column in computed.items()}, tuple(failures), plan)

    # --- one pair -----------------------------------------------------------------------------------------------------

    def decide(self, offer: object, id: SubscriberId) -> Verdict:
        """Return what the definition says of an offer and a held subscriber."""
        analysed = offer if isinstance(offer, Offer) else self.analyse(offer)
        return decide(analysed, self.roster.subscriber(self.roster.row_of(id)), self.meeting)

    def explain(self, offer: object, id: SubscriberId) -> Explanation:
        """Return why an offer and a held subscriber match, or which side refuses."""
        analysed = offer if isinstance(offer, Offer) else self.analyse(offer)
        return explain(analysed, self.roster.subscriber(self.roster.row_of(id)), self.meeting)

    def stats(self) -> dict[str, Any]:
        """Return the counters of the stages and of the cache."""
        return {
            "subscribers": len(self),
            "offers": len(self._offers),
            "work": asdict(self.work),
            "cache": self.programs.cache.stats(),
        }
