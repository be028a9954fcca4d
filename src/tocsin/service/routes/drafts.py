"""Drafts: what a subscription would do, before it is one."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Path, Request
from starlette.responses import Response

from tocsin.service import drafts
from tocsin.service.documents import json_response
from tocsin.service.models.subscriptions import (
    BackfillJobTold,
    BackfillTold,
    DraftBackfill,
    DraftExplain,
    DraftPreview,
    EstimateTold,
    ExplanationTold,
    Expression,
    PlanTold,
)
from tocsin.service.principal import Someone, service_of
from tocsin.service.routes.router import guarded

router = guarded("drafts")


@router.post("/v1/drafts/preview", summary="How much it would match", response_model=EstimateTold)
async def preview(request: Request, body: DraftPreview) -> Response:
    """Estimate events a day from a sample of the newest events, with the bounds of the error."""
    service = service_of(request)
    return json_response(await asyncio.to_thread(service.samples.estimate, body.document(), body.sample))


@router.post("/v1/drafts/explain", summary="Why an event would match it, or not", response_model=ExplanationTold)
async def explain(request: Request, body: DraftExplain) -> Response:
    """Return each condition with the actual values, of an offer its rules too, and the near miss."""
    explain = service_of(request).broker.explain_draft
    return json_response((await asyncio.to_thread(explain, body.event, body.document())).as_json())


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


@router.post(
    "/v1/drafts/backfills", summary="Hold it against the whole log", status_code=202, response_model=BackfillJobTold
)
async def start_backfill(request: Request, body: Expression, principal: Someone) -> Response:
    """Begin a job that counts what it would have matched; ask for the job to see how far it is."""
    job = await service_of(request).backfills.start(principal, body.document())
    return json_response(job.document(), 202, {"location": f"/v1/drafts/backfills/{job.id}"})


@router.get("/v1/drafts/backfills/{id}", summary="How far a backfill is", response_model=BackfillJobTold)
async def read_backfill(request: Request, id: Annotated[int, Path(ge=0, lt=2**63)], principal: Someone) -> Response:
    """Return the job: how many events it has looked at, how many match, and the first of them."""
    return json_response(service_of(request).backfills.find(principal, id).document())
