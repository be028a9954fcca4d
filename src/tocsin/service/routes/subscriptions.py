"""Subscriptions: create, list, read, renew, end; how they are delivered, and how they are understood."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Header, Path, Query, Request
from starlette.responses import Response

from tocsin.broker import SubscriptionReceipt
from tocsin.errors import LeaseEnded
from tocsin.service import drafts, subscribing
from tocsin.service.documents import json_response, subscribed_document, subscription_document
from tocsin.service.models.base import LeaseSeconds
from tocsin.service.models.subscriptions import (
    DeliveryRuleBody,
    DryPlanTold,
    EndedTold,
    ExplainRequest,
    ExplanationTold,
    Expression,
    NewSubscription,
    PlanTold,
    Renewal,
    SubscribedManyTold,
    SubscribedTold,
    SubscriptionsTold,
    SubscriptionTold,
)
from tocsin.service.principal import TICKET_HEADER, Someone, service_of
from tocsin.service.problems import BadRequest, WrongMediaType
from tocsin.service.publishing import NDJSON
from tocsin.service.push.desk import DeliveryRule
from tocsin.service.routes.router import etag, expected, guarded

router = guarded("subscriptions")
Id = Annotated[int, Path(ge=0, lt=2**63)]
Ticket = Annotated[str | None, Header(alias=TICKET_HEADER, max_length=200)]
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=150, pattern="^[!-~]+$")]
IfMatch = Annotated[str | None, Header(alias="If-Match", max_length=50)]
_USED: dict[int | str, dict[str, Any]] = {409: {"description": "The Idempotency-Key was used with something else"}}
_GONE: dict[int | str, dict[str, Any]] = {410: {"description": "The subscription is over"}}
_STALE: dict[int | str, dict[str, Any]] = {412: {"description": "It has changed since"}}


@router.post(
    "/v1/subscriptions", summary="Subscribe", status_code=201, response_model=SubscribedTold,
    responses={200: {"description": "A dry run: how the expression is understood; nothing was stored",
                     "model": DryPlanTold}, **_USED},
)  # fmt: skip
async def create(
    request: Request, body: NewSubscription, principal: Someone, dry_run: bool = Query(False), key: Key = None
) -> Response:
    """Store a subscription; every event published after the answer is matched against it. The ticket is shown once.

    With an Idempotency-Key a retry is answered as before, without the ticket.
    """
    service = service_of(request)
    if dry_run:
        return json_response({"dry_run": True, **await asyncio.to_thread(drafts.plan, service.broker, body.document())})
    receipt = await subscribing.subscribe(service, principal, body.document(), body.lease_seconds, key)
    headers = {"location": f"/v1/subscriptions/{receipt.id}", "etag": etag(receipt.generation)}
    return json_response(subscribed_document(receipt), 201, headers)


@router.post(
    "/v1/subscriptions/bulk", summary="Subscribe many times, all or none", status_code=201,
    response_model=SubscribedManyTold,
    openapi_extra={"requestBody": {"required": True, "content": {NDJSON: {"schema": {"type": "string"}}}}},
    responses={415: {"description": "Not NDJSON"}, **_USED},
)  # fmt: skip
async def create_many(
    request: Request,
    principal: Someone,
    lease_seconds: Annotated[LeaseSeconds | None, Query()] = None,
    key: Key = None,
) -> Response:
    """Store a subscription a line, in one commit: {"text": …}, {"where": …} or {"predicates": …}."""
    if "json" not in request.headers.get("content-type", NDJSON):
        raise WrongMediaType(f"subscriptions are sent one a line, as {NDJSON}")
    documents = subscribing.read_bulk(await request.body())
    receipts = await subscribing.subscribe_bulk(service_of(request), principal, documents, lease_seconds, key)
    return json_response({"items": [subscribed_document(one) for one in receipts]}, 201)


@router.get("/v1/subscriptions", summary="Your live subscriptions", response_model=SubscriptionsTold)
async def read_all(
    request: Request,
    principal: Someone,
    cursor: Annotated[str | None, Query(max_length=40)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Return a page; `cursor` of the answer leads to the next, None at the end."""
    after = read_cursor(cursor)
    broker = service_of(request).broker
    found = await asyncio.to_thread(broker.subscriptions, principal.name, after=after, limit=limit)
    following = f"s{found[-1].id}" if len(found) == limit else None
    return json_response({"items": [subscription_document(one) for one in found], "cursor": following})


@router.get("/v1/subscriptions/{id}", summary="One of your subscriptions", response_model=SubscriptionTold)
async def read(request: Request, id: Id, principal: Someone) -> Response:
    """Return a subscription; its ETag is its lease's generation."""
    found = await subscribing.find(service_of(request), principal, id)
    return json_response(subscription_document(found), headers={"etag": etag(found.generation)})


@router.delete("/v1/subscriptions/{id}", summary="Unsubscribe", response_model=EndedTold)
async def remove(request: Request, id: Id, principal: Someone, ticket: Ticket = None) -> Response:
    """End a subscription, as its owner or by its ticket; after the answer nothing more is sent for it."""
    ended = await subscribing.unsubscribe(service_of(request), principal, id, ticket=ticket)
    return json_response({"id": ended.id, "seq": ended.seq})


@router.put("/v1/subscriptions/{id}", summary="Ask for something else", response_model=SubscribedTold, responses=_GONE)
async def replace(request: Request, id: Id, body: Expression, principal: Someone) -> Response:
    """Replace what a subscription asks for, from now on; its id, ticket and lease stay."""
    return _changed(await subscribing.replace(service_of(request), principal, id, body.document()))


@router.post("/v1/subscriptions/{id}/pause", summary="Pause", response_model=SubscribedTold, responses=_GONE)
async def pause(request: Request, id: Id, principal: Someone) -> Response:
    """Match nothing until it is resumed; the lease runs on."""
    return _changed(await subscribing.pause(service_of(request), principal, id))


@router.post("/v1/subscriptions/{id}/resume", summary="Resume", response_model=SubscribedTold, responses=_GONE)
async def resume(request: Request, id: Id, principal: Someone) -> Response:
    """Match again what is published from now on."""
    return _changed(await subscribing.resume(service_of(request), principal, id))


def _changed(receipt: SubscriptionReceipt) -> Response:
    document = subscribed_document(receipt)
    document.pop("ticket", None)
    return json_response(document, headers={"etag": etag(receipt.generation)})


@router.post(
    "/v1/subscriptions/{id}/renew", summary="Renew the lease", response_model=SubscribedTold,
    responses={**_GONE, **_STALE},
)  # fmt: skip
async def renew(
    request: Request, id: Id, principal: Someone, body: Renewal | None = None, ticket: Ticket = None,
    if_match: IfMatch = None,
) -> Response:  # fmt: skip
    """Let the lease last from now, as its owner or by its ticket; If-Match makes sure that it was not renewed since."""
    body = body or Renewal()
    generation = body.generation if body.generation is not None else expected(if_match)
    receipt = await subscribing.renew(
        service_of(request), principal, id, ticket=ticket, generation=generation, lease=body.lease_seconds
    )
    return _changed(receipt)


@router.get("/v1/subscriptions/{id}/delivery", summary="How webhooks are told of it", response_model=DeliveryRuleBody)
async def read_delivery(request: Request, id: Id, principal: Someone) -> Response:
    """Return the digest and the rate."""
    return json_response(asdict(await subscribing.delivery_rule(service_of(request), principal, id)))


@router.put(
    "/v1/subscriptions/{id}/delivery", summary="Set how webhooks are told of it", response_model=DeliveryRuleBody
)
async def set_delivery(request: Request, id: Id, body: DeliveryRuleBody, principal: Someone) -> Response:
    """Set the digest and the rate, from the next notification on. Lists and streams always have everything."""
    rule = DeliveryRule(body.digest, body.most_per_hour)
    await subscribing.set_delivery_rule(service_of(request), principal, id, rule)
    return json_response(asdict(rule))


@router.post(
    "/v1/subscriptions/{id}/explain", summary="Why an event would match it, or not", response_model=ExplanationTold
)
async def explain(request: Request, id: Id, body: ExplainRequest, principal: Someone) -> Response:
    """Return each condition with the actual values, of an offer its rules too, and the near miss."""
    explain = service_of(request).broker.explain_event
    told = await asyncio.to_thread(explain, body.event, id, owner=principal.name)
    return json_response(told.as_json())


@router.get("/v1/subscriptions/{id}/plan", summary="How it is understood", response_model=PlanTold, responses=_GONE)
async def plan(request: Request, id: Id, principal: Someone) -> Response:
    """Return its conjunctions, and what its author should know."""
    service = service_of(request)
    found = await subscribing.find(service, principal, id)
    if found.ended is not None:
        raise LeaseEnded(id, found.ended)
    return json_response(await asyncio.to_thread(drafts.plan, service.broker, found.text))


def read_cursor(cursor: str | None) -> int:
    """Return the id that a list's cursor stands for; raises BadRequest."""
    if cursor is None:
        return 0
    digits = cursor[1:]
    if cursor[:1] != "s" or not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise BadRequest("that is no cursor; use the one of the last page")
    return int(digits)
