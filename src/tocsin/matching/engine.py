"""The Engine interface: what every engine offers, whatever its algorithm.

An engine holds subscriptions by id and finds those that an event satisfies, exactly as language/semantics.py defines.
What it does not have it says in its capabilities; asked for it, it raises NotSupported.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tocsin.language import BoundSubscription, Subscription, bind
from tocsin.language.documents import BadLine, read_lines
from tocsin.language.formula import NO_OPERATORS, Operators
from tocsin.language.syntax import Op
from tocsin.matching.inquiry import Failure, Match
from tocsin.schema import Event, Schema

SubscriptionId = str | int


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What subscriptions an engine takes; the shared test suite expects NotSupported for the rest, and nothing else."""

    operators: frozenset[Op] = frozenset(Op)
    disjunction: bool = True
    decided_leaves: bool = False  # comparisons of formulas, calls of operators, offers
    negation: bool = True
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
