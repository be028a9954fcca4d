"""Offers: the live ones that a subscription would match, a publisher's own, and the programs that they call."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Path, Query, Request
from starlette.responses import Response

from tocsin.errors import UnknownOffer
from tocsin.offers.program_files import program_view
from tocsin.service.documents import json_response
from tocsin.service.models.offers import OfferQuery, OffersFoundTold, OffersTold, ProgramsTold
from tocsin.service.principal import Someone, service_of
from tocsin.service.problems import NotFound
from tocsin.service.routes.router import guarded

router = guarded("offers")
_MOST_SEQ = 2**63 - 1
_Seq = Annotated[int, Path(ge=1, le=_MOST_SEQ)]


@router.get("/v1/programs", summary="The programs that offers may call", response_model=ProgramsTold)
async def programs(request: Request) -> Response:
    """Return each with its version and signature; none where the service has no programs."""
    return json_response({"items": [program_view(one) for one in service_of(request).broker.held_offers.programs]})


@router.post("/v1/offers/query", summary="Which live offers a subscription matches", response_model=OffersFoundTold)
async def query(request: Request, body: OfferQuery) -> Response:
    """Return the held offers that it matches and whose rules it satisfies, with what is computed; nothing is stored."""
    found = await asyncio.to_thread(service_of(request).broker.held_offers.query, body.text)
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
    held = service_of(request).broker.held_offers
    found = await asyncio.to_thread(held.of, principal.name, after=after, limit=limit)
    return json_response({"items": [{"seq": one.seq, "offer": one.document, "ends": one.ends} for one in found]})


@router.delete("/v1/offers/{seq}", summary="Withdraw an offer", status_code=204, response_class=Response)
async def withdraw(request: Request, seq: _Seq, principal: Someone) -> Response:
    """Let no new subscription find your offer; whoever was told stays told."""
    held = service_of(request).broker.held_offers
    try:
        await asyncio.to_thread(held.withdraw, seq, publisher=principal.name)
    except UnknownOffer as error:
        raise NotFound(str(error)) from None
    return Response(status_code=204)
