"""The backlog: events that were stored while the pipeline was to match them, and that it has not matched yet.

The pipeline works it off by the same three steps: read events after `matched_through`, match them as of their seqs and
arrivals, record the matches. Here they are done in this process, for brokers that take the matching over again.
"""

from __future__ import annotations

from sqlalchemy import Connection

from tocsin.broker.admission import admit_stored
from tocsin.broker.core import Core
from tocsin.broker.live_index import LiveIndex
from tocsin.schema import Schema
from tocsin.store.events import StoredEvent, read_events
from tocsin.store.notifications import Matches, record_matches
from tocsin.store.transaction import Transaction

_AT_A_TIME = 1000


def set_matching(core: Core, matching: str) -> None:
    """Let the broker ('inline') or the pipeline match from now on; a backlog is worked off before the broker does."""
    while matching == "inline" and match_some(core):
        pass
    with core.turn() as turn:
        transaction = turn.transaction
        if transaction.start.matching == matching:
            return
        if matching == "inline":  # what came in between
            while _match(turn.connection, transaction, turn.live, turn.schema):
                pass
        transaction.set_meta(matching=matching, matched_through=max(transaction.matched_through, 0))


def match_some(core: Core) -> int:
    """Match the oldest events that wait; return how many there were."""
    with core.turn() as turn:
        if turn.transaction.start.matching == "inline":
            return 0
        return _match(turn.connection, turn.transaction, turn.live, turn.schema)


def _match(connection: Connection, transaction: Transaction, live: LiveIndex, schema: Schema) -> int:
    done = transaction.matched_through
    waiting = read_events(connection, done, _AT_A_TIME)
    if waiting:
        record_matches(transaction, done, waiting[-1].seq, match_stored(live, schema, waiting))
    return len(waiting)


def match_stored(live: LiveIndex, schema: Schema, stored: list[StoredEvent]) -> Matches:
    """Return the matches of stored events as of their seqs and arrivals."""
    events = [admit_stored(schema, event.body) for event in stored]
    return live.match([event.seq for event in stored], [event.arrival_us for event in stored], events)
