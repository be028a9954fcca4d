"""Subscriptions and their notifications for requests: what handlers and pages call.

Everything is looked up under its owner's name.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tocsin.broker.expressions import Expression
from tocsin.documents.events import DeliveryRule, Notification
from tocsin.documents.subscriptions import EndReceipt, SubscriptionReceipt, SubscriptionView
from tocsin.errors import BadCursor, ExpressionsRejected, LeaseEnded, StaleRenewal, TocsinError, WrongTicket
from tocsin.language.documents import decode
from tocsin.service.principal import Principal
from tocsin.service.problems import Invalid, NotFound, Throttled, TooMuch, problem_of
from tocsin.store import webhooks

if TYPE_CHECKING:
    from tocsin.service.service import Service

MOST_IN_BULK = 100_000
_SHOWN = 100


class BadLines(Invalid):
    """Some lines of a bulk request are wrong; none was stored. `more` lists them."""


async def subscribe(
    service: Service, principal: Principal, expression: Expression, lease: float | None, key: str | None = None,
    *, renews: bool = False,
) -> SubscriptionReceipt:  # fmt: skip
    """Store one subscription."""
    return (await subscribe_all(service, principal, [expression], lease, key, renews=renews))[0]


async def subscribe_all(
    service: Service, principal: Principal, expressions: list[Expression], lease: float | None,
    key: str | None = None, *, renews: bool = False,
) -> list[SubscriptionReceipt]:  # fmt: skip
    """Store subscriptions, all or none; raises what the broker does."""
    return await asyncio.to_thread(
        service.broker.subscribe_all, expressions, owner=principal.name, lease=lease, renews=renews, idempotency_key=key
    )


def read_bulk(body: bytes) -> list[dict[str, Any]]:
    """Return the documents of an NDJSON body; raises BadLines."""
    lines = [line for line in body.split(b"\n") if line.strip()]
    if len(lines) > MOST_IN_BULK:
        raise TooMuch(f"{len(lines)} subscriptions; {MOST_IN_BULK} is the most at a time")
    found, wrong = [], []
    for number, line in enumerate(lines, 1):
        try:
            document = decode(line)
            if not isinstance(document, dict):
                raise Invalid("a subscription is a JSON object")
            found.append(document)
        except (TocsinError, RecursionError) as error:
            wrong.append({"line": number, "message": str(error)[:500]})
    if wrong:
        raise _bad_lines(wrong)
    return found


async def subscribe_bulk(
    service: Service,
    principal: Principal,
    documents: list[dict[str, Any]],
    lease: float | None,
    key: str | None = None,
) -> list[SubscriptionReceipt]:
    """Store many subscriptions, all or none; raises BadLines with lines that are wrong.

    Each counts as a request: judging it takes as long, whether it is stored or not.
    """
    most = principal.quotas.get("requests_per_minute", service.settings.requests_per_minute)
    standing = service.requests.take(principal.name, len(documents), most)
    if not standing.granted:
        raise Throttled(f"{most} subscriptions a minute are the most", standing.again_seconds)
    try:
        return await asyncio.to_thread(
            service.broker.subscribe_all, list(documents), owner=principal.name, lease=lease, idempotency_key=key,
            list_wrong=True,
        )  # fmt: skip
    except ExpressionsRejected as refused:
        wrong = [
            {"line": at + 1, "message": problem_of(error).get("detail", "")} for at, error in refused.errors.items()
        ]
        raise _bad_lines(wrong) from None


def _bad_lines(wrong: list[dict[str, Any]]) -> BadLines:
    return BadLines(f"{len(wrong)} lines are wrong, and none was stored", errors=wrong[:_SHOWN])


async def renew(
    service: Service, principal: Principal, id: int, *, ticket: str | None, generation: int | None,
    lease: float | None, renews: bool = False,
) -> SubscriptionReceipt:  # fmt: skip
    """Renew a lease by ticket, or as its owner; without a generation, whatever it is at now."""
    claim: dict[str, Any] = {"owner": principal.name} if ticket is None else {"ticket": ticket}
    claim |= {"lease": lease, "renews": renews}
    try:
        if generation is not None:
            return await asyncio.to_thread(service.broker.renew, id, generation=generation, **claim)
        try:
            return await asyncio.to_thread(service.broker.renew, id, generation=0, **claim)
        except StaleRenewal as error:
            return await asyncio.to_thread(service.broker.renew, id, generation=error.current, **claim)
    except LeaseEnded:
        if ticket is not None:  # a ticket that was used up opens nothing, and tells nothing
            raise WrongTicket from None
        raise


async def replace(service: Service, principal: Principal, id: int, expression: Expression) -> SubscriptionReceipt:
    """Let a subscription ask for something else from now on; its id, ticket and lease stay."""
    return await asyncio.to_thread(service.broker.replace, id, expression, owner=principal.name)


async def pause(service: Service, principal: Principal, id: int) -> SubscriptionReceipt:
    """Let a subscription match nothing until it is resumed."""
    return await asyncio.to_thread(service.broker.pause, id, owner=principal.name)


async def resume(service: Service, principal: Principal, id: int) -> SubscriptionReceipt:
    """Let a paused subscription match again."""
    return await asyncio.to_thread(service.broker.resume, id, owner=principal.name)


async def unsubscribe(service: Service, principal: Principal, id: int, *, ticket: str | None) -> EndReceipt:
    """End a subscription; when this returns nothing more is sent for it, by whatever way."""
    claim: dict[str, Any] = {"owner": principal.name} if ticket is None else {"ticket": ticket}
    ended = await asyncio.to_thread(service.broker.unsubscribe, id, **claim)
    await service.settle([id])
    return ended


async def find(service: Service, principal: Principal, id: int) -> SubscriptionView:
    """Return a subscription of the asker; raises UnknownSubscription, also where it is another's."""
    return await asyncio.to_thread(service.broker.subscription, id, owner=principal.name)


async def delivery_rule(service: Service, principal: Principal, id: int) -> DeliveryRule:
    """Return how webhooks are told of a subscription."""
    await find(service, principal, id)

    def look() -> DeliveryRule:
        with service.broker.store.read() as connection:
            return webhooks.find_rules(connection, [id]).get(id, DeliveryRule())

    return await asyncio.to_thread(look)


async def set_delivery_rule(service: Service, principal: Principal, id: int, rule: DeliveryRule) -> None:
    """Set how webhooks are told of a subscription, from the next notification on."""
    await find(service, principal, id)

    def change() -> None:
        with service.broker.store.write() as transaction:
            webhooks.set_rule(transaction, id, rule)

    await asyncio.to_thread(change)


async def first_cursor(service: Service, principal: Principal, cursor: str | None, start: str) -> str | None:
    """Return where to begin; None: after what the consumer has acknowledged. Raises BadCursor, CursorExpired."""
    if cursor is not None:
        await asyncio.to_thread(service.broker.deliveries.check_cursor, cursor, principal.number)
        return cursor
    if start == "oldest":
        return await asyncio.to_thread(service.broker.oldest_cursor)
    return await asyncio.to_thread(service.broker.deliveries.newest_cursor) if start == "now" else None


def notification_and_text(service: Service, principal: Principal, cursor: str) -> tuple[Notification, str]:
    """Return the notification that a cursor comes from, and its subscription's text.

    Raises NotFound where it is not one of the asker's: another's looks the same as none.
    """
    try:
        found = service.broker.deliveries.notification_at(principal.name, principal.number, cursor)
    except BadCursor:
        found = None
    if found is None:
        raise NotFound("there is no notification at that cursor")
    return found, service.broker.subscription(found.subscription, owner=principal.name).text
