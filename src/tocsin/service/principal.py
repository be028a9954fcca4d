"""Principals: who a request comes from, found by token, session or nothing, and held to the table in access.py.

`guard` is what every route passes. It decides in this order: is the credential good (401), did a browser's
page of ours send it (403), does the role suffice (401 for guests, 403 for others), has it asked too often (429).
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection

from tocsin.documents.accounts import Scope
from tocsin.service.access import UNSAFE, AccessRule, rule_of, scope_of
from tocsin.service.problems import Forbidden, Throttled, Unauthenticated
from tocsin.store.audit import Actor

if TYPE_CHECKING:
    from tocsin.service.service import Service

SESSION_COOKIE = "tocsin_session"
DEVICE_COOKIE = "tocsin_device"  # of a browser that was logged in before; opens nothing
CSRF_HEADER = "x-csrf-token"
TICKET_HEADER = "tocsin-ticket"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: an account, or a guest, whose name is empty."""

    name: str
    number: int
    role: str  # guest, member, admin
    way: str  # token, session, none
    quotas: Mapping[str, int] = field(default_factory=dict)
    csrf: str = field(default="", repr=False)
    credential: bytes = field(default=b"", repr=False)  # the hash of the token or session
    credential_id: int | None = None
    scopes: frozenset[str] | None = None  # what a token may do; None: whatever its account may
    address: str = ""

    @property
    def is_guest(self) -> bool:
        return self.role == "guest"

    def may(self, scope: Scope) -> bool:
        """Return whether the credential by which somebody came is good for this."""
        return self.scopes is None or scope in self.scopes

    @property
    def actor(self) -> Actor:
        """Who it is in the audit trail."""
        return Actor(self.number, self.name, self.credential_id, self.address)


def service_of(connection: HTTPConnection) -> Service:
    """Return the service that the app belongs to."""
    service: Service = connection.app.state.service
    return service


async def guard(connection: HTTPConnection) -> Principal:
    """Return who asks; raises a refusal where the table says so."""
    service = service_of(connection)
    method = "WS" if connection.scope["type"] == "websocket" else connection.scope["method"]
    rule = rule_of(method, connection.scope["route"].path)
    principal = await identify(service, connection, rule)
    if rule.needs == "anyone":
        if method in UNSAFE and not same_site(service, connection):
            raise Forbidden("a page of another site sent this")
    elif principal.way == "session" and (method in UNSAFE or method == "WS"):
        _check_browser(service, connection, principal, method)
    _check_role(service, connection, principal, rule)
    _check_scope(principal, rule, scope_of(method, connection.scope["route"].path))
    _throttle(service, connection, principal)
    connection.scope["tocsin.principal"] = principal
    connection.scope["tocsin.who"] = principal.name or "guest"
    return principal


async def identify(service: Service, connection: HTTPConnection, rule: AccessRule) -> Principal:
    """Return the account that the credential belongs to, or a guest where there is none."""
    address = connection.client.host if connection.client else ""
    guest = Principal("", 0, "guest", "none", address=address)
    try:
        found = await _by_credential(service, connection)
        return guest if found is None else replace(found, address=address)
    except Unauthenticated:
        if rule.needs == "anyone":
            return guest
        raise


async def _by_credential(service: Service, connection: HTTPConnection) -> Principal | None:
    authorization = connection.headers.get("authorization")
    if authorization is not None:
        scheme, _, token = authorization.partition(" ")
        found = await service.identities.by_token(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            raise Unauthenticated("the token is not good: unknown, expired or revoked")
        return found
    if (secret := connection.cookies.get(SESSION_COOKIE)) is not None:
        found = await service.identities.by_session(secret)
        if found is None:
            raise Unauthenticated("the session is over; log in again")
        return found
    return None


def same_site(service: Service, connection: HTTPConnection) -> bool:
    """Return whether the request comes from a page of ours, or from no page at all."""
    if connection.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = connection.headers.get("origin")
    if origin is None:
        return True
    host = connection.headers.get("host", "")
    return origin in service.settings.origins or origin in (f"http://{host}", f"https://{host}")


def _check_browser(service: Service, connection: HTTPConnection, principal: Principal, method: str) -> None:
    """A cookie is sent by any page; only ours know the session's CSRF token, and only ours have our origin."""
    if not same_site(service, connection):
        raise Forbidden("a page of another site sent this")
    if method == "WS":
        if connection.headers.get("origin") is None:
            raise Forbidden("a WebSocket with a session says which page opened it; use a token otherwise")
    elif not hmac.compare_digest(connection.headers.get(CSRF_HEADER, "").encode(), principal.csrf.encode()):
        raise Forbidden(f"the header {CSRF_HEADER} must carry the session's CSRF token; or use an API token")


def _check_role(service: Service, connection: HTTPConnection, principal: Principal, rule: AccessRule) -> None:
    guests = service.settings.guests
    if rule.needs == "anyone":
        return
    if principal.is_guest:
        allowed = (
            (rule.needs == "guest" and guests != "none")
            or (rule.needs == "publisher" and guests == "publish")
            or (rule.needs == "ticket" and TICKET_HEADER in connection.headers)
        )
        if not allowed:
            raise Unauthenticated("this needs an account: send Authorization: Bearer TOKEN, or log in")
    elif rule.needs == "admin" and principal.role != "admin":
        raise Forbidden("this needs an account of the role admin")


def _check_scope(principal: Principal, rule: AccessRule, scope: Scope) -> None:
    if rule.needs != "anyone" and not principal.may(scope):
        raise Forbidden(f"this token is not good for that: it lacks the scope {scope}")


def _throttle(service: Service, connection: HTTPConnection, principal: Principal) -> None:
    who = principal.name or principal.address
    most = principal.quotas.get("requests_per_minute", service.settings.requests_per_minute)
    standing = service.requests.take(who, 1, most)
    connection.scope["tocsin.rate"] = standing
    if not standing.granted:
        raise Throttled(f"{most} requests a minute are the most", standing.again_seconds)
