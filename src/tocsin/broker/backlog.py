"""The backlog: events that were stored while the pipeline was to match them, and that it has not matched yet.

The pipeline works it off by the same three steps: read events after `matched_through`, match them as of their seqs and
arrivals, record the matches. Here they are done in this process, for brokers that take the matching over again.
"""

from __future__ import annotations

from tocsin.broker.admission import admit_stored
from tocsin.broker.core import Core, Turn
from tocsin.broker.outcomes import outcomes_of, store_outcomes
from tocsin.errors import EventRejected
from tocsin.matching.inquiry import Inquiry
from tocsin.schema import Event
from tocsin.store.events import StoredEvent, read_events
from tocsin.store.letters import NewDeadLetter, add_dead_letters, unmatched
from tocsin.store.notifications import record_matches
from tocsin.store.offers import documents_between

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
            while _match(core, turn):
                pass
        transaction.set_meta(matching=matching, matched_through=max(transaction.matched_through, 0))


def match_some(core: Core) -> int:
    """Match the oldest events that wait; return how many there were."""
    with core.turn() as turn:
        if turn.transaction.start.matching == "inline":
            return 0
        return _match(core, turn)


def _match(core: Core, turn: Turn) -> int:
    transaction = turn.transaction
    done = transaction.matched_through
    waiting = read_events(turn.connection, done, _AT_A_TIME)
    if not waiting:
        return 0
    events, dead = _events(core, turn, waiting)
    seqs, arrivals = list(events), [each.arrival_us for each in waiting if each.seq in events]
    inquiry = Inquiry()
    found = turn.live.match(seqs, arrivals, list(events.values()), inquiry)
    store_outcomes(transaction, outcomes_of(turn.live, seqs, arrivals, list(events.values()), found, inquiry))
    if dead:
        add_dead_letters(transaction, list(enumerate(dead, transaction.draw(len(dead)))))
    record_matches(transaction, done, waiting[-1].seq, found)
    return len(waiting)


def _events(core: Core, turn: Turn, waiting: list[StoredEvent]) -> tuple[dict[int, Event], list[NewDeadLetter]]:
    """Return seq -> event, and dead letters for offers that cannot be bound any more: a program is gone."""
    documents = documents_between(turn.connection, waiting[0].seq, waiting[-1].seq)
    events: dict[int, Event] = {}
    dead = []
    for each in waiting:
        if each.seq not in documents:
            events[each.seq] = admit_stored(turn.schema, each.body)
            continue
        try:
            events[each.seq] = core.offers.admit_stored(documents[each.seq], turn.schema)
        except EventRejected as error:
            dead.append(unmatched(each.seq, str(error), documents[each.seq]))
    return events, dead
