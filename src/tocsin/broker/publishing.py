"""Publishing: events are judged, stored, matched and their notifications stored, in one commit.

Requests that wait together are published together: one transaction, one pass of the matcher. Where the pipeline does
the matching, events are stored only, and it finds them by their seqs.

The backlog: events that were stored while the pipeline was to match them, and that it has not matched yet.

The pipeline works it off by the same three steps: read events after `matched_through`, match them as of their seqs and
arrivals, record the matches. Here they are done in this process, for brokers that take the matching over again.

What comes of events beside their matches: what each subscription is told beside the event, and what failed.

Values that an offer computes, and those of a subscription's variables, are stored with the notifications, so a later version
of a program or an operator does not change what somebody was told. Where something fails for a subscription, it is not
notified; that is counted, and of an offer a dead letter says why. It is the operator's, since reasons may tell of a
subscriber. The publisher of an offer learns how many, and who only where settings say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tocsin.broker.admission import (
    Admitted,
    PublishedOffer,
    RawEvent,
    Rejected,
    admit_all,
    admit_stored,
    request_hash,
)
from tocsin.broker.core import Commit, Core, Pending
from tocsin.broker.deliveries import MatchedBatch, StoredNow
from tocsin.broker.live_index import LiveIndex
from tocsin.documents.events import OfferReach, PublishReceipt
from tocsin.errors import BatchRejected, EventRejected, IdempotencyConflict, TocsinError, Violation
from tocsin.index.encode import EventRows
from tocsin.language.explain import plain_values
from tocsin.language.mapping import SiteMapping
from tocsin.matching.engine import Failure, Inquiry
from tocsin.offers.programs import ProgramMemo
from tocsin.schema import Event, Schema
from tocsin.schema.sources import Provenance
from tocsin.store.events import (
    NewBeside,
    NewDeadLetter,
    StoredEvent,
    StoredOffer,
    ValueBlock,
    add_answers,
    add_dead_letters,
    add_events,
    add_offers,
    add_values,
    documents_between,
    encode_values,
    find_answer,
    id_text,
    new_event_ids,
    read_events,
    unmatched,
)
from tocsin.store.notifications import StoredMatches, record_matches
from tocsin.store.store import Transaction, reach

MOST_TOLD = 100  # failures that a dead letter lists


class NewOffer(NamedTuple):
    """An offer that a commit stores: the seq of its event, whose it is, and the event."""

    seq: int
    publisher: str
    event: PublishedOffer


def store_offers(commit: Commit, new: Sequence[NewOffer]) -> None:
    """Store the offers of this commit."""
    now = commit.now_us
    add_offers(
        commit.transaction,
        [StoredOffer(seq, publisher, now + event.ttl_us, event.document) for seq, publisher, event in new],
    )


class Outcome(NamedTuple):
    """What came of matching an event, beside its matches; it may be stored by another process than found it."""

    seq: int
    is_offer: bool
    reached: list[int]  # subscriptions
    values: list[ValueBlock]
    failures: list[Failure]  # of subscriptions that the event would have reached

    def met(self, *, reveal: bool) -> OfferReach:
        """Return what the publisher of an offer learns."""
        return OfferReach(len(self.reached), len(self.failures), tuple(self.reached) if reveal else None)

    def dead_letters(self) -> list[NewDeadLetter]:
        """Return the dead letter that says what failed; none where nothing did.

        Nor for a plain event: a subscription that divides by zero of its own fails for every one.
        """
        return [_failure_letter(self.seq, self.failures)] if self.failures and self.is_offer else []


def outcomes_of(
    live: LiveIndex,
    seqs: Sequence[int],
    arrivals_us: Sequence[int],
    events: Sequence[Event],
    matches: StoredMatches,
    inquiry: Inquiry,
) -> list[Outcome]:
    """Return what came of events that the live index has just matched, of those for which there is something to say."""
    chosen = set(inquiry.events)
    if not isinstance(events, EventRows):  # offers never are
        chosen |= {at for at, event in enumerate(events) if isinstance(event, PublishedOffer)}
    if not chosen:
        return []
    order = np.argsort(matches.seq, kind="stable")
    ordered = matches.seq[order]
    found = []
    for at in sorted(chosen):
        seq = seqs[at]
        mine = order[slice(*np.searchsorted(ordered, [seq, seq + 1]))]
        owners = dict(zip(matches.subscription[mine].tolist(), matches.owner[mine].tolist(), strict=True))
        told = [_beside(match, owners[int(match.id)]) for match in inquiry.matches(at, list(owners))]
        values = encode_values(seq, [one for one in told if one.values or one.bindings])
        failures = _live_failures(live, seq, arrivals_us[at], inquiry.failed(at, set(owners)))
        live.failures += len(failures)
        found.append(Outcome(seq, isinstance(events[at], PublishedOffer), sorted(owners), values, failures))
    return found


def store_outcomes(transaction: Transaction, outcomes: Sequence[Outcome]) -> None:
    """Store what is told beside events, and failures, in the transaction that records the matches."""
    add_values(transaction, [block for one in outcomes for block in one.values])
    new = [letter for one in outcomes for letter in one.dead_letters()]
    if new:
        first = transaction.draw(len(new))
        add_dead_letters(transaction, list(enumerate(new, first)))


def _beside(match: Any, owner: int) -> NewBeside:
    bindings = [plain_values(each) for each in match.bindings]
    return NewBeside(int(match.id), owner, plain_values(match.computed), bindings)


def _live_failures(live: LiveIndex, seq: int, arrival_us: int, failures: Sequence[Failure]) -> list[Failure]:
    """Return the failures of subscriptions that the event would have reached."""
    if not failures:
        return []
    ids = np.array([int(one.id) for one in failures], np.int64)
    at = np.full(len(ids), seq, np.int64), np.full(len(ids), arrival_us, np.int64)
    keep, _ = live.leases.apply_rule(*at, ids)
    return [one for one, kept in zip(failures, keep.tolist(), strict=True) if kept]


def _failure_letter(seq: int, failures: Sequence[Failure]) -> NewDeadLetter:
    count = f"{len(failures)} subscription{'' if len(failures) == 1 else 's'}"
    reason = f"the offer {seq} could not be matched with {count}: {failures[0].reason}"[:2000]
    listed = [{"subscription": one.id, "reason": one.reason} for one in failures[:MOST_TOLD]]
    body: dict[str, Any] = {"offer": seq, "failures": len(failures), "first": listed}
    return NewDeadLetter("match", "", reason, b"[]", msgspec.json.encode(body))


def add_reach(receipts: list[PublishReceipt], reached: dict[int, OfferReach]) -> None:
    """Let receipts say whom their offers reached."""
    for at, receipt in enumerate(receipts):
        if receipt.seq in reached:
            receipts[at] = msgspec.structs.replace(receipt, met=reached[receipt.seq])


# --- Publishing -------------------------------------------------------------------------------------------------------


Receipts = list[PublishReceipt]


@dataclass
class Publish:
    """Events to publish, judged by a version of the schema; judged again if another is in force when they are stored."""

    raws: Sequence[RawEvent]
    atomic: bool
    publisher: str
    key: str | None
    single: bool  # one event, not a batch of one: it is refused as such
    schema: Schema | None = None  # by which it was judged
    items: list[Admitted | Rejected] = field(default_factory=list)
    mapping: SiteMapping | None = None  # of the site whose documents these are
    provenance: Provenance | None = None  # of the site as which they are published
    memo: ProgramMemo | None = None  # what programs have said
    tries: int = 0  # how often operators and programs were asked before the commit

    @cached_property
    def hashed(self) -> bytes:
        """The hash of what came, where there is a key."""
        return b"" if self.key is None else request_hash(self.raws, atomic=self.atomic)

    @property
    def stored_key(self) -> str:
        """The idempotency key as it is kept: each site has its own."""
        site = "" if self.provenance is None else f"{self.provenance.site}\n"
        return f"{site}{self.key or ''}"

    @property
    def parts(self) -> Sequence[Publish]:
        return (self,)

    def judge(self, core: Core, schema: Schema) -> None:
        """Judge the events by a schema, where it was not by this one."""
        if schema is not self.schema:
            most_bytes = core.settings.event_bytes
            self.items = admit_all(self.raws, schema, most_bytes, core.offers, self.mapping, self.provenance)
            self.schema = schema

    def prepare(self, core: Core) -> None:
        """Do what takes long before the commit: judge, and let operators and programs run for what follows the rules."""
        self.judge(core, core.schema)
        self.tries += 1
        if core.matches_inline and core.live.matcher.takes_long:
            fine = [item for item in self.items if isinstance(item, Admitted)]
            self.memo = self.memo or ProgramMemo()
            said = core.live.matcher.prefetch([item.event for item in fine], [item.known for item in fine], self.memo)
            for item, known in zip(fine, said, strict=True):
                item.known = known

    @property
    def is_patient(self) -> bool:
        """Whether it may be sent back once more; subscriptions that come all the time must not keep an event out."""
        return self.tries < _TRIES

    def refusal(self) -> TocsinError | None:
        """Return why none of it is published."""
        if not self.atomic:
            return None
        wrong = {at: item.violations for at, item in enumerate(self.items) if isinstance(item, Rejected)}
        if not wrong:
            return None
        return EventRejected(wrong[0]) if self.single else BatchRejected(wrong)


@dataclass(frozen=True, slots=True)
class PublishEach:
    """Single events in one commit, each with its own key, accepted or refused by itself."""

    parts: Sequence[Publish]
    publisher: str


class NotPrefetched(TocsinError):
    """Operators or programs would have to be asked within the commit: to be prepared and committed again."""

    def __init__(self, late: Sequence[Publish] = ()) -> None:
        super().__init__("operators or programs have to be asked first; try again")
        self.late = late


Waiting = Sequence[Pending[Publish | PublishEach, Receipts]]
_TRIES = 8


def run_publishes(core: Core, matched: Callable[[MatchedBatch], None], pending: Waiting) -> None:
    """Publish what waits, in one commit; `matched` is told whom it reaches.

    Those that lack what an operator or program says have NotPrefetched for an error; the others are published without them.
    """
    while pending:
        try:
            _publish_together(core, matched, pending)
        except NotPrefetched as error:
            late = {id(part) for part in error.late}
            rest = []
            for one in pending:
                one.error = one.answer = None
                if late.isdisjoint(map(id, one.request.parts)):
                    rest.append(one)
                else:
                    one.error = error
            pending = rest
        else:
            return


def _publish_together(core: Core, matched: Callable[[MatchedBatch], None], pending: Waiting) -> None:
    began = time.thread_time()
    parts = [part for one in pending for part in one.request.parts]
    for part in parts:
        part.judge(core, core.schema)
    batch = None
    with core.commit() as commit:
        stored: list[tuple[int, bytes, Admitted]] = []
        dead: list[tuple[int, NewDeadLetter]] = []
        answers: dict[tuple[str, str], tuple[bytes, Receipts]] = {}
        ids = iter(new_event_ids(sum(len(part.items) for part in parts), commit.now_us))
        for one in pending:
            one.answer = []
            for part in one.request.parts:
                try:
                    one.answer += _answer(core, commit, part, ids, stored, dead, answers)
                except TocsinError as error:
                    one.error = one.error or error
        offers = _store(commit, stored, dead, pending)
        reach("broker.mid-publish")
        if commit.transaction.start.matching == "inline" and stored:
            matches, outcomes = _match(commit, stored, parts)
            store_outcomes(commit.transaction, outcomes)
            if offers:
                reveal = core.settings.reveal_subscribers
                reached = {one.seq: one.met(reveal=reveal) for one in outcomes if one.is_offer}
                for receipts in (*(one.answer or [] for one in pending), *(kept for _, kept in answers.values())):
                    add_reach(receipts, reached)
            transaction = commit.transaction
            record_matches(transaction, transaction.start.matched_through, transaction.seq, matches)
            batch = _batch(core, commit, matches, stored, outcomes)
        add_answers(
            commit.transaction,
            [(*name, hashed, msgspec.json.encode(receipts)) for name, (hashed, receipts) in answers.items()],
        )
    if batch is not None:
        core.matched_through = batch.through
        core.meter.published(len(batch.events), (time.thread_time() - began) * 1e6, batch.matches)
        if len(batch.matches):
            matched(batch)


def _batch(
    core: Core,
    commit: Commit,
    matches: StoredMatches,
    stored: list[tuple[int, bytes, Admitted]],
    outcomes: list[Outcome],
) -> MatchedBatch:
    """Return what a commit has matched, to be pushed from memory."""
    start = commit.transaction.start
    if start.matched_through != core.matched_through:  # somebody else has matched since
        core.matched_since = start.matched_through
    return MatchedBatch(
        start.incarnation,
        core.matched_since,
        commit.transaction.seq,
        commit.now_us,
        matches,
        {seq: StoredNow(id, item.body) for seq, id, item in stored},
        [block for one in outcomes for block in one.values],
    )


def _answer(
    core: Core, commit: Commit, request: Publish, ids: Iterator[bytes], stored: list[tuple[int, bytes, Admitted]],
    dead: list[tuple[int, NewDeadLetter]], answers: dict[tuple[str, str], tuple[bytes, Receipts]],
) -> Receipts:  # fmt: skip
    """Return the receipts of a request, and add to what is to be stored; or what was answered to its key before."""
    request.judge(core, commit.schema)
    name = (request.publisher, request.stored_key)
    if request.key is not None:
        before = answers.get(name)
        if before is None and (found := find_answer(commit.connection, *name)):
            before = (found[0], _receipts(found[1]))
        if before is not None:
            if before[0] != request.hashed:
                raise IdempotencyConflict(request.key)
            return before[1]
    if (refusal := request.refusal()) is not None:
        raise refusal
    receipts = _number(commit, request, ids, stored, dead)
    if request.key is not None:
        answers[name] = (request.hashed, receipts)
    return receipts


def _receipts(kept: bytes) -> Receipts:
    """Return the receipts that were stored with a key; earlier versions did not store whether they were accepted."""
    found: list[dict[str, Any]] = msgspec.json.decode(kept)
    return [msgspec.convert({"accepted": one["event_id"] is not None, **one}, PublishReceipt) for one in found]


def _number(
    commit: Commit, request: Publish, ids: Iterator[bytes], stored: list[tuple[int, bytes, Admitted]],
    dead: list[tuple[int, NewDeadLetter]],
) -> Receipts:  # fmt: skip
    """Give each event its seq and id."""
    first = commit.transaction.draw(len(request.items))
    receipts = []
    for seq, (item, id) in enumerate(zip(request.items, ids, strict=False), first):  # of ids there are enough for all
        if isinstance(item, Admitted):
            stored.append((seq, id, item))
            receipts.append(PublishReceipt(seq, id_text(id), accepted=True))
        else:
            dead.append((seq, _letter(request, item)))
            receipts.append(PublishReceipt(seq, None, accepted=False, violations=item.violations))
    return receipts


def _letter(request: Publish, item: Rejected) -> NewDeadLetter:
    reason = str(EventRejected(item.violations))[:2000]
    violations = msgspec.json.encode([list(violation_parts(one)) for one in item.violations[:100]])
    site = "" if request.provenance is None else request.provenance.site
    return NewDeadLetter("event", request.publisher, reason, violations, item.body, site)


def violation_parts(violation: Violation) -> tuple[str, str | None, str]:
    """Return a violation's fields."""
    return violation.rule, violation.attribute, violation.message


def _store(
    commit: Commit, stored: list[tuple[int, bytes, Admitted]], dead: list[tuple[int, NewDeadLetter]], pending: Waiting,
) -> list[NewOffer]:  # fmt: skip
    """Store events and dead letters; return the offers among them."""
    version = commit.schema.version
    add_events(commit.transaction, version, [(seq, id, item.body) for seq, id, item in stored])
    add_dead_letters(commit.transaction, dead)
    found = [(seq, item.event) for seq, _, item in stored if isinstance(item.event, PublishedOffer)]
    if not found:
        return []
    publishers = {receipt.seq: one.request.publisher for one in pending for receipt in one.answer or ()}
    new = [NewOffer(seq, publishers[seq], event) for seq, event in found]
    store_offers(commit, new)
    return new


def _match(
    commit: Commit, stored: list[tuple[int, bytes, Admitted]], parts: Sequence[Publish]
) -> tuple[StoredMatches, list[Outcome]]:
    """Return whom new events reach, and what else comes of them; raises NotPrefetched where an answer is missing."""
    seqs = [seq for seq, _, _ in stored]
    arrivals = [commit.now_us] * len(seqs)
    found: list[Event] = [item.event for _, _, item in stored]
    known = {at: item.known for at, (_, _, item) in enumerate(stored) if item.known is not None}
    matcher = commit.live.matcher
    if not matcher.takes_long:
        inquiry = Inquiry(known)
        matches = commit.live.match(seqs, arrivals, found, inquiry)
        return matches, outcomes_of(commit.live, seqs, arrivals, found, matches, inquiry)
    closed = all(part.is_patient for part in parts)
    inquiry = Inquiry(known, closed=closed)
    memo = ProgramMemo.joined([part.memo for part in parts if part.memo is not None], closed=closed)
    with matcher.programs.remembering(memo):
        matches = commit.live.match(seqs, arrivals, found, inquiry)
    if closed and (memo.missing or inquiry.missing):
        lacking = {id(stored[at][2]) for at in inquiry.missing}
        lacking |= {id(item) for _, _, item in stored if memo.missing and isinstance(item.event, PublishedOffer)}
        raise NotPrefetched([part for part in parts if any(id(item) in lacking for item in part.items)])
    return matches, outcomes_of(commit.live, seqs, arrivals, found, matches, inquiry)


# The backlog.


_AT_A_TIME = 1000


def set_matching(core: Core, matching: str) -> None:
    """Let the broker ('inline') or the pipeline match from now on; a backlog is worked off before the broker does."""
    while matching == "inline" and match_some(core):
        pass
    with core.commit() as commit:
        transaction = commit.transaction
        if transaction.start.matching == matching:
            return
        if matching == "inline":  # what came in between
            while _match_waiting(core, commit):
                pass
        transaction.set_meta(matching=matching, matched_through=max(transaction.matched_through, 0))


def match_some(core: Core) -> int:
    """Match the oldest events that wait; return how many there were."""
    with core.commit() as commit:
        if commit.transaction.start.matching == "inline":
            return 0
        return _match_waiting(core, commit)


def _match_waiting(core: Core, commit: Commit) -> int:
    transaction = commit.transaction
    done = transaction.matched_through
    waiting = read_events(commit.connection, done, _AT_A_TIME)
    if not waiting:
        return 0
    events, dead = _events(core, commit, waiting)
    seqs, arrivals = list(events), [each.arrival_us for each in waiting if each.seq in events]
    inquiry = Inquiry()
    found = commit.live.match(seqs, arrivals, list(events.values()), inquiry)
    store_outcomes(transaction, outcomes_of(commit.live, seqs, arrivals, list(events.values()), found, inquiry))
    if dead:
        add_dead_letters(transaction, list(enumerate(dead, transaction.draw(len(dead)))))
    record_matches(transaction, done, waiting[-1].seq, found)
    return len(waiting)


def _events(core: Core, commit: Commit, waiting: list[StoredEvent]) -> tuple[dict[int, Event], list[NewDeadLetter]]:
    """Return seq -> event, and dead letters for offers that cannot be bound any more: a program is gone."""
    documents = documents_between(commit.connection, waiting[0].seq, waiting[-1].seq)
    events: dict[int, Event] = {}
    dead = []
    for each in waiting:
        if each.seq not in documents:
            events[each.seq] = admit_stored(commit.schema, each.body)
            continue
        try:
            events[each.seq] = core.offers.admit_stored(documents[each.seq], commit.schema)
        except EventRejected as error:
            dead.append(unmatched(each.seq, str(error), documents[each.seq]))
    return events, dead
