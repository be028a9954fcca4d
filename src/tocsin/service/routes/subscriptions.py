"""Subscriptions: create, list, read, renew, end; how they are delivered and understood.

Drafts: what one would do before it is one. Offers: the live ones that a subscription would match.

Subscriptions and their notifications for requests: what handlers and pages call.

Everything is looked up under its owner's name.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from tocsin.broker.expressions import Expression
from tocsin.documents import LeaseSeconds, StoredInt
from tocsin.documents.events import DeliveryRule
from tocsin.documents.schema import ProgramList, ProgramView
from tocsin.documents.subscriptions import (
    BackfillJob,
    BackfillPage,
    DraftBackfillRequest,
    DraftExplainRequest,
    DraftPreviewRequest,
    EndReceipt,
    Estimate,
    ExplainRequest,
    ExplanationView,
    ExpressionRequest,
    FoundOffers,
    HeldOfferPage,
    OfferQuery,
    Plan,
    RenewalRequest,
    SubscriptionPage,
    SubscriptionReceipt,
    SubscriptionReceipts,
    SubscriptionRequest,
    SubscriptionView,
)
from tocsin.errors import (
    ExpressionsRejected,
    LeaseEnded,
    StaleRenewal,
    TocsinError,
    UnknownOffer,
    WrongTicket,
)
from tocsin.language.documents import decode
from tocsin.offers.program_files import program_view
from tocsin.service import drafts
from tocsin.service.problems import Invalid, NotFound, Throttled, TooMuch, WrongMediaType, problem_of
from tocsin.service.routes.events import NDJSON, Limit, ListCursor, read_cursor
from tocsin.service.routing import Principal, Routes, etag, expected, json_response, service_of
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


async def renew_lease(
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


async def replace_expression(
    service: Service, principal: Principal, id: int, expression: Expression
) -> SubscriptionReceipt:
    """Let a subscription ask for something else from now on; its id, ticket and lease stay."""
    return await asyncio.to_thread(service.broker.replace, id, expression, owner=principal.name)


async def pause_subscription(service: Service, principal: Principal, id: int) -> SubscriptionReceipt:
    """Let a subscription match nothing until it is resumed."""
    return await asyncio.to_thread(service.broker.pause, id, owner=principal.name)


async def resume_subscription(service: Service, principal: Principal, id: int) -> SubscriptionReceipt:
    """Let a paused subscription match again."""
    return await asyncio.to_thread(service.broker.resume, id, owner=principal.name)


async def unsubscribe(service: Service, principal: Principal, id: int, *, ticket: str | None) -> EndReceipt:
    """End a subscription; when this returns nothing more is sent for it, by whatever way."""
    claim: dict[str, Any] = {"owner": principal.name} if ticket is None else {"ticket": ticket}
    ended = await asyncio.to_thread(service.broker.unsubscribe, id, **claim)
    await service.settle([id])
    return ended


async def find_subscription(service: Service, principal: Principal, id: int) -> SubscriptionView:
    """Return a subscription of the asker; raises UnknownSubscription, also where it is another's."""
    return await asyncio.to_thread(service.broker.subscription, id, owner=principal.name)


async def delivery_rule(service: Service, principal: Principal, id: int) -> DeliveryRule:
    """Return how webhooks are told of a subscription."""
    await find_subscription(service, principal, id)

    def look() -> DeliveryRule:
        with service.broker.store.read() as connection:
            return webhooks.find_rules(connection, [id]).get(id, DeliveryRule())

    return await asyncio.to_thread(look)


async def set_delivery_rule(service: Service, principal: Principal, id: int, rule: DeliveryRule) -> None:
    """Set how webhooks are told of a subscription, from the next notification on."""
    await find_subscription(service, principal, id)

    def change() -> None:
        with service.broker.store.write() as transaction:
            webhooks.set_rule(transaction, id, rule)

    await asyncio.to_thread(change)


# --- Routes -----------------------------------------------------------------------------------------------------------


routes = Routes("subscriptions")
Ticket = Annotated[str, Meta(max_length=200)] | None
Key = Annotated[str, Meta(min_length=1, max_length=150, pattern="^[!-~]+$")] | None
IfMatch = Annotated[str, Meta(max_length=50)] | None
_USED = {409: "The Idempotency-Key was used with something else"}
_GONE = {410: "The subscription is over"}
_STALE = {412: "It has changed since"}


@routes.on(
    "POST", "/v1/subscriptions", "Subscribe", status=201, answer=SubscriptionReceipt,
    responses={200: ("A dry run: how the expression is understood; nothing was stored", Plan), **_USED},
)  # fmt: skip
async def create(
    request: Request, body: SubscriptionRequest, principal: Principal, dry_run: bool = False, key: Key = None
) -> object:
    """Store a subscription; every event published after the answer is matched against it. The ticket is shown once.

    With an Idempotency-Key a retry is answered as before, without the ticket.
    """
    service = service_of(request)
    if dry_run:
        plan = await asyncio.to_thread(drafts.plan, service.broker, body.expression())
        return json_response(msgspec.structs.replace(plan, dry_run=True))
    receipt = await subscribe(service, principal, body.expression(), body.lease_seconds, key, renews=body.renews)
    headers = {"location": f"/v1/subscriptions/{receipt.id}", "etag": etag(receipt.generation)}
    return json_response(receipt, 201, headers)


@routes.on(
    "POST", "/v1/subscriptions/bulk", "Subscribe many times, all or none", status=201, answer=SubscriptionReceipts,
    body={NDJSON: {"type": "string"}}, responses={415: "Not NDJSON", **_USED},
)  # fmt: skip
async def create_many(
    request: Request, principal: Principal, lease_seconds: LeaseSeconds | None = None, key: Key = None
) -> object:
    """Store a subscription a line, in one commit: {"text": …}, {"where": …} or {"predicates": …}."""
    if "json" not in request.headers.get("content-type", NDJSON):
        raise WrongMediaType(f"subscriptions are sent one a line, as {NDJSON}")
    documents = read_bulk(await request.body())
    receipts = await subscribe_bulk(service_of(request), principal, documents, lease_seconds, key)
    return SubscriptionReceipts(receipts)


@routes.on("GET", "/v1/subscriptions", "Your live subscriptions", answer=SubscriptionPage)
async def read_all(
    request: Request, principal: Principal, cursor: ListCursor | None = None, limit: Limit = 100
) -> object:
    """Return a page; `cursor` of the answer leads to the next, None at the end."""
    broker = service_of(request).broker
    found = await asyncio.to_thread(broker.subscriptions, principal.name, after=read_cursor(cursor), limit=limit)
    return SubscriptionPage(found, f"s{found[-1].id}" if len(found) == limit else None)


@routes.on("GET", "/v1/subscriptions/{id}", "One of your subscriptions", answer=SubscriptionView)
async def read(request: Request, id: StoredInt, principal: Principal) -> Response:
    """Return a subscription; its ETag is its lease's generation."""
    found = await find_subscription(service_of(request), principal, id)
    return json_response(found, headers={"etag": etag(found.generation)})


@routes.on("DELETE", "/v1/subscriptions/{id}", "Unsubscribe", answer=EndReceipt)
async def remove(request: Request, id: StoredInt, principal: Principal, ticket: Ticket = None) -> object:
    """End a subscription, as its owner or by its ticket; after the answer nothing more is sent for it."""
    return await unsubscribe(service_of(request), principal, id, ticket=ticket)


@routes.on("PUT", "/v1/subscriptions/{id}", "Ask for something else", answer=SubscriptionReceipt, responses=_GONE)
async def replace(request: Request, id: StoredInt, body: ExpressionRequest, principal: Principal) -> Response:
    """Replace what a subscription asks for, from now on; its id, ticket and lease stay."""
    return _changed(await replace_expression(service_of(request), principal, id, body.expression()))


@routes.on("POST", "/v1/subscriptions/{id}/pause", "Pause", answer=SubscriptionReceipt, responses=_GONE)
async def pause(request: Request, id: StoredInt, principal: Principal) -> Response:
    """Match nothing until it is resumed; the lease runs on."""
    return _changed(await pause_subscription(service_of(request), principal, id))


@routes.on("POST", "/v1/subscriptions/{id}/resume", "Resume", answer=SubscriptionReceipt, responses=_GONE)
async def resume(request: Request, id: StoredInt, principal: Principal) -> Response:
    """Match again what is published from now on."""
    return _changed(await resume_subscription(service_of(request), principal, id))


def _changed(receipt: SubscriptionReceipt) -> Response:
    shown = msgspec.structs.replace(receipt, ticket=None)
    return json_response(shown, headers={"etag": etag(receipt.generation)})


@routes.on(
    "POST", "/v1/subscriptions/{id}/renew", "Renew the lease", answer=SubscriptionReceipt, responses=_GONE | _STALE
)
async def renew(
    request: Request, id: StoredInt, principal: Principal, body: RenewalRequest | None = None, ticket: Ticket = None,
    if_match: IfMatch = None,
) -> Response:  # fmt: skip
    """Let the lease last from now, as its owner or by its ticket; never shortens it. If-Match: only if not renewed since."""
    body = body or RenewalRequest()
    generation = body.generation if body.generation is not None else expected(if_match)
    receipt = await renew_lease(
        service_of(request), principal, id, ticket=ticket, generation=generation, lease=body.lease_seconds,
        renews=body.renews,
    )  # fmt: skip
    return _changed(receipt)


@routes.on("GET", "/v1/subscriptions/{id}/delivery", "How webhooks are told of it", answer=DeliveryRule)
async def read_delivery(request: Request, id: StoredInt, principal: Principal) -> object:
    """Return the digest and the rate."""
    return await delivery_rule(service_of(request), principal, id)


@routes.on("PUT", "/v1/subscriptions/{id}/delivery", "Set how webhooks are told of it", answer=DeliveryRule)
async def set_delivery(request: Request, id: StoredInt, body: DeliveryRule, principal: Principal) -> object:
    """Set the digest and the rate, from the next notification on. Lists and streams always have everything."""
    await set_delivery_rule(service_of(request), principal, id, body)
    return body


@routes.on("POST", "/v1/subscriptions/{id}/explain", "Why an event would match it, or not", answer=ExplanationView)
async def explain(request: Request, id: StoredInt, body: ExplainRequest, principal: Principal) -> object:
    """Return each condition with the actual values, of an offer its rules too, and the near miss."""
    explain = service_of(request).broker.explain_event
    return (await asyncio.to_thread(explain, body.event, id, owner=principal.name)).as_json()


@routes.on("GET", "/v1/subscriptions/{id}/plan", "How it is understood", answer=Plan, responses=_GONE)
async def plan(request: Request, id: StoredInt, principal: Principal) -> object:
    """Return its conjunctions, and what its author should know."""
    service = service_of(request)
    found = await find_subscription(service, principal, id)
    if found.ended is not None:
        raise LeaseEnded(id, found.ended)
    return await asyncio.to_thread(drafts.plan, service.broker, found.text)


# --- drafts -----------------------------------------------------------------------------------------------------------

draft_routes = Routes("drafts")


@draft_routes.on("POST", "/v1/drafts/preview", "How much it would match", answer=Estimate)
async def preview(request: Request, body: DraftPreviewRequest) -> object:
    """Estimate events a day from a sample of the newest events, with the bounds of the error."""
    return await asyncio.to_thread(service_of(request).samples.estimate, body.expression(), body.sample)


@draft_routes.on("POST", "/v1/drafts/explain", "Why an event would match it, or not", answer=ExplanationView)
async def explain_draft(request: Request, body: DraftExplainRequest) -> object:
    """Return each condition with the actual values, of an offer its rules too, and the near miss."""
    explain = service_of(request).broker.explain_draft
    return (await asyncio.to_thread(explain, body.event, body.expression())).as_json()


@draft_routes.on("POST", "/v1/drafts/plan", "How it would be understood", answer=Plan)
async def plan_draft(request: Request, body: ExpressionRequest) -> object:
    """Return its conjunctions, and what its author should know."""
    return await asyncio.to_thread(drafts.plan, service_of(request).broker, body.expression())


@draft_routes.on("POST", "/v1/drafts/backfill", "What it would have matched", answer=BackfillPage)
async def backfill(request: Request, body: DraftBackfillRequest) -> object:
    """Return stored events that it matches, oldest first; `after` goes on."""
    after = drafts.read_after(body.after)
    return await asyncio.to_thread(drafts.backfill, service_of(request).broker, body.expression(), after, body.limit)


@draft_routes.on("POST", "/v1/drafts/backfills", "Hold it against the whole log", status=202, answer=BackfillJob)
async def start_backfill(request: Request, body: ExpressionRequest, principal: Principal) -> Response:
    """Begin a job that counts what it would have matched; ask for the job to see how far it is."""
    job = await service_of(request).backfills.start(principal, body.expression())
    return json_response(job, 202, {"location": f"/v1/drafts/backfills/{job.id}"})


@draft_routes.on("GET", "/v1/drafts/backfills/{id}", "How far a backfill is", answer=BackfillJob)
async def read_backfill(request: Request, id: StoredInt, principal: Principal) -> object:
    """Return the job: how many events it has looked at, how many match, and the first of them."""
    return service_of(request).backfills.find(principal, id)


# --- held offers ------------------------------------------------------------------------------------------------------

offer_routes = Routes("offers")


@offer_routes.on("GET", "/v1/programs", "The programs that offers may call", answer=ProgramList)
async def programs(request: Request) -> object:
    """Return each with its version and signature; none where the service has no programs."""
    found = service_of(request).broker.held_offers.programs
    return ProgramList([ProgramView(**program_view(one)) for one in found])


@offer_routes.on("POST", "/v1/offers/query", "Which live offers a subscription matches", answer=FoundOffers)
async def query(request: Request, body: OfferQuery) -> object:
    """Return the held offers that it matches and whose rules it satisfies, with what is computed; nothing is stored."""
    return FoundOffers(await asyncio.to_thread(service_of(request).broker.held_offers.query, body.text))


@offer_routes.on("GET", "/v1/offers", "Your live offers", answer=HeldOfferPage)
async def own_offers(request: Request, principal: Principal, after: StoredInt = 0, limit: Limit = 100) -> object:
    """Return the offers that you published with a time to live, until it ends, in order."""
    held = service_of(request).broker.held_offers
    return HeldOfferPage(await asyncio.to_thread(held.of, principal.name, after=after, limit=limit))


@offer_routes.on("DELETE", "/v1/offers/{seq}", "Withdraw an offer", status=204)
async def withdraw(request: Request, seq: StoredInt, principal: Principal) -> None:
    """Let no new subscription find your offer; whoever was notified stays so."""
    held = service_of(request).broker.held_offers
    try:
        await asyncio.to_thread(held.withdraw, seq, publisher=principal.name)
    except UnknownOffer as error:
        raise NotFound(str(error)) from None
