"""The Engine interface: what every engine offers, whatever its algorithm.

An engine holds subscriptions by id and finds those that an event satisfies, exactly as language/semantics.py defines.
What it does not have it says in its capabilities; asked for it, it raises NotSupported.

Inquiry: what matching a batch of events finds out beside which subscriptions match.

The values of variables and of computed attributes belong to matches, failures to pairs that have no answer. What operators
said is kept for each event, so that nothing is asked twice: by another segment, or by the match that follows a prefetch.

The naive engine: every subscription is tested against every event, by the definition (Le Subscribe, section 3.1).

Time: subscriptions times predicates, for each event. It is the yardstick of the others, and the one to trust.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from tocsin.errors import DuplicateSubscription, UnknownSubscription
from tocsin.language import BoundSubscription, Subscription, bind
from tocsin.language.documents import BadLine, read_lines
from tocsin.language.formula import NO_OPERATORS, Operators, Substitution
from tocsin.language.formula_columns import column_of
from tocsin.language.offer import Offer
from tocsin.language.semantics import decide
from tocsin.language.syntax import Op
from tocsin.matching.offering import OfferMatches
from tocsin.offers.programs import Programs
from tocsin.operators.operator import StoredCalls
from tocsin.schema import Event, Schema, Value, arrived

if TYPE_CHECKING:
    from tocsin.matching.offering import OfferMatches
    from tocsin.operators.problem import EventEvaluation
    from tocsin.operators.questions import OperatorQuestions

SubscriptionId = str | int


@dataclass(frozen=True, slots=True)
class Match:
    """A subscription that an event satisfies.

    `bindings` are the values of its variables that satisfy it, `computed` the values that an offer computes for it.
    """

    id: SubscriptionId
    bindings: tuple[Substitution, ...] = ()
    computed: Mapping[str, Value | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    """A subscription that nothing refuses, but for which something failed."""

    id: SubscriptionId
    reason: str


class Inquiry:
    """What was found out about the events of a batch."""

    def __init__(self, known: Mapping[int, EventEvaluation] | None = None, *, closed: bool = False) -> None:
        """Begin with what operators have said already, by the events' numbers in the batch; closed, none is asked."""
        self.bindings: dict[tuple[int, SubscriptionId], tuple[Substitution, ...]] = {}
        self.offers: dict[int, OfferMatches] = {}  # by the event's number in the batch
        self.failures: dict[tuple[int, SubscriptionId], str] = {}
        self._evaluations = dict(known or {})
        self.closed = closed
        for each in self._evaluations.values():
            each.reopen(closed=closed)

    @property
    def missing(self) -> set[int]:
        """The numbers of the events of which operators would have had to be asked."""
        return {at for at, each in self._evaluations.items() if each.missing}

    def renumbered(self, numbers: Sequence[int]) -> Inquiry:
        """Return an inquiry about some of the events, which are numbered anew."""
        return Inquiry(
            {at: self._evaluations[number] for at, number in enumerate(numbers) if number in self._evaluations},
            closed=self.closed,
        )

    def take_over(self, other: Inquiry, numbers: Sequence[int]) -> None:
        """Take over what was found out about some of the events."""
        self.bindings.update(((numbers[at], id), found) for (at, id), found in other.bindings.items())
        self.failures.update(((numbers[at], id), why) for (at, id), why in other.failures.items())
        self._evaluations.update((numbers[at], known) for at, known in other._evaluations.items())

    @property
    def events(self) -> set[int]:
        """The numbers of the events about which there is more to say than their matches."""
        return {*self.offers, *(at for at, _ in self.bindings), *(at for at, _ in self.failures)}

    def known(self, number: int) -> EventEvaluation | None:
        """Return what operators have said about an event of the batch, None where none was asked."""
        return self._evaluations.get(number)

    def evaluation(self, number: int, event: Event, asked: OperatorQuestions) -> EventEvaluation:
        """Return what operators have said about an event of the batch; nothing, where others numbered its predicates."""
        known = self._evaluations.get(number)
        if known is None or known.patterns is not asked.predicates.patterns:
            known = self._evaluations[number] = asked.evaluation(event)
            known.closed = self.closed
        return known

    def hold(self, event: int, id: SubscriptionId, bindings: tuple[Substitution, ...]) -> None:
        """Take note that a conjunction of a subscription holds, for these values of variables."""
        key = (event, id)
        before = self.bindings.get(key)
        if not bindings or before == ():  # it holds without any
            self.bindings[key] = ()
        elif before is None:
            self.bindings[key] = bindings
        else:
            self.bindings[key] = before + tuple(each for each in bindings if each not in before)

    def matches(self, event: int, ids: list[SubscriptionId]) -> list[Match]:
        """Return the matches of an event, of which these are the ids."""
        from tocsin.language.semantics import MOST_BINDINGS, in_order

        offer = self.offers.get(event)
        computed = {} if offer is None else dict(zip(offer.told.tolist(), offer.values(), strict=True))
        found = []
        for id in ids:
            bindings = in_order(self.bindings.get((event, id), ()))[:MOST_BINDINGS]
            found.append(Match(id, bindings, computed.get(id, {})))
        return found

    def failed(self, event: int, matched: set[Any]) -> list[Failure]:
        """Return the failures of an event that no other conjunction made up for."""
        return [Failure(id, why) for (at, id), why in self.failures.items() if at == event and id not in matched]


# The Engine interface.


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What subscriptions an engine takes; the shared test suite expects NotSupported for the rest, and nothing else."""

    operators: frozenset[Op] = frozenset(Op)
    disjunction: bool = True
    decided_leaves: bool = False  # comparisons of formulas, calls of operators, offers
    negation: bool = True
    several_patterns: bool = True  # `starts with any (…)`, `starts with … ignoring case`
    multiple_attributes: bool = True
    incremental: bool = True  # adding and removing does not rebuild everything


@dataclass(slots=True)
class Work:
    """What matching has cost so far, in steps rather than seconds, so that tests can assert it."""

    events: int = 0
    matches: int = 0
    subscriptions_checked: int = 0
    predicates_checked: int = 0
    details: dict[str, int] = field(default_factory=dict)  # counters of one engine alone


class Engine(ABC):
    """Subscriptions by id, and the events that satisfy them."""

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities] = Capabilities()

    operators: Operators = NO_OPERATORS

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.work = Work()

    @abstractmethod
    def add(self, id: SubscriptionId, subscription: BoundSubscription) -> None:
        """Hold a subscription; raises DuplicateSubscription, NotSupported."""

    @abstractmethod
    def remove(self, id: SubscriptionId) -> None:
        """Let go of a subscription; raises UnknownSubscription."""

    @abstractmethod
    def match(self, event: Event) -> list[SubscriptionId]:
        """Return the ids of the subscriptions that the event satisfies, each once, in any order."""

    def match_batch(self, events: Sequence[Event]) -> list[list[SubscriptionId]]:
        """Return the matches of each event."""
        return [self.match(event) for event in events]

    def find_batch(self, events: Sequence[Event]) -> list[tuple[list[Match], list[Failure]]]:
        """Return the matches of each event, with the values of variables and what is computed; and what failed."""
        return [([Match(id) for id in ids], []) for ids in self.match_batch(events)]

    @abstractmethod
    def snapshot(self) -> Engine:
        """Return a matcher with the subscriptions of this moment, which later changes here do not reach."""

    @abstractmethod
    def __len__(self) -> int:
        """Return how many subscriptions it holds."""

    def subscribe(self, id: SubscriptionId, expression: str | Subscription) -> None:
        """Hold a subscription written as text, or as a tree; raises LanguageError where it is wrong."""
        self.add(id, bind(expression, self.schema, operators=self.operators))

    def add_all(self, subscriptions: Iterable[tuple[SubscriptionId, BoundSubscription]]) -> None:
        """Hold many subscriptions; engines with a bulk path override it."""
        for id, subscription in subscriptions:
            self.add(id, subscription)

    def load(self, lines: Iterable[bytes | str]) -> list[BadLine]:
        """Hold the subscriptions of these lines, a JSON document each, in any form; return the bad lines."""
        bad: list[BadLine] = []
        for found in read_lines(lines, self.schema, self.operators):
            if isinstance(found, BadLine):
                bad.append(found)
            else:
                self.add(*found)
        return bad


# --- The naive engine -------------------------------------------------------------------------------------------------


Int64s = npt.NDArray[np.int64]


class NaiveMatcher(Engine):
    """Tests each subscription in turn."""

    name: ClassVar[str] = "naive"
    capabilities: ClassVar[Capabilities] = Capabilities(decided_leaves=True)

    def __init__(self, schema: Schema, operators: Operators = NO_OPERATORS, programs: Programs | None = None) -> None:
        super().__init__(schema)
        self.operators, self.stored_operators = operators, StoredCalls(operators)
        self.programs = Programs() if programs is None else programs
        self._subscriptions: dict[SubscriptionId, BoundSubscription] = {}

    def add(self, id: SubscriptionId, subscription: BoundSubscription) -> None:
        if id in self._subscriptions:
            raise DuplicateSubscription(id)
        self._subscriptions[id] = subscription

    def remove(self, id: SubscriptionId) -> None:
        if self._subscriptions.pop(id, None) is None:
            raise UnknownSubscription(id)

    def set_schema(self, schema: Schema) -> None:
        """Go on with an extension of the schema; subscriptions are bound anew by who added them."""
        self.schema = schema
        self._subscriptions = {}

    def match(self, event: Event) -> list[SubscriptionId]:
        return [found.id for found in self.find(event)[0]]

    def find(self, event: Event) -> tuple[list[Match], list[Failure]]:
        """Return the matches of an event, with the values of variables and what is computed; and what failed."""
        matches, failures = [], []
        event = arrived(event)
        for id, subscription in self.held():
            verdict = decide(subscription, event, self.stored_operators)
            if verdict.matched:
                matches.append(Match(id, verdict.bindings, verdict.computed))
            elif verdict.failure is not None:
                failures.append(Failure(id, verdict.failure))
        self.work.events += 1
        self.work.matches += len(matches)
        self.work.subscriptions_checked += len(self._subscriptions)
        return matches, failures

    def held(self) -> list[tuple[SubscriptionId, BoundSubscription]]:
        """Return the subscriptions of this moment."""
        return list(self._subscriptions.items())

    def subscription(self, id: SubscriptionId) -> BoundSubscription:
        """Return a subscription; raises UnknownSubscription."""
        if id not in self._subscriptions:
            raise UnknownSubscription(id)
        return self._subscriptions[id]

    def find_batch(self, events: Sequence[Event]) -> list[tuple[list[Match], list[Failure]]]:
        return [self.find(event) for event in events]

    @property
    def takes_long(self) -> bool:
        """Whether there is anything to prefetch: what it finds out is not kept."""
        return False

    def find_all(
        self, events: Sequence[Event], inquiry: Inquiry, arrival: Int64s | None = None
    ) -> tuple[Int64s, Int64s]:
        """Return (position of the event, id) of every match, of subscriptions whose ids are numbers."""
        positions, ids = [], []
        for at, event in enumerate(events):
            matches, failures = self.find(event if arrival is None else arrived(event, int(arrival[at])))
            for found in matches:
                positions.append(at)
                ids.append(found.id)
                if found.bindings:
                    inquiry.bindings[at, found.id] = found.bindings
            if isinstance(event, Offer) and event.computed:
                inquiry.offers[at] = _offer_matches(event, matches)
            inquiry.failures.update(((at, failed.id), failed.reason) for failed in failures)
        return np.array(positions, np.int64), np.array(ids, np.int64)

    def snapshot(self) -> NaiveMatcher:
        copy = NaiveMatcher(self.schema, self.operators, self.programs)
        copy._subscriptions = dict(self._subscriptions)
        return copy

    def __len__(self) -> int:
        return len(self._subscriptions)


def _offer_matches(offer: Offer, matches: Sequence[Match]) -> OfferMatches:
    columns = {
        each.name: column_of(each.domain, [found.computed[each.name] for found in matches]) for each in offer.computed
    }
    return OfferMatches(np.array([found.id for found in matches], np.int64), columns)
