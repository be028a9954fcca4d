"""What becomes of offers in a turn: they are stored, and so is what was computed for each subscription reached.

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
from tocsin.broker.offers import OfferEvent
from tocsin.broker.receipts import Met, PublishReceipt
from tocsin.store import letters, offers
from tocsin.store.letters import NewDeadLetter
from tocsin.store.notifications import Matches
from tocsin.store.offers import ComputedFor, StoredOffer
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
    offers.add_offers(
        turn.transaction,
        [StoredOffer(seq, publisher, now + event.ttl_us, event.document) for seq, publisher, event in new],
    )


def store_outcomes(turn: Turn, new: Sequence[NewOffer], matches: Matches, *, reveal: bool) -> dict[int, Met]:
    """Store computed values and failures; return seq -> what the publisher learns."""
    told: dict[int, Met] = {}
    for seq, _, event in new:
        mine = matches.seq == seq
        subscriptions = matches.subscription[mine]
        matched = turn.live.engine.met(event)
        failures: list[Failure] = []
        if matched is not None:
            owners = dict(zip(subscriptions.tolist(), matches.owner[mine].tolist(), strict=True))
            if event.offer.dynamic:
                offers.add_values(turn.transaction, seq, _computed(matched, owners))
            failures = _live_failures(turn, seq, matched)
            if failures:
                letters.add_dead_letters(turn.transaction, [(turn.transaction.draw(1), _letter(seq, failures))])
        told[seq] = Met(len(subscriptions), len(failures), tuple(subscriptions.tolist()) if reveal else None)
    return told


def _computed(matched: Matched, owners: dict[int, int]) -> list[ComputedFor]:
    return [
        ComputedFor(int(one.id), owners[int(one.id)], {name: plain(value) for name, value in one.values.items()})
        for one in matched.notifications()
        if int(one.id) in owners
    ]


def _live_failures(turn: Turn, seq: int, matched: Matched) -> list[Failure]:
    """Return the failures of subscriptions that the event would have reached."""
    if not matched.failures:
        return []
    ids = np.array([int(one.id) for one in matched.failures], np.int64)
    at = np.full(len(ids), seq, np.int64), np.full(len(ids), turn.now_us, np.int64)
    keep, _ = turn.live.leases.apply_rule(*at, ids)
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
