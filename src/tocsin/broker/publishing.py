"""Publishing: events are judged, stored, matched and their notifications stored, in one commit.

Requests that wait together are published together: one transaction, one pass of the matcher. Where the pipeline does
the matching, events are stored only, and it finds them by their seqs.

The backlog: events that were stored while the pipeline was to match them, and that it has not matched yet.

The pipeline works it off by the same three steps: read events after `matched_through`, match them as of their seqs and
arrivals, record the matches. Here they are done in this process, for brokers that take the matching over again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from tocsin.broker.admission import (
    Admitted,
    OfferAdmission,
    PublishedOffer,
    RawEvent,
    Rejected,
    admit_all,
    admit_stored,
    request_hash,
)
from tocsin.broker.core import Core, Turn
from tocsin.broker.cursors import id_text, new_event_ids
from tocsin.broker.outcomes import NewOffer, Outcome, outcomes_of, store_offers, store_outcomes, tell
from tocsin.broker.receipts import PublishReceipt
from tocsin.broker.turns import Waiting
from tocsin.errors import BatchRejected, EventRejected, IdempotencyConflict, TocsinError, Violation
from tocsin.matching.engine import Inquiry
from tocsin.schema import Event, Schema
from tocsin.store import events, letters
from tocsin.store.events import StoredEvent, read_events
from tocsin.store.letters import NewDeadLetter, add_dead_letters, unmatched
from tocsin.store.notifications import Longs, Matches, record_matches
from tocsin.store.offers import documents_between
from tocsin.store.transaction import reach

Receipts = list[PublishReceipt]


@dataclass(slots=True)
class Publish:
    """Events to publish, judged by a version of the schema; judged again if another is in force when its turn comes."""

    raws: Sequence[RawEvent]
    schema: Schema
    items: list[Admitted | Rejected]
    atomic: bool
    publisher: str
    key: str | None
    hashed: bytes  # of what came, where there is a key
    single: bool  # one event, not a batch of one: it is refused as such
    offers: OfferAdmission | None = None  # judges offers

    @classmethod
    def judge(
        cls, raws: Sequence[RawEvent], schema: Schema, most_bytes: int, *,
        atomic: bool, publisher: str, key: str | None, single: bool, offers: OfferAdmission | None = None,
    ) -> Publish:  # fmt: skip
        """Return the request, judged by a schema."""
        items = admit_all(raws, schema, most_bytes, offers)
        hashed = b"" if key is None else request_hash(raws, atomic=atomic)
        return cls(raws, schema, items, atomic, publisher, key, hashed, single, offers)

    def prefetch(self, core: Core) -> None:
        """Let operators and programs run for the events that follow the rules, before the turn at the store."""
        fine = [item for item in self.items if isinstance(item, Admitted)]
        for item, known in zip(fine, core.live.matcher.prefetch([item.event for item in fine]), strict=True):
            item.known = known

    def judge_again(self, schema: Schema, most_bytes: int) -> None:
        """Judge by another version of the schema."""
        if schema is not self.schema:
            self.schema, self.items = schema, admit_all(self.raws, schema, most_bytes, self.offers)

    def refusal(self) -> TocsinError | None:
        """Return why none of it is published."""
        if not self.atomic:
            return None
        wrong = {at: item.violations for at, item in enumerate(self.items) if isinstance(item, Rejected)}
        if not wrong:
            return None
        return EventRejected(wrong[0]) if self.single else BatchRejected(wrong)


def run_publishes(core: Core, wake: Callable[[Longs], None], waiting: Sequence[Waiting[Publish, Receipts]]) -> None:
    """Publish what waits, in one turn; `wake` is told the owners who have something new."""
    owners = np.zeros(0, np.int64)
    with core.turn() as turn:
        stored: list[tuple[int, bytes, Admitted]] = []
        dead: list[tuple[int, NewDeadLetter]] = []
        answers: dict[tuple[str, str], tuple[bytes, Receipts]] = {}
        ids = iter(new_event_ids(sum(len(one.request.items) for one in waiting), turn.now_us))
        for one in waiting:
            try:
                one.answer = _answer(turn, core.settings.event_bytes, one.request, ids, stored, dead, answers)
            except TocsinError as error:
                one.error = error
        offers = _store(turn, stored, dead, waiting)
        reach("broker.mid-publish")
        if turn.transaction.start.matching == "inline" and stored:
            matches, outcomes = _match(turn, stored)
            owners = np.unique(matches.owner)
            store_outcomes(turn.transaction, outcomes)
            if offers:
                reveal = core.settings.reveal_subscribers
                told = {one.seq: one.met(reveal=reveal) for one in outcomes if one.is_offer}
                for receipts in (one.answer for one in waiting if one.error is None and one.answer is not None):
                    tell(receipts, told)
            transaction = turn.transaction
            record_matches(transaction, transaction.start.matched_through, transaction.seq, matches)
        letters.add_answers(
            turn.transaction,
            [(*name, hashed, msgspec.json.encode(receipts)) for name, (hashed, receipts) in answers.items()],
        )
    if len(owners):
        wake(owners)


def _answer(
    turn: Turn, most_bytes: int, request: Publish, ids: Iterator[bytes], stored: list[tuple[int, bytes, Admitted]],
    dead: list[tuple[int, NewDeadLetter]], answers: dict[tuple[str, str], tuple[bytes, Receipts]],
) -> Receipts:  # fmt: skip
    """Return the receipts of a request, and add to what is to be stored; or what was answered to its key before."""
    request.judge_again(turn.schema, most_bytes)
    name = (request.publisher, request.key or "")
    if request.key is not None:
        before = answers.get(name)
        if before is None and (found := letters.find_answer(turn.connection, *name)):
            before = (found[0], msgspec.json.decode(found[1], type=list[PublishReceipt]))
        if before is not None:
            if before[0] != request.hashed:
                raise IdempotencyConflict(request.key)
            return before[1]
    if (refusal := request.refusal()) is not None:
        raise refusal
    receipts = _number(turn, request, ids, stored, dead)
    if request.key is not None:
        answers[name] = (request.hashed, receipts)
    return receipts


def _number(
    turn: Turn, request: Publish, ids: Iterator[bytes], stored: list[tuple[int, bytes, Admitted]],
    dead: list[tuple[int, NewDeadLetter]],
) -> Receipts:  # fmt: skip
    """Give each event its seq and id."""
    first = turn.transaction.draw(len(request.items))
    receipts = []
    for seq, (item, id) in enumerate(zip(request.items, ids, strict=False), first):  # of ids there are enough for all
        if isinstance(item, Admitted):
            stored.append((seq, id, item))
            receipts.append(PublishReceipt(seq, id_text(id)))
        else:
            dead.append((seq, _letter(request.publisher, item)))
            receipts.append(PublishReceipt(seq, None, item.violations))
    return receipts


def _letter(publisher: str, item: Rejected) -> NewDeadLetter:
    reason = str(EventRejected(item.violations))[:2000]
    violations = msgspec.json.encode([list(violation_parts(one)) for one in item.violations[:100]])
    return NewDeadLetter("event", publisher, reason, violations, item.body)


def violation_parts(violation: Violation) -> tuple[str, str | None, str]:
    """Return a violation's fields."""
    return violation.rule, violation.attribute, violation.message


def _store(
    turn: Turn, stored: list[tuple[int, bytes, Admitted]], dead: list[tuple[int, NewDeadLetter]],
    waiting: Sequence[Waiting[Publish, Receipts]],
) -> list[NewOffer]:  # fmt: skip
    """Store events and dead letters; return the offers among them."""
    version = turn.schema.version
    events.add_events(turn.transaction, version, [(seq, id, item.body) for seq, id, item in stored])
    letters.add_dead_letters(turn.transaction, dead)
    found = [(seq, item.event) for seq, _, item in stored if isinstance(item.event, PublishedOffer)]
    if not found:
        return []
    publishers = {
        receipt.seq: one.request.publisher for one in waiting if one.error is None for receipt in one.answer or ()
    }
    new = [NewOffer(seq, publishers[seq], event) for seq, event in found]
    store_offers(turn, new)
    return new


def _match(turn: Turn, stored: list[tuple[int, bytes, Admitted]]) -> tuple[Matches, list[Outcome]]:
    """Return whom new events reach, and what else comes of them."""
    seqs = [seq for seq, _, _ in stored]
    arrivals = [turn.now_us] * len(seqs)
    found: list[Event] = [item.event for _, _, item in stored]
    inquiry = Inquiry({at: item.known for at, (_, _, item) in enumerate(stored) if item.known is not None})
    matches = turn.live.match(seqs, arrivals, found, inquiry)
    return matches, outcomes_of(turn.live, seqs, arrivals, found, matches, inquiry)


# The backlog.


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
            while _match_waiting(core, turn):
                pass
        transaction.set_meta(matching=matching, matched_through=max(transaction.matched_through, 0))


def match_some(core: Core) -> int:
    """Match the oldest events that wait; return how many there were."""
    with core.turn() as turn:
        if turn.transaction.start.matching == "inline":
            return 0
        return _match_waiting(core, turn)


def _match_waiting(core: Core, turn: Turn) -> int:
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
