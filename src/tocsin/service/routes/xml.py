"""The thesis's XML requests over HTTP; what they mean, and the port, are in tocsin.xml, which is an extra."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Header, Request
from starlette.responses import Response

from tocsin.service.principal import Someone, service_of
from tocsin.service.refusals import WrongMediaType
from tocsin.service.routes.router import guarded
from tocsin.service.xml_side import xml_principal

router = guarded("xml")
_MEDIA = ("application/xml", "text/xml")


@router.post(
    "/v1/xml",
    summary="One of the thesis's requests",
    response_class=Response,
    openapi_extra={"requestBody": {"required": True, "content": {_MEDIA[0]: {"schema": {"type": "string"}}}}},
    responses={
        200: {"description": "Done: a REPLY document", "content": {_MEDIA[0]: {"schema": {"type": "string"}}}},
        201: {"description": "Stored: a REPLY document", "content": {_MEDIA[0]: {"schema": {"type": "string"}}}},
        409: {"description": "It contradicts what is there"},
    },
)
async def xml(
    request: Request,
    principal: Someone,
    key: Annotated[
        str | None, Header(alias="Idempotency-Key", min_length=1, max_length=150, pattern="^[!-~]+$")
    ] = None,
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
