"""What comes of events beside their matches: what each subscription is told beside the event, and what failed.

Values that an offer computes, and those of a subscription's variables, are stored with the notifications, so a later version
of a program or an operator does not change what somebody was told. Where something fails for a subscription, it is not
notified; that is counted, and of an offer a dead letter says why. It is the operator's, since reasons may tell of a
subscriber. The publisher of an offer learns how many, and who only where settings say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tocsin.broker.admission import PublishedOffer
from tocsin.broker.core import Commit
from tocsin.broker.live_index import LiveIndex
from tocsin.documents.events import OfferReach, PublishReceipt
from tocsin.index.encode import EventRows
from tocsin.language.explain import plain_values
from tocsin.matching.engine import Failure, Inquiry
from tocsin.schema import Event
from tocsin.store.events import (
    NewBeside,
    NewDeadLetter,
    StoredOffer,
    ValueBlock,
    add_dead_letters,
    add_offers,
    add_values,
    encode_values,
)
from tocsin.store.notifications import StoredMatches
from tocsin.store.store import Transaction

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
        return [_letter(self.seq, self.failures)] if self.failures and self.is_offer else []


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


def _letter(seq: int, failures: Sequence[Failure]) -> NewDeadLetter:
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
