"""What becomes of offers: they are stored, and when they are matched, so is what was computed for each subscription.

Values are stored with the notifications, so a later version of a program does not change what somebody was told. Where
something could not be computed for a subscription, it is not notified; that is counted, and a dead letter says why. It
is the operator's, since reasons may tell of a subscriber. The publisher learns how many, and who only where settings say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tocsin.broker.core import Turn
from tocsin.broker.live_index import LiveIndex
from tocsin.broker.offers import OfferEvent
from tocsin.broker.receipts import Met, PublishReceipt
from tocsin.schema import Event
from tocsin.store import letters
from tocsin.store.letters import NewDeadLetter
from tocsin.store.notifications import Matches
from tocsin.store.offers import ComputedFor, StoredOffer, ValueBlock, add_offers, add_values, encode_values
from tocsin.store.transaction import Transaction
from tocsin.symmetric import Failure, Matched
from tocsin.symmetric.explain import plain

MOST_TOLD = 100  # failures that a dead letter lists


class NewOffer(NamedTuple):
    """An offer that a turn stores: the seq of its event, whose it is, and the event."""

    seq: int
    publisher: str
    event: OfferEvent


def store_offers(turn: Turn, new: Sequence[NewOffer]) -> None:
    """Store the offers of this turn."""
    now = turn.now_us
    add_offers(
        turn.transaction,
        [StoredOffer(seq, publisher, now + event.ttl_us, event.document) for seq, publisher, event in new],
    )


class OfferOutcome(NamedTuple):
    """What came of matching an offer, beside its matches; it may be stored by another process than found it."""

    seq: int
    reached: list[int]  # subscriptions
    values: list[ValueBlock]
    failures: list[Failure]  # of subscriptions that the offer would have reached

    def met(self, *, reveal: bool) -> Met:
        """Return what the publisher learns."""
        return Met(len(self.reached), len(self.failures), tuple(self.reached) if reveal else None)

    def letters(self) -> list[NewDeadLetter]:
        """Return the dead letter that says what failed; none where nothing did."""
        return [_letter(self.seq, self.failures)] if self.failures else []


def outcomes_of(
    live: LiveIndex, seqs: Sequence[int], arrivals_us: Sequence[int], events: Sequence[Event], matches: Matches
) -> list[OfferOutcome]:
    """Return what came of the offers among events that the live index has just matched."""
    offers = [one for one in zip(seqs, arrivals_us, events, strict=True) if isinstance(one[2], OfferEvent)]
    if not offers:
        return []
    order = np.argsort(matches.seq, kind="stable")
    ordered = matches.seq[order]
    found = []
    for seq, arrival_us, event in offers:
        mine = order[slice(*np.searchsorted(ordered, [seq, seq + 1]))]
        owners = dict(zip(matches.subscription[mine].tolist(), matches.owner[mine].tolist(), strict=True))
        matched = live.engine.met(event)
        values: list[ValueBlock] = []
        failures: list[Failure] = []
        if matched is not None:
            if matched.columns:
                values = encode_values(seq, _computed(matched, owners))
            failures = _live_failures(live, seq, arrival_us, matched)
        found.append(OfferOutcome(seq, sorted(owners), values, failures))
    return found


def store_outcomes(transaction: Transaction, outcomes: Sequence[OfferOutcome]) -> None:
    """Store computed values and failures, in the transaction that records the matches."""
    add_values(transaction, [block for one in outcomes for block in one.values])
    new = [letter for one in outcomes for letter in one.letters()]
    if new:
        first = transaction.draw(len(new))
        letters.add_dead_letters(transaction, list(enumerate(new, first)))


def _computed(matched: Matched, owners: dict[int, int]) -> list[ComputedFor]:
    return [
        ComputedFor(int(one.id), owners[int(one.id)], {name: plain(value) for name, value in one.values.items()})
        for one in matched.notifications()
        if int(one.id) in owners
    ]


def _live_failures(live: LiveIndex, seq: int, arrival_us: int, matched: Matched) -> list[Failure]:
    """Return the failures of subscriptions that the event would have reached."""
    if not matched.failures:
        return []
    ids = np.array([int(one.id) for one in matched.failures], np.int64)
    at = np.full(len(ids), seq, np.int64), np.full(len(ids), arrival_us, np.int64)
    keep, _ = live.leases.apply_rule(*at, ids)
    return [one for one, kept in zip(matched.failures, keep.tolist(), strict=True) if kept]


def _letter(seq: int, failures: Sequence[Failure]) -> NewDeadLetter:
    count = f"{len(failures)} subscription{'' if len(failures) == 1 else 's'}"
    reason = f"the offer {seq} could not be matched with {count}: {failures[0].reason}"[:2000]
    listed = [{"subscription": one.id, "reason": one.reason} for one in failures[:MOST_TOLD]]
    body: dict[str, Any] = {"offer": seq, "failures": len(failures), "first": listed}
    return NewDeadLetter("match", "", reason, b"[]", msgspec.json.encode(body))


def tell(receipts: list[PublishReceipt], told: dict[int, Met]) -> None:
    """Let receipts say what their offers met."""
    for at, receipt in enumerate(receipts):
        if receipt.seq in told:
            receipts[at] = replace(receipt, met=told[receipt.seq])
