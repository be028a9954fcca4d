"""The thesis's XML requests over HTTP; what they mean, and the port, are in tocsin.xml, which is an extra.

What the XML requests need of the service: who asks, by our roles in theirs, and the port of the thesis's daemon.

tocsin.xml is an extra, so it is imported when somebody asks for it; where it is missing that raises NotInstalled.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from fastapi import Header, Request
from starlette.responses import Response

from tocsin.service.principal import Principal, Someone, service_of
from tocsin.service.problems import Refusal, WrongMediaType
from tocsin.service.routes.router import guarded
from tocsin.service.settings import ServiceSettings

if TYPE_CHECKING:
    from tocsin.service.service import Service
    from tocsin.xml.daemon import XmlDaemon
    from tocsin.xml.replies import Principal as XmlPrincipal


def xml_principal(settings: ServiceSettings, principal: Principal) -> XmlPrincipal:
    """Return who asks, as the XML requests know them."""
    from tocsin.xml.replies import Principal as XmlPrincipal

    if principal.is_guest:
        return guest(settings)
    if principal.may("publish") and principal.may("subscribe"):
        return XmlPrincipal(principal.name, frozenset({principal.role}))
    return XmlPrincipal(principal.name, frozenset({"publisher"} if principal.may("publish") else ()))


def guest(settings: ServiceSettings) -> XmlPrincipal:
    """Return what somebody without an account may do."""
    from tocsin.xml.replies import GUEST
    from tocsin.xml.replies import Principal as XmlPrincipal

    return XmlPrincipal(None, frozenset({"publisher"})) if settings.guests == "publish" else GUEST


async def start_daemon(service: Service) -> XmlDaemon | None:
    """Return the daemon of the thesis, listening; None where the operator wants none."""
    settings = service.settings
    if settings.xml_port is None:
        return None
    from tocsin.xml.daemon import serve_xml
    from tocsin.xml.replies import Principal as XmlPrincipal

    async def authenticate(username: str, password: str, address: str) -> XmlPrincipal | None:
        try:
            account = await service.identities.check_password(username, password, address)
        except Refusal:  # wrong, disabled, or throttled: the port has one answer to all
            return None
        return XmlPrincipal(account.name, frozenset({account.role}))

    return await serve_xml(
        service.broker, settings.host, settings.xml_port, guest=guest(settings), authenticate=authenticate
    )


# The thesis's XML requests over HTTP; what they mean, and the port, are in tocsin.xml, which is an extra.


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
