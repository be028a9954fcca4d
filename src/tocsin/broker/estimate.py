"""Volume estimates for a draft subscription: how many events a day would it match? Without Spark, in a moment.

From a sample of recent events, kept as admitted events with a weight (events of the log for each one in the sample).
The draft is evaluated on the sample; the share that matches is given with the Wilson interval, and
times the rate of events. A sample of 5,000 gives a share of 10% to within about 0.8 points, 19 times out of 20.
`refresh` keeps a sample up to date: a reservoir over the events of a window, so that each is as likely to be in it.

Trial: a draft subscription asked of events one by one, outside of any index; for estimates and looks back.

By a matcher of its own, which asks operators only where the rest leaves it open; and only as long as the allowance of
seconds for operators lasts: whoever asks is waiting, and may ask often.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from tocsin.broker.admission import OfferAdmission, admit_stored
from tocsin.broker.expressions import Prepared, prepare
from tocsin.documents.subscriptions import Estimate
from tocsin.errors import TocsinError
from tocsin.language import Subscription
from tocsin.matching.matcher import Matcher
from tocsin.offers.programs import Programs
from tocsin.operators.registry import Registry
from tocsin.schema import Event, Schema, arrived
from tocsin.store import Store, schema_history
from tocsin.store.events import StoredEvent, read_events
from tocsin.store.offers import documents_between

OPERATOR_SECONDS = 1.0  # for the operators of one trial


class Trial:
    """One draft; `spent` says that it has had its time, and should be asked of no further events."""

    def __init__(self, draft: Prepared, registry: Registry) -> None:
        self._registry = registry
        self._before = self._seconds()
        self._matcher = Matcher(draft.schema, operators=registry)
        self._matcher.add(0, draft.bound)

    def _seconds(self) -> float:
        """Return what operators have taken so far, whoever called them."""
        return sum(each.seconds for each in list(self._registry.runner.counts.values()))

    def holds(self, event: Event) -> bool:
        """Return whether the event, or offer, satisfies the draft."""
        return bool(self._matcher.match(event))

    @property
    def spent(self) -> bool:
        return self._seconds() - self._before > OPERATOR_SECONDS


# Volume estimates for a draft subscription.


Z = 1.96  # of the normal distribution: 95% two-sided
DAY_SECONDS = 86_400.0
DEFAULT_SAMPLE = 5_000
_READ_AT_ONCE = 5_000
_MOST_BYTES = 1 << 20  # of a draft


@dataclass
class EventSample:
    """A uniform sample of the events of a stretch of time, and how many there were."""

    schema: Schema
    size: int = DEFAULT_SAMPLE
    events: list[Event] = field(default_factory=list)
    seen: int = 0
    first_us: int | None = None
    last_us: int | None = None
    through_seq: int = 0
    offers: OfferAdmission = field(default_factory=OfferAdmission)
    _random: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 - a sample, not a secret

    @classmethod
    def of_store(
        cls,
        store: Store,
        size: int = DEFAULT_SAMPLE,
        *,
        most_events: int = 50_000,
        programs: Programs | None = None,
        operators: Registry | None = None,
    ) -> EventSample:
        """Return a sample of a store's newest events; offers among them may call programs and operators."""
        with store.read() as connection:
            newest = schema_history.newest(connection)
            if newest is None:
                raise TocsinError("the store has no schema yet")
        registry = Registry() if operators is None else operators
        sample = cls(newest.schema, size, offers=OfferAdmission(programs, registry))
        sample.through_seq = max(store.meta().horizon, store.meta().seq - most_events)
        sample.refresh(store)
        return sample

    def refresh(self, store: Store) -> int:
        """Take in the events that came since; return how many."""
        taken = 0
        while True:
            with store.read() as connection:
                found = read_events(connection, self.through_seq, _READ_AT_ONCE)
                documents = documents_between(connection, found[0].seq, found[-1].seq) if found else {}
            for event in found:
                self._take(event, documents.get(event.seq))
            taken += len(found)
            if len(found) < _READ_AT_ONCE:
                return taken

    def _take(self, stored: StoredEvent, offer: bytes | None) -> None:
        """Take in an event: it stays with probability size / seen (reservoir sampling, Vitter's algorithm R)."""
        self.through_seq = stored.seq
        self.first_us = stored.arrival_us if self.first_us is None else self.first_us
        self.last_us = stored.arrival_us
        self.add(None, stored.body, offer, stored.arrival_us)

    def add(
        self, event: Event | None, body: bytes = b"", offer: bytes | None = None, arrival_us: int | None = None
    ) -> None:
        """Take in an event, given as it is or as the store has it; it is read only if it is chosen."""
        self.seen += 1
        at = len(self.events) if len(self.events) < self.size else self._random.randrange(self.seen)
        if at >= self.size:
            return
        chosen = event if event is not None else admit_stored(self.schema, body, offer, self.offers)
        chosen = chosen if arrival_us is None else arrived(chosen, arrival_us)
        if at == len(self.events):
            self.events.append(chosen)
        else:
            self.events[at] = chosen

    @property
    def per_day(self) -> float:
        """Events a day, over the time that the sample covers; 0 where it covers none."""
        if self.first_us is None or self.last_us is None or self.last_us <= self.first_us:
            return 0.0
        return self.seen * DAY_SECONDS * 1e6 / (self.last_us - self.first_us)

    def estimate(self, draft: str | Subscription, registry: Registry | None = None) -> Estimate:
        """Return how much a draft would match; raises LanguageError where it is wrong.

        One that calls operators of the registry is asked of fewer events, as estimate.py bounds it.
        """
        operators = Registry() if registry is None else registry
        prepared = prepare(draft, self.schema, most_bytes=_MOST_BYTES, registry=operators)
        trial = Trial(prepared, operators)
        matched, looked = self._count(trial)
        exact = self.seen == looked
        share = matched / max(1, looked)
        low, high = (share, share) if exact and looked else wilson(matched, looked)
        rate = self.per_day
        return Estimate(share, low, high, share * rate, low * rate, high * rate, looked, matched, exact)

    def _count(self, trial: Trial) -> tuple[int, int]:
        """Return how many events match, of how many that were looked at before the trial had its time."""
        matched = looked = 0
        # Whatever part of them is looked at must be a sample too; as they lie they are by age.
        for event in random.Random(0).sample(self.events, len(self.events)):  # noqa: S311
            if trial.spent:
                break
            matched += trial.holds(event)
            looked += 1
        return matched, looked


def wilson(matched: int, size: int, z: float = Z) -> tuple[float, float]:
    """Return the Wilson score interval of a share; (0, 1) where nothing was looked at."""
    if not size:
        return 0.0, 1.0
    share = matched / size
    spread = z * math.sqrt(share * (1 - share) / size + z * z / (4 * size * size))
    centre = share + z * z / (2 * size)
    scale = 1 + z * z / size
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)
