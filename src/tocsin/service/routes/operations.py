"""Operations: is it alive, is it ready, how is it doing, and how is it spoken to.

The thesis's XML requests over HTTP, and the port of its daemon: who asks, by our roles in theirs. What the requests mean
is in tocsin.xml, which is an extra, so it is imported when somebody asks for it; where it is missing that raises
NotInstalled.
"""

from __future__ import annotations

import asyncio
from html import escape
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tocsin.errors import TocsinError
from tocsin.service.openapi import asyncapi_document
from tocsin.service.problems import PROBLEM_TITLES, NotFound, Refusal, WrongMediaType
from tocsin.service.routing import JSON, Principal, Routes, json_response, service_of
from tocsin.service.service import Service
from tocsin.service.settings import ServiceSettings

if TYPE_CHECKING:
    from tocsin.xml.daemon import XmlDaemon
    from tocsin.xml.replies import XmlPrincipal

routes = Routes("operations")


@routes.on("GET", "/healthz", "Is the process alive?", media={JSON: {}})
async def health() -> object:
    """Answer at once, whatever the store does."""
    return {"status": "alive"}


@routes.on(
    "GET",
    "/readyz",
    "Can it serve?",
    media={JSON: {}},
    responses={503: "Not now: the store, the schema, the kernels or the pipeline are missing, or it is stopping"},
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
        checks |= {"kernels": kernels.state, "kernels_compiled": kernels.compiled}
        # Ready: whoever publishes now waits for no compiler. Few subscriptions are answered for by the definition meanwhile.
        answered = kernels.state == "compiling" and not service.broker.needs_kernels
        checks["matching_by"] = "definition" if not service.broker.needs_kernels else "index"
        good = good and (kernels.state == "ready" or answered)
    if watch is not None:
        checks["pipeline"] = {"up": watch.is_up, "starts": watch.starts, **watch.figures()}
        good = good and watch.is_up
    return json_response({"status": "ready" if good else "not ready", **checks}, 200 if good else 503)


@routes.on("GET", "/metrics", "Figures for Prometheus", media={"text/plain": {"type": "string"}})
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


@routes.on("GET", "/openapi.json", "The OpenAPI document", shown=False)
async def openapi(request: Request) -> Response:
    """Return the OpenAPI document."""
    if not service_of(request).settings.docs:
        raise NotFound("the operator does not show this")
    return json_response(request.app.document)


@routes.on("GET", "/asyncapi.json", "The AsyncAPI document", shown=False)
async def asyncapi(request: Request) -> Response:
    """Return the AsyncAPI document, which describes the push side."""
    if not service_of(request).settings.docs:
        raise NotFound("the operator does not show this")
    return json_response(asyncapi_document())


@routes.on("GET", "/problems/{name}", "What a problem is", shown=False)
async def problem(name: str) -> object:
    """Say what a problem's type means: its address leads here."""
    if name not in PROBLEM_TITLES:
        raise NotFound(f"there is no problem of the type {name[:60]}")
    return json_response({"type": f"/problems/{name}", "title": PROBLEM_TITLES[name]})


@routes.on("GET", "/docs", "The routes", shown=False)
async def docs(request: Request) -> Response:
    """Return the routes as a plain page: it needs nothing from elsewhere."""
    if not service_of(request).settings.docs:
        raise NotFound("the operator does not show this")
    rows = []
    for path, methods in request.app.document["paths"].items():
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


# --- the thesis's XML -------------------------------------------------------------------------------------------------

xml_routes = Routes("xml")
_MEDIA = ("application/xml", "text/xml")
_REPLY: dict[str, Any] = {_MEDIA[0]: {"type": "string"}}


def xml_principal(settings: ServiceSettings, principal: Principal) -> XmlPrincipal:
    """Return who asks, as the XML requests know them."""
    from tocsin.xml.replies import XmlPrincipal

    if principal.is_guest:
        return guest(settings)
    if principal.may("publish") and principal.may("subscribe"):
        return XmlPrincipal(principal.name, _xml_roles(settings, principal.role))
    return XmlPrincipal(principal.name, frozenset({"publisher"} if principal.may("publish") else ()))


def _xml_roles(settings: ServiceSettings, role: str) -> frozenset[str]:
    """Return an account's role as the XML requests know it: a publisher extends the schema where that needs no yes."""
    if role != "publisher":
        return frozenset({role})
    return frozenset({"member", "extender"} if settings.schema_additions == "at-once" else {"member"})


def guest(settings: ServiceSettings) -> XmlPrincipal:
    """Return what somebody without an account may do."""
    from tocsin.xml.replies import GUEST, XmlPrincipal

    return XmlPrincipal(None, frozenset({"publisher"})) if settings.guests == "publish" else GUEST


async def start_daemon(service: Service) -> XmlDaemon | None:
    """Return the daemon of the thesis, listening; None where the operator wants none."""
    settings = service.settings
    if settings.xml_port is None:
        return None
    from tocsin.xml.daemon import serve_xml
    from tocsin.xml.replies import XmlPrincipal

    async def authenticate(username: str, password: str, address: str) -> XmlPrincipal | None:
        try:
            account = await service.identities.check_password(username, password, address)
        except Refusal:  # wrong, disabled, or throttled: the port has one answer to all
            return None
        return XmlPrincipal(account.name, _xml_roles(settings, account.role))

    return await serve_xml(
        service.broker, settings.host, settings.xml_port, guest=guest(settings), authenticate=authenticate,
        tls=settings.tls(),
    )  # fmt: skip


@xml_routes.on(
    "POST", "/v1/xml", "One of the thesis's requests", body=_REPLY, media=_REPLY,
    responses={201: "Stored: a REPLY document", 409: "It contradicts what is there"},
)  # fmt: skip
async def xml(
    request: Request,
    principal: Principal,
    key: Annotated[str, Meta(min_length=1, max_length=150, pattern="^[!-~]+$")] | None = None,
) -> Response:
    """Take ADD_DOMAIN, ADD_ATTRIBUTE, EXTENT_SCHEMA, ADD_EVENT, PUBLISH_SUB or PUBLISH_EVENT; answer with a REPLY."""
    kind = request.headers.get("content-type", _MEDIA[0]).split(";")[0].strip().lower()
    if kind not in _MEDIA:
        raise WrongMediaType("the thesis's requests are application/xml")
    from tocsin.xml.handle import handle
    from tocsin.xml.replies import CONTENT_TYPE

    service = service_of(request)
    asker = xml_principal(service.settings, principal)
    reply = await asyncio.to_thread(handle, await request.body(), service.broker, asker, idempotency_key=key)
    headers = {}
    if reply.retry_after_seconds is not None:
        headers["retry-after"] = str(max(1, round(reply.retry_after_seconds)))
    return Response(reply.body, reply.http_status, headers, media_type=CONTENT_TYPE)
