"""Drafts: what a subscription would do, before it is one. Plans, volume estimates, a look back over the log, reasons."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from tocsin.broker import Broker
from tocsin.broker.admission import read_stored
from tocsin.broker.estimate import EventSample
from tocsin.broker.expressions import Expression, Prepared, prepare
from tocsin.broker.offers import OfferDesk, OfferEvent
from tocsin.broker.times import id_text
from tocsin.broker.trial import Trial
from tocsin.compile.analysis import conjunction_text, warnings_of
from tocsin.errors import EventRejected
from tocsin.language import Explanation, from_json, render
from tocsin.language.documents import decode
from tocsin.operators.alternatives import alternative_texts
from tocsin.schema import Event, Schema
from tocsin.service.refusals import BadRequest
from tocsin.store.events import read_events
from tocsin.store.offers import documents_between
from tocsin.symmetric import Offer
from tocsin.symmetric.two_sided import TwoSided, is_offer
from tocsin.symmetric.unions import admit_static

_MOST_BYTES = 64 << 10
_LOOKED_AT = 20_000  # events of the log that one request looks at
_FRESH_SECONDS = 5.0


def prepared(broker: Broker, expression: Expression) -> Prepared:
    """Return an expression bound to the schema in force; raises a LanguageError."""
    return prepare(expression, broker.schema, most_bytes=_MOST_BYTES, registry=broker.operators)


def plan(broker: Broker, expression: Expression) -> dict[str, Any]:
    """Return how an expression is understood: its text, its conjunctions, and what its author should know."""
    found = prepared(broker, expression)
    if found.two_sided is not None and found.two_sided.speaks_of_itself:
        texts = [" and ".join(render(part.source) for part in found.two_sided.subscriber.parts)]
        return {"text": found.text, "warnings": [], "conjunctions": texts}
    if found.bound.operators:
        texts = alternative_texts(found.bound.subscription.where)
        return {"text": found.text, "warnings": [], "conjunctions": texts}
    texts = [conjunction_text(one) for one in found.form.conjunctions]
    return {"text": found.text, "warnings": warnings_of(found.form), "conjunctions": texts}


def explain_draft(broker: Broker, expression: Expression, event: Mapping[str, Any]) -> dict[str, object]:
    """Return whether an event, or offer, satisfies an expression, and why; raises LanguageError, EventRejected.

    Where it takes both sides to tell, `meeting` has both.
    """
    both = _both_sides(broker, expression, event)
    if both is None:
        return explain_expression(broker, expression, event).as_json()
    draft, given = both
    return {**draft.explain_as_one(given).as_json(), "meeting": draft.explain(given).as_json()}


def explain_expression(broker: Broker, expression: Expression, event: Mapping[str, Any]) -> Explanation:
    """Return the same, not as JSON. Operators are run here and nothing is kept, so they need not be pure."""
    both = _both_sides(broker, expression, event)
    if both is not None:
        draft, given = both
        return draft.explain_as_one(given)
    schema, operators = broker.schema, broker.operators
    if isinstance(expression, str):
        return operators.explain(operators.bind(expression, schema), schema.admit(event))
    return operators.explain(prepared(broker, expression).bound, schema.admit(event))


def _both_sides(
    broker: Broker, expression: Expression, event: Mapping[str, Any]
) -> tuple[TwoSided, Event | Offer] | None:
    """Return a union's subscription and what it is asked about, where events alone cannot answer it; else None."""
    if not broker.schema.unions:
        return None
    draft = prepared(broker, expression).two_sided
    if draft is None or not (draft.speaks_of_itself or is_offer(event)):
        return None
    given = broker.matchmaking.read(event)
    return draft, given.offer if isinstance(given, OfferEvent) else given


def backfill(broker: Broker, expression: Expression, after_seq: int, limit: int) -> dict[str, Any]:
    """Return the stored events that an expression matches, in order, after a seq; looks at a bounded stretch of the log.

    `after` of the answer goes on from there; None where the end of the log was reached.
    """
    found = prepared(broker, expression)
    schema = broker.schema
    with broker.store.read() as connection:
        stored = read_events(connection, after_seq, _LOOKED_AT)
        offers = documents_between(connection, stored[0].seq, stored[-1].seq) if stored else {}
    desk = OfferDesk(broker.matchmaking.programs)
    items: list[dict[str, Any]] = []
    looked, after = 0, after_seq
    trial = Trial(found, broker.operators)
    for event in stored:
        if trial.spent:
            break
        looked, after = looked + 1, event.seq
        document = read_stored(event.body)
        if trial.holds(read_stored_event(document, offers.get(event.seq), desk, schema)):
            items.append({"seq": event.seq, "event_id": id_text(event.event_id), "event": document})
            if len(items) >= limit:
                break
    at_end = looked == len(stored) < _LOOKED_AT
    return {"items": items, "looked_at": looked, "after": None if at_end else str(after)}


def read_stored_event(document: dict[str, Any], offer: bytes | None, desk: OfferDesk, schema: Schema) -> Event:
    """Return a stored event or offer; of an offer whose program is gone, its static attributes."""
    if offer is not None:
        with suppress(EventRejected):
            return desk.admit_stored(offer, schema)
    return admit_static(schema, document)


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
        found = prepared(self._broker, expression)
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
            sample = EventSample.of_store(self._broker.store, size, programs=self._broker.matchmaking.programs)
            self._kept[size] = (now, version, sample)
        return self._kept[size][2]
