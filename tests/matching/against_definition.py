"""A matcher beside the definition: everything that it tells of events, compared pair by pair.

Used by test_mixed.py and by the fuzzer. What the definition says of a pair of event and subscription is worked out once;
the matcher is asked in every way: a batch, single events, a record batch, after changes, from disk.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from random import Random

import numpy as np

from tests.strategies.arrow_columns import as_arrow_has_them
from tests.strategies.mixed import OFFERS, MixedWorld
from tests.strategies.worlds import raw_pool
from tocsin.errors import FormulaFailed, LanguageError, TooLarge
from tocsin.index import subscription_index
from tocsin.index.encode import EventColumns, EventObjects, EventSource
from tocsin.index.index_folder import IndexFolder
from tocsin.index.plan import PlanCosts
from tocsin.language import BoundSubscription, bind, render
from tocsin.language.offer import Offer
from tocsin.language.semantics import DIVIDED_BY_ZERO, TOO_LARGE, Verdict, decide, situation_of
from tocsin.language.syntax import And, Node, Not, OperatorCall, Or, leaves
from tocsin.matching.engine import Failure, Inquiry, Match
from tocsin.matching.matcher import Matcher
from tocsin.schema import EVENT_TYPE, NOW, Event, arrived

Id = str | int
ARRIVALS = [1_763_200_800_000_000 + hours * 3_600_000_000 for hours in (0, 1, 11, 23, 24, 8_760, -400_000)]
identity = id  # of an event


class Live:
    """A matcher with random subscriptions of a mixed world, and events to ask it about."""

    def __init__(self, random: Random, subscriptions: int, events: int, arrow_events: int = 0) -> None:
        self.random = random
        self.world = MixedWorld(random)
        self.matcher = Matcher(self.world.schema, operators=self.world.registry, merge_beside=False)
        # As many clusters and filters, or ranges in bands, as there can be, which so few subscriptions would not get.
        filtered = PlanCosts(row=1.0, probe=40.0, passing=1.0)
        in_bands = PlanCosts(row=random.choice([0.01, 1.0]), probe=40.0, passing=1.0, ranged=1, many_codes=0, bands=0.0)
        self.matcher.index.costs = random.choice([None, filtered, in_bands])
        self.texts = random.choice([0.0, 0.5, 1.0])  # share of ids that are texts
        self.subscriptions: dict[Id, BoundSubscription] = {}  # all that ever were
        self.live: set[Id] = set()
        drawn = [self._event() for _ in range(events)]
        self.events: list[Event] = [arrived(event, random.choice(ARRIVALS)) for event in drawn]
        plain = [event for event in drawn if type(event) is Event][:arrow_events]
        read, self.columns = as_arrow_has_them(random, self.world.schema, plain)
        self.arrivals = np.array([random.choice(ARRIVALS) for _ in read], np.int64)
        self.arrow_events = [arrived(event, at) for event, at in zip(read, self.arrivals.tolist(), strict=True)]
        self.pairs = self.compared = self.matches = self.failures = self.bindings = 0
        self._verdicts: dict[tuple[Id, int], Verdict] = {}
        self.add(subscriptions)

    def _event(self) -> Event:
        return self.world.offer() if OFFERS and self.random.random() < 0.4 else self.world.event()

    # --- changes ------------------------------------------------------------------------------------------------------

    def add(self, count: int) -> None:
        """Subscribe."""
        for _ in range(count):
            number = len(self.subscriptions)
            id: Id = f"né {number}" if self.random.random() < self.texts else number
            bound = self.world.subscription()
            try:
                self.matcher.add(id, bound)
            except TooLarge:
                continue
            self.subscriptions[id] = bound
            self.live.add(id)

    def add_tiers(self, tiers: int, count: int) -> None:
        """Subscribe in several goes, of which each becomes a tier."""
        small, subscription_index.SMALL = subscription_index.SMALL, 0
        try:
            for _ in range(tiers):
                self.matcher.index.tiers()
                self.add(count)
            self.matcher.index.tiers()
        finally:
            subscription_index.SMALL = small

    def churn(self) -> None:
        """Let a third of the subscriptions go, some of them come back, and others come."""
        for id in self.random.sample(sorted(self.live, key=str), len(self.live) // 3):
            self.matcher.unsubscribe(id)
            self.live.discard(id)
        gone = sorted(set(self.subscriptions) - self.live, key=str)
        for id in self.random.sample(gone, len(gone) // 4):
            self.matcher.add(id, self.subscriptions[id])
            self.live.add(id)
        self.add(len(self.live) // 3)

    def stored(self) -> Matcher:
        """Return a matcher of the index, saved and opened again; it stays readable when its folder is gone."""
        with tempfile.TemporaryDirectory() as folder:
            IndexFolder(Path(folder)).save(self.matcher.index, 1)
            index, _ = IndexFolder(Path(folder)).load(self.world.schema)
            return Matcher(self.world.schema, index, operators=self.world.registry, merge_beside=False)

    # --- comparing ----------------------------------------------------------------------------------------------------

    def difference(
        self, matcher: Matcher | None = None, live: set[Id] | None = None, *, each: int = 1, singles: int = 5
    ) -> str | None:
        """Return the first pair on which the matcher, in some way, and the definition disagree; None where they agree.

        One event of `each` in a batch, one of `singles` by itself.
        """
        matcher, live = matcher or self.matcher, self.live if live is None else live
        events = self.events[:: max(1, each)]
        found = self._of_batch(matcher, EventObjects(events), events, live, "a batch")
        if found is None and self.arrow_events and each == 1:
            source = EventColumns(self.columns, self.world.schema).arrived(self.arrivals)
            found = self._of_batch(matcher, source, self.arrow_events, live, "a record batch")
        for event in self.events[1::singles] if found is None else ():
            found = found or self._of_event(event, live, *matcher.find(event), "a single event")
        return found

    def difference_of_explanations(self, count: int) -> str | None:
        """Return the first of some pairs, matching and failing ones first, whose explanation is not what the definition says."""
        pairs = [(id, event) for event in self.events for id in sorted(self.live, key=str)]
        self.random.shuffle(pairs)
        pairs.sort(key=lambda pair: not (self.verdict(*pair).matched or self.verdict(*pair).failure))
        for id, event in pairs[: count // 2] + pairs[-count // 2 :]:
            told, right = self.matcher.explain(id, event), self.verdict(id, event)
            if (told.matched, told.bindings, told.failure is None) != (
                right.matched,
                right.bindings,
                right.failure is None,
            ):
                return f"it is explained so:\n{told}\n{right}\n{self.shown(id, event)}"
            if told.matched != (not told.changes):
                return f"matched is {told.matched}, and yet it would take {told.changes}\n{self.shown(id, event)}"
        return None

    def _of_batch(
        self, matcher: Matcher, source: EventSource, events: Sequence[Event], live: set[Id], way: str
    ) -> str | None:
        inquiry = Inquiry()
        lists = [ids for part in matcher.match_source(source, inquiry=inquiry) for ids in part.lists()]
        for number, (event, ids) in enumerate(zip(events, lists, strict=True)):
            told = inquiry.matches(number, ids), inquiry.failed(number, set(ids))
            if (found := self._of_event(event, live, *told, way)) is not None:
                return found
        return None

    def verdict(self, id: Id, event: Event) -> Verdict:
        """Return what the definition says of a pair."""
        known = self._verdicts.get((id, identity(event)))
        if known is None:
            known = decide(self.subscriptions[id], event, self.world.remembered)
            self._verdicts[id, identity(event)] = known
            self.pairs += 1
            self.matches += known.matched
            self.failures += known.failure is not None
            self.bindings += bool(known.bindings)
        return known

    def _of_event(
        self, event: Event, live: set[Id], matches: list[Match], failures: list[Failure], way: str
    ) -> str | None:
        """Return the first subscription on which what was found for an event is not what the definition says."""
        matched = {match.id: match for match in matches}
        failed = {failure.id: failure.reason for failure in failures}
        if len(matched) != len(matches) or len(failed) != len(failures):
            return f"{way}: a subscription is told twice"
        if strangers := (matched.keys() | failed.keys()) - live:
            return f"{way}: {strangers} are not subscribed"
        self.compared += len(live)
        for id in live:
            if (what := self._of_pair(id, event, matched.get(id), failed.get(id))) is not None:
                return f"{way}: {what}\n{self.shown(id, event)}"
        return None

    def _of_pair(self, id: Id, event: Event, match: Match | None, failed: str | None) -> str | None:
        right = self.verdict(id, event)
        if (match is not None) != right.matched:
            return (
                f"it {'matches' if match else 'does not match'}, and should {'' if right.matched else 'not'}; {right}"
            )
        if failed is None and right.failure is not None and self._is_hopeless(id, event):
            return None
        if (failed is not None) != (right.failure is not None):
            return f"it failed: {failed}; the definition says {right}"
        if failed is not None and failed != right.failure and not self._may_fail(id, event, failed):
            return f"it failed: {failed}; the definition says {right.failure}"
        if match is not None and match.bindings != right.bindings:
            return f"its bindings are {match.bindings}; the definition says {right.bindings}"
        if match is not None and dict(match.computed) != dict(right.computed):
            return f"computed is {match.computed}; the definition says {right.computed}"
        return None

    def _is_hopeless(self, id: Id, event: Event) -> bool:
        """Return whether nothing that an offer failed to compute would make a pair hold, so that it is known to be false.

        `price < 3 and price > 5` is, whatever the price; the definition, which does not look ahead, says that it fails.
        """
        bound = self.subscriptions[id]
        failed = [*situation_of(bound, event, self.world.remembered).failed]
        if not failed or not isinstance(event, Offer):
            return False
        domains = [self.world.schema.domain_of(name) for name in failed]
        pools = [[None, *map(domain.admit, raw_pool(domain))] for domain in domains]
        for chosen in islice(product(*pools), 2_000):
            given = {name: (value,) for name, value in zip(failed, chosen, strict=True) if value is not None}
            computed = tuple(each for each in event.computed if each.name not in failed)
            verdict = decide(
                bound, replace(event, values={**event.values, **given}, computed=computed), self.world.registry
            )
            if verdict.matched or verdict.failure is not None:
                return False
        return True

    def _may_fail(self, id: Id, event: Event, reason: str) -> bool:
        """Return whether a reason is another one of the same pair: of several, any may be told."""
        bound = self.subscriptions[id]
        conditions = [bound.subscription.where, *(rule.root for rule in getattr(event, "rules", ()))]
        reasons = {DIVIDED_BY_ZERO, TOO_LARGE}
        reasons |= {error.reason for error in situation_of(bound, event, self.world.remembered).failed.values()}
        for leaf in (leaf for condition in conditions for leaf in leaves(condition)):
            if isinstance(leaf, OperatorCall):
                try:
                    self.world.remembered.solutions(leaf, event)
                except FormulaFailed as error:
                    reasons.add(error.reason)
        return _without_numbers(reason) in map(_without_numbers, reasons)

    # --- telling ------------------------------------------------------------------------------------------------------

    def shown(self, id: Id, event: Event) -> str:
        """Return a pair in words, as small as it still disagrees where it does so by itself."""
        bound, smaller = self.subscriptions[id], event
        if self.disagrees(bound, event):
            bound, smaller = self._shrunk(bound, event)
        return f"subscription {id!r}:\n  {render(bound.subscription)}\nevent:\n  {smaller!r}"

    def disagrees(self, bound: BoundSubscription, event: Event) -> bool:
        """Return whether matcher and definition disagree on a pair by itself, asked in a batch of two or singly."""
        matcher = Matcher(self.world.schema, operators=self.world.registry)
        matcher.add(1, bound)
        right = decide(bound, event, self.world.registry)
        matches, failures = matcher.find(event)
        inquiry = Inquiry()
        ids = [
            ids for part in matcher.match_source(EventObjects([event] * 2), inquiry=inquiry) for ids in part.lists()
        ][1]
        ways = [(matches, failures), (inquiry.matches(1, ids), inquiry.failed(1, set(ids)))]
        wanted = (right.matched, right.failure is not None, right.bindings)
        return any((bool(found), bool(failed), found[0].bindings if found else ()) != wanted for found, failed in ways)

    def _shrunk(self, bound: BoundSubscription, event: Event) -> tuple[BoundSubscription, Event]:
        going_on = True
        while going_on:
            going_on = False
            for smaller in _smaller(bound.subscription.where):
                tried = self._bound(bound, smaller)
                if tried is not None and self.disagrees(tried, event):
                    bound, going_on = tried, True
                    break
        arrays = self.world.schema.object_attributes
        for name in event.values if type(event) is Event else ():
            if name.partition(".")[0] in arrays:  # elements and their values belong together
                continue
            less = Event({other: values for other, values in event.values.items() if other != name})
            if name not in (EVENT_TYPE, NOW) and self.disagrees(bound, less):
                event = less
        return bound, event

    def _bound(self, bound: BoundSubscription, where: Node) -> BoundSubscription | None:
        try:
            tree = replace(bound.subscription, where=where)
            return bind(tree, self.world.schema, operators=self.world.registry)
        except (LanguageError, TooLarge):
            return None


def _without_numbers(reason: str) -> str:
    """Return a reason but for the numbers in it: 0.10 may be told as 0.1, which is the same."""
    return re.sub(r"Decimal\('[^']*'\)|\d[\d.e+-]*", "#", reason)


def _smaller(node: Node) -> list[Node]:
    """Return conditions with a part less."""
    match node:
        case And(parts) | Or(parts):
            less = [type(node)((*parts[:at], *parts[at + 1 :])) for at in range(len(parts))]
            within = [
                type(node)((*parts[:at], each, *parts[at + 1 :]))
                for at, part in enumerate(parts)
                for each in _smaller(part)
            ]
            return [*parts, *less, *within]
        case Not(part):
            return [part, *(Not(each) for each in _smaller(part))]
        case _:
            return []
