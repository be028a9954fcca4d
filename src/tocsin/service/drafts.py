"""Drafts: what a subscription would do, before it is one. Plans, volume estimates, a look back over the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tocsin.broker import Broker
from tocsin.broker.admission import admit_stored, read_stored
from tocsin.broker.estimate import EventSample
from tocsin.broker.expressions import Expression
from tocsin.broker.offers import OfferAdmission
from tocsin.broker.times import id_text
from tocsin.broker.trial import Trial
from tocsin.compile.analysis import conjunction_text, warnings_of
from tocsin.language import from_json
from tocsin.language.documents import decode
from tocsin.schema import Event
from tocsin.service.refusals import BadRequest
from tocsin.store.events import StoredEvent, read_events
from tocsin.store.offers import documents_between

_LOOKED_AT = 20_000  # events of the log that one request looks at
_FRESH_SECONDS = 5.0


def plan(broker: Broker, expression: Expression) -> dict[str, Any]:
    """Return how an expression is understood: its text, its conjunctions, and what its author should know."""
    found = broker.prepare(expression)
    texts = [conjunction_text(one) for one in found.form.conjunctions]
    return {"text": found.text, "warnings": warnings_of(found.form), "conjunctions": texts}


class LogStretch:
    """Events of the log, in order, and what each was: an offer has its rules and what it computes."""

    def __init__(self, broker: Broker, after_seq: int, limit: int) -> None:
        with broker.store.read() as connection:
            self.stored: Sequence[StoredEvent] = read_events(connection, after_seq, limit)
            ends = (self.stored[0].seq, self.stored[-1].seq) if self.stored else (0, 0)
            self._documents = documents_between(connection, *ends)
        self._schema = broker.schema
        self._offers = OfferAdmission(broker.held_offers.programs, broker.operators)

    def read(self, one: StoredEvent) -> Event:
        """Return an event of the stretch; of an offer whose program is gone, its own attributes."""
        return admit_stored(self._schema, one.body, self._documents.get(one.seq), self._offers)


def backfill(broker: Broker, expression: Expression, after_seq: int, limit: int) -> dict[str, Any]:
    """Return the stored events that an expression matches, in order, after a seq; looks at a bounded stretch of the log.

    `after` of the answer goes on from there; None where the end of the log was reached.
    """
    stretch = LogStretch(broker, after_seq, _LOOKED_AT)
    items: list[dict[str, Any]] = []
    looked, after = 0, after_seq
    trial = Trial(broker.prepare(expression), broker.operators)
    for one in stretch.stored:
        if trial.spent:
            break
        looked, after = looked + 1, one.seq
        if trial.holds(stretch.read(one)):
            items.append({"seq": one.seq, "event_id": id_text(one.event_id), "event": read_stored(one.body)})
            if len(items) >= limit:
                break
    at_end = looked == len(stretch.stored) < _LOOKED_AT
    return {"items": items, "looked_at": looked, "after": None if at_end else str(after)}


def read_after(after: str | None) -> int:
    """Return the seq that an answer's `after` stands for; raises BadRequest."""
    if after is None:
        return 0
    if not (after.isascii() and after.isdigit() and len(after) < 19):
        raise BadRequest("after: use the one of the last answer")
    return int(after)


class Samples:
    """Samples of the newest events, by size, kept for a moment: estimates come in bursts while somebody types."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._guard = threading.Lock()
        self._kept: dict[int, tuple[float, int, EventSample]] = {}

    def estimate(self, expression: Expression, size: int) -> dict[str, Any]:
        """Return how many events a day an expression would match; raises a LanguageError."""
        found = self._broker.prepare(expression)
        with self._guard:
            sample = self._sample(size)
            estimate = asdict(sample.estimate(from_json(decode(found.tree)), self._broker.operators))
        del estimate["seconds"]
        return estimate

    def _sample(self, size: int) -> EventSample:
        now, version = time.monotonic(), self._broker.schema.version
        kept = self._kept.get(size)
        if kept is None or now - kept[0] > _FRESH_SECONDS or kept[1] != version:
            self._kept.clear()
            sample = EventSample.of_store(
                self._broker.store, size, programs=self._broker.held_offers.programs, operators=self._broker.operators
            )
            self._kept[size] = (now, version, sample)
        return self._kept[size][2]
