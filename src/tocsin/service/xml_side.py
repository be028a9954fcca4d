"""What the XML requests need of the service: who asks, by our roles in theirs, and the port of the thesis's daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tocsin.service.principal import Principal
from tocsin.service.refusals import Refusal
from tocsin.service.settings import ServiceSettings
from tocsin.service.xml import GUEST, XmlDaemon, serve_xml
from tocsin.service.xml import Principal as XmlPrincipal

if TYPE_CHECKING:
    from tocsin.service.service import Service


def xml_principal(settings: ServiceSettings, principal: Principal) -> XmlPrincipal:
    """Return who asks, as the XML requests know them."""
    if principal.is_guest:
        return guest(settings)
    if principal.may("publish") and principal.may("subscribe"):
        return XmlPrincipal(principal.name, frozenset({principal.role}))
    return XmlPrincipal(principal.name, frozenset({"publisher"} if principal.may("publish") else ()))


def guest(settings: ServiceSettings) -> XmlPrincipal:
    """Return what somebody without an account may do."""
    return XmlPrincipal(None, frozenset({"publisher"})) if settings.guests == "publish" else GUEST


async def start_daemon(service: Service) -> XmlDaemon | None:
    """Return the daemon of the thesis, listening; None where the operator wants none."""
    settings = service.settings
    if settings.xml_port is None:
        return None

    async def authenticate(username: str, password: str, address: str) -> XmlPrincipal | None:
        try:
            account = await service.identities.check_password(username, password, address)
        except Refusal:  # wrong, disabled, or throttled: the port has one answer to all
            return None
        return XmlPrincipal(account.name, frozenset({account.role}))

    return await serve_xml(
        service.broker, settings.host, settings.xml_port, guest=guest(settings), authenticate=authenticate
    )
