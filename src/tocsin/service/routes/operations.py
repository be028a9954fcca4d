"""Operations: is it alive, is it ready, how is it doing, and how is it spoken to."""

from __future__ import annotations

import asyncio
from html import escape
from typing import Any

from fastapi import Request
from starlette.responses import HTMLResponse, Response

from tocsin.errors import TocsinError
from tocsin.service.documents import json_response
from tocsin.service.openapi import asyncapi_document
from tocsin.service.principal import service_of
from tocsin.service.problems import PROBLEM_TITLES, NotFound
from tocsin.service.routes.router import guarded

router = guarded("operations")


@router.get("/healthz", summary="Is the process alive?")
async def health() -> dict[str, str]:
    """Answer at once, whatever the store does."""
    return {"status": "alive"}


@router.get(
    "/readyz",
    summary="Can it serve?",
    responses={
        503: {
            "description": "Not now: the store, the schema, the kernels or the pipeline are missing, or it is stopping"
        }
    },
)
async def ready(request: Request) -> Response:
    """Write to the store and look at it, and at the pipeline where it matches."""
    service, watch = service_of(request), request.app.state.pipeline
    checks: dict[str, Any] = {"stopping": service.stopping}
    try:
        await service.readiness.check()
        stands = await asyncio.to_thread(service.broker.store.meta)
        checks |= {"store": "ok", "seq": stands.seq, "matched_through": stands.matched_through,
                   "schema_version": stands.schema_version, "matching": stands.matching}  # fmt: skip
        good = not service.stopping and stands.schema_version > 0
    except TocsinError:
        checks["store"], good = "failed", False
    kernels = getattr(request.app.state, "kernels", None)  # of `tocsin serve`, where this process matches
    if kernels is not None:
        checks["kernels"] = kernels.state
        good = good and kernels.state == "ready"
    if watch is not None:
        checks["pipeline"] = {"up": watch.is_up, "starts": watch.starts, **watch.figures()}
        good = good and watch.is_up
    return json_response({"status": "ready" if good else "not ready", **checks}, 200 if good else 503)


@router.get("/metrics", summary="Figures for Prometheus", response_class=Response)
async def metrics(request: Request) -> Response:
    """Return the counters, and how the store stands."""
    service, watch = service_of(request), request.app.state.pipeline
    figures = service.metrics
    try:
        stands = await asyncio.to_thread(service.broker.store.meta)
        figures.seq.set(stands.seq)
        figures.matched.set(stands.matched_through)
        index = await asyncio.to_thread(service.broker.index_stats)
        figures.subscriptions.set(index["live"])
        figures.failed_pairs.set(index["failures"])
        figures.missing_operators.set(len(index.get("missing_operators", ())))
    except TocsinError:
        figures.seq.set(float("nan"))
    if watch is not None:
        figures.pipeline_up.set(1 if watch.is_up else 0)
    return Response(figures.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """Return the OpenAPI document."""
    if not service_of(request).settings.docs:
        raise NotFound("the operator does not show this")
    return json_response(request.app.openapi())


@router.get("/asyncapi.json", include_in_schema=False)
async def asyncapi(request: Request) -> Response:
    """Return the AsyncAPI document, which describes the push side."""
    if not service_of(request).settings.docs:
        raise NotFound("the operator does not show this")
    return json_response(asyncapi_document())


@router.get("/problems/{name}", include_in_schema=False)
async def problem(name: str) -> Response:
    """Say what a problem's type means: its address leads here."""
    if name not in PROBLEM_TITLES:
        raise NotFound(f"there is no problem of the type {name[:60]}")
    return json_response({"type": f"/problems/{name}", "title": PROBLEM_TITLES[name]})


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """Return the routes as a plain page: it needs nothing from elsewhere."""
    if not service_of(request).settings.docs:
        raise NotFound("the operator does not show this")
    rows = []
    for path, methods in request.app.openapi()["paths"].items():
        for method, operation in methods.items():
            summary = escape(operation.get("summary", ""))
            rows.append(f"<tr><td>{method.upper()}</td><td><code>{escape(path)}</code></td><td>{summary}</td></tr>")
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Tocsin API</title>'
        "<h1>Tocsin API</h1><p>The whole of it, for programs: <a href='/openapi.json'>OpenAPI</a>, "
        "<a href='/asyncapi.json'>AsyncAPI</a>.</p>"
        f"<table>{''.join(rows)}</table></html>"
    )
    return HTMLResponse(page)
