"""The newest events and offers that met a subscription of a union, and those that it just missed by its own doing.

Of an offer's rules a subscriber sees whether they held; their texts where the operator lets them be seen.
"""

from __future__ import annotations

from typing import Any

from tocsin.broker import Broker, SubscriptionView
from tocsin.broker.admission import read_stored
from tocsin.broker.offers import OfferDesk, OfferEvent
from tocsin.broker.times import instant
from tocsin.service.drafts import read_stored_event
from tocsin.store.events import read_events
from tocsin.store.offers import documents_between
from tocsin.symmetric.explain import plain
from tocsin.symmetric.two_sided import HIDDEN, TwoSided


def recent_meetings(
    broker: Broker, found: SubscriptionView, draft: TwoSided, *, looked_back: int, misses_shown: int, reveal_rules: bool
) -> tuple[list[Any], list[Any]]:
    """Return the newest that match, and those that failed by one condition of the subscription."""
    schema, desk = broker.schema, OfferDesk(broker.matchmaking.programs)
    after = max(0, broker.store.meta().seq - looked_back)
    with broker.store.read() as connection:
        stored = read_events(connection, after, looked_back)
        offers = documents_between(connection, stored[0].seq, stored[-1].seq) if stored else {}
    matches: list[Any] = []
    misses: list[Any] = []
    for event in reversed(stored):
        document = read_stored(event.body)
        read = read_stored_event(document, offers.get(event.seq), desk, schema)
        given = read.offer if isinstance(read, OfferEvent) else read
        if draft.offer(given) is None:
            continue  # of another kind: neither a match nor near one
        told = draft.explain_as_one(given, reveal_rules=reveal_rules)
        entry: dict[str, Any] = {"seq": event.seq, "event": document, "at": instant(event.arrival_us), "told": told}
        if told.matched and event.seq > found.seq:
            values = draft.explain(given).verdict.values
            entry["event"] = document | {name: plain(value) for name, value in values.items() if value is not None}
            matches.append(entry)
        elif len(told.changes) == 1 and len(misses) < misses_shown and told.changes[0].condition != HIDDEN:
            misses.append(entry)
    return matches, misses
