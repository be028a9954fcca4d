"""What the XML requests need of the service: who asks, by our roles in theirs, and the port of the thesis's daemon.

tocsin.xml is an extra, so it is imported when somebody asks for it; where it is missing that raises NotInstalled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tocsin.service.principal import Principal
from tocsin.service.refusals import Refusal
from tocsin.service.settings import ServiceSettings

if TYPE_CHECKING:
    from tocsin.service.service import Service
    from tocsin.xml.daemon import XmlDaemon
    from tocsin.xml.principal import Principal as XmlPrincipal


def xml_principal(settings: ServiceSettings, principal: Principal) -> XmlPrincipal:
    """Return who asks, as the XML requests know them."""
    from tocsin.xml.principal import Principal as XmlPrincipal

    if principal.is_guest:
        return guest(settings)
    if principal.may("publish") and principal.may("subscribe"):
        return XmlPrincipal(principal.name, frozenset({principal.role}))
    return XmlPrincipal(principal.name, frozenset({"publisher"} if principal.may("publish") else ()))


def guest(settings: ServiceSettings) -> XmlPrincipal:
    """Return what somebody without an account may do."""
    from tocsin.xml.principal import GUEST
    from tocsin.xml.principal import Principal as XmlPrincipal

    return XmlPrincipal(None, frozenset({"publisher"})) if settings.guests == "publish" else GUEST


async def start_daemon(service: Service) -> XmlDaemon | None:
    """Return the daemon of the thesis, listening; None where the operator wants none."""
    settings = service.settings
    if settings.xml_port is None:
        return None
    from tocsin.xml.daemon import serve_xml
    from tocsin.xml.principal import Principal as XmlPrincipal

    async def authenticate(username: str, password: str, address: str) -> XmlPrincipal | None:
        try:
            account = await service.identities.check_password(username, password, address)
        except Refusal:  # wrong, disabled, or throttled: the port has one answer to all
            return None
        return XmlPrincipal(account.name, frozenset({account.role}))

    return await serve_xml(
        service.broker, settings.host, settings.xml_port, guest=guest(settings), authenticate=authenticate
    )
