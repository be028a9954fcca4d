"""Matchmaking: live offers that a subscription would meet, why a pair meets, and the programs that compute."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Path, Query, Request
from starlette.responses import Response

from tocsin.errors import UnknownOffer
from tocsin.service.documents import json_response
from tocsin.service.models.matchmaking import (
    MeetingTold,
    MeetRequest,
    OfferQuery,
    OffersFoundTold,
    OffersTold,
    ProgramsTold,
)
from tocsin.service.principal import Someone, service_of
from tocsin.service.refusals import NotFound
from tocsin.service.routes.router import guarded
from tocsin.symmetric.program_files import program_view

router = guarded("matchmaking")
_MOST_SEQ = 2**63 - 1
_Seq = Annotated[int, Path(ge=1, le=_MOST_SEQ)]


@router.get("/v1/programs", summary="The programs that offers may call", response_model=ProgramsTold)
async def programs(request: Request) -> Response:
    """Return each with its version and signature; none where the service has no programs."""
    return json_response({"items": [program_view(one) for one in service_of(request).broker.matchmaking.programs]})


@router.post("/v1/offers/query", summary="Which live offers a subscription would meet", response_model=OffersFoundTold)
async def query(request: Request, body: OfferQuery) -> Response:
    """Return the advertisements that the two sides would agree on, with what is computed; nothing is stored."""
    found = await asyncio.to_thread(service_of(request).broker.matchmaking.query, body.text)
    items: list[dict[str, Any]] = [
        {"seq": one.seq, "event": one.event, "computed": one.computed, "ends": one.ends} for one in found
    ]
    return json_response({"items": items})


@router.get("/v1/offers", summary="Your live offers", response_model=OffersTold)
async def mine(
    request: Request,
    principal: Someone,
    after: Annotated[int, Query(ge=0, le=_MOST_SEQ)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Return the offers that you published with a time to live, until it ends, in order."""
    matchmaking = service_of(request).broker.matchmaking
    found = await asyncio.to_thread(matchmaking.of, principal.name, after=after, limit=limit)
    return json_response({"items": [{"seq": one.seq, "offer": one.document, "ends": one.ends} for one in found]})


@router.delete("/v1/offers/{seq}", summary="Withdraw an offer", status_code=204, response_class=Response)
async def withdraw(request: Request, seq: _Seq, principal: Someone) -> Response:
    """Let no new subscription find your offer; whoever was told stays told."""
    matchmaking = service_of(request).broker.matchmaking
    try:
        await asyncio.to_thread(matchmaking.withdraw, seq, publisher=principal.name)
    except UnknownOffer as error:
        raise NotFound(str(error)) from None
    return Response(status_code=204)


@router.post(
    "/v1/subscriptions/{id}/meet",
    summary="Why an offer would meet your subscription, or which side refuses",
    response_model=MeetingTold,
)
async def meet(request: Request, id: _Seq, principal: Someone, body: MeetRequest) -> Response:
    """Return both sides' conditions and what is computed; the offer's rules without their texts, unless allowed."""
    matchmaking = service_of(request).broker.matchmaking
    told = await asyncio.to_thread(matchmaking.explain_offer, body.offer, id, owner=principal.name)
    return json_response(told.as_json())
