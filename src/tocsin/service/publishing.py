"""Publishing for requests: rates, then the broker. Single events that wait at the same time go to it together.

A hop into a thread costs more than storing an event does. So single events are gathered while the store is busy, and
the next hop takes them all along: one commit for all of them, an answer for each.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

from tocsin.broker import PublishReceipt
from tocsin.broker.admission import RawEvent
from tocsin.broker.push_side import PushSide, Single
from tocsin.errors import BatchRejected, EventRejected, Overloaded, TocsinError
from tocsin.service.documents import receipt_document
from tocsin.service.ingest import Incoming
from tocsin.service.principal import Principal
from tocsin.service.refusals import Throttled, TooMuch

if TYPE_CHECKING:
    from tocsin.service.service import Service

_MOST_TOGETHER = 1000
_MOST_WAITING = 20_000


async def publish(
    service: Service, principal: Principal, incoming: Incoming, *, atomic: bool = True, receipts: bool = True
) -> dict[str, Any]:
    """Publish and return the answer's document; raises what the broker does."""
    _check(service, principal, incoming)
    key = _own(principal, incoming.key)
    if incoming.single:
        event = incoming.events[0]
        if service.push.takes_long:  # each by itself: operators that one event needs keep no other waiting
            found = await asyncio.to_thread(
                service.broker.publish, event, idempotency_key=key, atomic=atomic, publisher=principal.name
            )
        else:
            found = await service.line.publish(event, key, principal.name, atomic=atomic)
        service.metrics.published.inc(found.accepted)
        return receipt_document(found)
    if incoming.keys is not None:
        keys = [_own(principal, one) or "" for one in incoming.keys]
        many = await asyncio.to_thread(service.push.publish_keyed, incoming.events, keys, principal.name, atomic=atomic)
    else:
        many = await asyncio.to_thread(
            service.broker.publish, list(incoming.events), idempotency_key=key, atomic=atomic, publisher=principal.name
        )
    accepted = sum(one.accepted for one in many)
    service.metrics.published.inc(accepted)
    document: dict[str, Any] = {"accepted": accepted, "rejected": len(many) - accepted}
    if many:
        document |= {"first_seq": many[0].seq, "last_seq": many[-1].seq}
    return document | {"items": [receipt_document(one) for one in many]} if receipts else document


def _own(principal: Principal, key: str | None) -> str | None:
    """Return a key as it is stored; guests have no name to keep theirs apart by, so their addresses do."""
    if key is None or not principal.is_guest:
        return key
    return f"guest {hashlib.sha256(f'{principal.address} {key}'.encode('utf-8', 'surrogatepass')).hexdigest()}"


async def try_out(service: Service, principal: Principal, incoming: Incoming) -> dict[str, Any]:
    """Return what events would match if they were published now: which of the asker's own, and maybe how many in all.

    Whoever is told how many of others' subscriptions match can find their thresholds by bisection, and leave no trace.
    """
    _check(service, principal, incoming)
    found = await asyncio.to_thread(service.broker.dry_run, list(incoming.events))
    wrong = {at: one.violations for at, one in enumerate(found) if not one.accepted}
    if wrong:
        raise EventRejected(wrong[0]) if incoming.single else BatchRejected(wrong)
    told = service.settings.reveal_counts or principal.role == "admin"
    items = [
        {
            "matches": len(one.reached) if told else None,
            "yours": [reached.subscription for reached in one.reached if reached.owner == principal.name],
        }
        for one in found
    ]
    return {"dry_run": True, "items": items}


def _check(service: Service, principal: Principal, incoming: Incoming) -> None:
    most = service.settings.events_per_minute
    if len(incoming.events) > service.push.settings.batch_events:
        raise TooMuch(f"a batch of {len(incoming.events)} events; {service.push.settings.batch_events} is the most")
    allowed = principal.quotas.get("events_per_minute", most)
    standing = service.events.take(principal.name or principal.address, len(incoming.events), allowed)
    if not standing.granted:
        raise Throttled(f"{allowed} events a minute are the most", standing.again_seconds)


class PublishLine:
    """Single events that wait for the store, taken there together."""

    def __init__(self, push: PushSide) -> None:
        self._push = push
        self._waiting: list[tuple[Single, asyncio.Future[PublishReceipt]]] = []
        self._busy = 0

    async def publish(self, event: RawEvent, key: str | None, publisher: str, *, atomic: bool) -> PublishReceipt:
        """Return the receipt of one event, when it is on disk."""
        if len(self._waiting) >= _MOST_WAITING:
            raise Overloaded(f"{len(self._waiting)} events wait for the store already; try again later")
        future: asyncio.Future[PublishReceipt] = asyncio.get_running_loop().create_future()
        self._waiting.append(((event, key, publisher, atomic), future))
        if not self._busy:
            self._next()
        return await future

    def _next(self) -> None:
        taken, self._waiting = self._waiting[:_MOST_TOGETHER], self._waiting[_MOST_TOGETHER:]
        self._busy = len(taken)
        hop = asyncio.get_running_loop().run_in_executor(None, self._push.publish_each, [one for one, _ in taken])
        hop.add_done_callback(lambda done: self._answer(done, [future for _, future in taken]))

    def _answer(
        self, done: asyncio.Future[list[PublishReceipt | TocsinError]], futures: list[asyncio.Future[PublishReceipt]]
    ) -> None:
        self._busy = 0
        if self._waiting:
            self._next()
        error = done.exception()
        answers: list[Any] = [error] * len(futures) if error is not None else done.result()
        for future, answer in zip(futures, answers, strict=True):
            if future.cancelled():
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)
