"""Drafts: what a subscription would do, before it is one."""

from __future__ import annotations

import asyncio

from fastapi import Request
from starlette.responses import Response

from tocsin.service import drafts
from tocsin.service.documents import json_response
from tocsin.service.models import (
    BackfillTold,
    DraftBackfill,
    DraftExplain,
    DraftPreview,
    EstimateTold,
    ExplanationTold,
    Expression,
    PlanTold,
)
from tocsin.service.principal import service_of
from tocsin.service.routes.router import guarded

router = guarded("drafts")


@router.post("/v1/drafts/preview", summary="How much it would match", response_model=EstimateTold)
async def preview(request: Request, body: DraftPreview) -> Response:
    """Estimate events a day from a sample of the newest events, with the bounds of the error."""
    service = service_of(request)
    return json_response(await asyncio.to_thread(service.samples.estimate, body.document(), body.sample))


@router.post("/v1/drafts/explain", summary="Why an event would match it, or not", response_model=ExplanationTold)
async def explain(request: Request, body: DraftExplain) -> Response:
    """Return each predicate with the actual value, and the near miss."""
    broker = service_of(request).broker
    return json_response(await asyncio.to_thread(drafts.explain_draft, broker, body.document(), body.event))


@router.post("/v1/drafts/plan", summary="How it would be understood", response_model=PlanTold)
async def plan(request: Request, body: Expression) -> Response:
    """Return its conjunctions, and what its author should know."""
    return json_response(await asyncio.to_thread(drafts.plan, service_of(request).broker, body.document()))


@router.post("/v1/drafts/backfill", summary="What it would have matched", response_model=BackfillTold)
async def backfill(request: Request, body: DraftBackfill) -> Response:
    """Return stored events that it matches, oldest first; `after` goes on."""
    after = drafts.read_after(body.after)
    broker = service_of(request).broker
    return json_response(await asyncio.to_thread(drafts.backfill, broker, body.document(), after, body.limit))
