"""Who may do what: the route-by-role table. The app enforces it, and a test walks it.

A route that is not in the table cannot be mounted (`check_complete`). What an account owns is looked up by its owner's
name in every handler, so another's looks like nothing: `owned` says where the test expects 404.

    anyone       also without an account, and with a wrong one
    guest        without an account where the operator lets guests read (TOCSIN_GUESTS=read or publish)
    publisher    without an account where the operator lets guests publish (TOCSIN_GUESTS=publish)
    ticket       the owner, or whoever holds the subscription's ticket
    member       whoever is logged in, or has an API token
    admin        an account of that role
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from starlette.routing import BaseRoute, Route, WebSocketRoute

from tocsin.documents.accounts import Scope

Needs = Literal["anyone", "guest", "publisher", "ticket", "member", "admin"]
UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True, slots=True)
class AccessRule:
    """What a route needs; `owned`: it is about one thing of one account, and another's is not there."""

    needs: Needs
    owned: bool = False


ANYONE, GUEST, PUBLISHER = AccessRule("anyone"), AccessRule("guest"), AccessRule("publisher")
MEMBER, OWNER, TICKET, ADMIN = (
    AccessRule("member"),
    AccessRule("member", owned=True),
    AccessRule("ticket", owned=True),
    AccessRule("admin"),
)

TABLE: dict[tuple[str, str], AccessRule] = {
    # operations
    ("GET", "/healthz"): ANYONE,
    ("GET", "/readyz"): ANYONE,
    ("GET", "/metrics"): ANYONE,
    ("GET", "/openapi.json"): ANYONE,
    ("GET", "/asyncapi.json"): ANYONE,
    ("GET", "/docs"): ANYONE,
    ("GET", "/problems/{name}"): ANYONE,
    # schema
    ("GET", "/v1/schema"): GUEST,
    ("GET", "/v1/schema/history"): GUEST,
    ("GET", "/v1/schema/versions/{version}"): GUEST,
    ("GET", "/v1/schema/view"): GUEST,
    ("GET", "/v1/schema/dtd/{kind}"): GUEST,
    ("POST", "/v1/schema/extensions"): ADMIN,
    ("GET", "/v1/operators"): GUEST,
    # offers
    ("GET", "/v1/programs"): GUEST,
    ("POST", "/v1/offers/query"): MEMBER,
    ("GET", "/v1/offers"): MEMBER,
    ("DELETE", "/v1/offers/{seq}"): OWNER,
    # events
    ("POST", "/v1/events"): PUBLISHER,
    # subscriptions
    ("POST", "/v1/subscriptions"): MEMBER,
    ("POST", "/v1/subscriptions/bulk"): MEMBER,
    ("GET", "/v1/subscriptions"): MEMBER,
    ("GET", "/v1/subscriptions/{id}"): OWNER,
    ("PUT", "/v1/subscriptions/{id}"): OWNER,
    ("DELETE", "/v1/subscriptions/{id}"): TICKET,
    ("POST", "/v1/subscriptions/{id}/pause"): OWNER,
    ("POST", "/v1/subscriptions/{id}/resume"): OWNER,
    ("POST", "/v1/subscriptions/{id}/renew"): TICKET,
    ("GET", "/v1/subscriptions/{id}/delivery"): OWNER,
    ("PUT", "/v1/subscriptions/{id}/delivery"): OWNER,
    ("POST", "/v1/subscriptions/{id}/explain"): OWNER,
    ("GET", "/v1/subscriptions/{id}/plan"): OWNER,
    ("POST", "/v1/drafts/preview"): MEMBER,
    ("POST", "/v1/drafts/explain"): MEMBER,
    ("POST", "/v1/drafts/plan"): MEMBER,
    ("POST", "/v1/drafts/backfill"): MEMBER,
    ("POST", "/v1/drafts/backfills"): MEMBER,
    ("GET", "/v1/drafts/backfills/{id}"): OWNER,
    # notifications
    ("GET", "/v1/notifications"): MEMBER,
    ("POST", "/v1/notifications/acknowledge"): MEMBER,
    ("GET", "/v1/notifications/stream"): MEMBER,
    ("WS", "/v1/notifications/live"): MEMBER,
    ("GET", "/v1/notifications/{cursor}/why"): OWNER,
    # webhooks and dead letters
    ("POST", "/v1/webhooks"): MEMBER,
    ("GET", "/v1/webhooks"): MEMBER,
    ("GET", "/v1/webhooks/{id}"): OWNER,
    ("DELETE", "/v1/webhooks/{id}"): OWNER,
    ("POST", "/v1/webhooks/{id}/enable"): OWNER,
    ("POST", "/v1/webhooks/{id}/rotate"): OWNER,
    ("GET", "/v1/webhooks/{id}/deliveries"): OWNER,
    ("POST", "/v1/webhooks/{id}/deliveries/retry"): OWNER,
    ("POST", "/v1/webhooks/{id}/deliveries/skip"): OWNER,
    ("POST", "/v1/webhooks/{id}/replay"): OWNER,
    ("GET", "/v1/dead-letters"): MEMBER,
    ("POST", "/v1/dead-letters/{seq}/replay"): OWNER,
    # accounts
    ("POST", "/v1/accounts"): ANYONE,
    ("GET", "/v1/accounts"): ADMIN,
    ("PATCH", "/v1/accounts/{name}"): ADMIN,
    ("GET", "/v1/account"): MEMBER,
    ("PUT", "/v1/account/password"): MEMBER,
    ("DELETE", "/v1/account"): MEMBER,
    ("GET", "/v1/account/audit"): MEMBER,
    ("DELETE", "/v1/accounts/{name}"): ADMIN,
    ("GET", "/v1/audit"): ADMIN,
    ("POST", "/v1/sessions"): ANYONE,
    ("GET", "/v1/sessions"): MEMBER,
    ("DELETE", "/v1/sessions/current"): MEMBER,
    ("DELETE", "/v1/sessions/{id}"): OWNER,
    ("GET", "/v1/tokens"): MEMBER,
    ("POST", "/v1/tokens"): MEMBER,
    ("DELETE", "/v1/tokens/{id}"): OWNER,
    # the thesis's requests; what each of them needs is in xml/replies.py
    ("POST", "/v1/xml"): GUEST,
}


def rule_of(method: str, path: str) -> AccessRule:
    """Return the rule of a route; a HEAD is as a GET. Raises KeyError where the table has none."""
    return TABLE["GET" if method == "HEAD" else method, path]


_PUBLISHING = ("/v1/events", "/v1/offers", "/v1/dead-letters")
_LOOKING = ("/v1/drafts", "/v1/offers/query", "/v1/notifications", "/v1/xml")  # though they are posted
_ACCOUNT = ("/v1/account", "/v1/tokens", "/v1/sessions")


def scope_of(method: str, path: str) -> Scope:
    """Return what a token that was made for less than everything needs, beside the role.

    read        whatever changes nothing, and acknowledging what was read
    publish     events and offers, and dead letters once more
    subscribe   subscriptions and webhooks
    account     the account itself: its credentials, password, audit trail and end
    admin       what needs the role admin
    """
    rule = rule_of(method, path)
    if rule.needs == "admin":
        return "admin"
    if path != "/v1/account" and path.startswith(_ACCOUNT):
        return "account"
    if method not in UNSAFE or path.startswith(_LOOKING) or path.endswith(("/explain", "/meet")):
        return "read"
    if path.startswith(_ACCOUNT):
        return "account"
    return "publish" if path.startswith(_PUBLISHING) else "subscribe"


def entries(routes: Iterable[BaseRoute]) -> set[tuple[str, str]]:
    """Return (method, path) of all routes; WS for a WebSocket."""
    found: set[tuple[str, str]] = set()
    for route in routes:
        if isinstance(route, WebSocketRoute):
            found.add(("WS", route.path))
        elif isinstance(route, Route):
            found |= {(method, route.path) for method in (route.methods or ()) if method != "HEAD"}
    return found


def check_complete(routes: Iterable[BaseRoute], pages: Iterable[tuple[str, str]] = ()) -> None:
    """Raise where a route is not in the table, nor a page with its own rule, so that it is never served."""
    if missing := sorted(entries(routes) - set(TABLE) - set(pages)):
        raise LookupError(f"these routes have no rule in service/access.py: {missing}")
