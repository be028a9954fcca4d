"""Every request of the client, described once: Client does it, AsyncClient awaits it.

`again` says that a request may be repeated when nobody knows whether it was done. Publishing and subscribing always may:
they carry an idempotency key, made up where none is given.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import msgspec

from tocsin.client import results

R = TypeVar("R")
Expression = str | Mapping[str, Any]
Start = Literal["acknowledged", "oldest", "now"]


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """One request, and the type of its answer."""

    method: str
    path: str
    answer: type[R]
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    again: bool = True


def _json(document: object) -> bytes:
    return msgspec.json.encode(document)


def _expression(expression: Expression) -> dict[str, Any]:
    return {"text": expression} if isinstance(expression, str) else dict(expression)


def _query(**given: object) -> dict[str, str]:
    return {name: str(value) for name, value in given.items() if value is not None}


# --- events -----------------------------------------------------------------------------------------------------------


def publish(event: Mapping[str, Any], *, idempotency_key: str | None = None) -> Call[results.Receipt]:
    """Publish an event; when this returns it is on disk, and whom it reaches will be told."""
    headers = {"idempotency-key": idempotency_key or secrets.token_hex(16)}
    return Call("POST", "/v1/events", results.Receipt, _json(event), headers)


def publish_all(
    events: Iterable[Mapping[str, Any] | bytes], *, atomic: bool = True, receipts: bool = True,
    idempotency_key: str | None = None,
) -> Call[results.Batch]:  # fmt: skip
    """Publish a batch in one commit, all or none; with `atomic=False` bad events become dead letters."""
    lines = [event if isinstance(event, bytes) else _json(event) for event in events]
    headers = {
        "content-type": "application/x-ndjson",
        "idempotency-key": idempotency_key or secrets.token_hex(16),
    }
    query = {"atomic": str(atomic).lower(), "receipts": str(receipts).lower()}
    return Call("POST", "/v1/events", results.Batch, b"\n".join(lines), headers, query)


def matches_of(event: Mapping[str, Any]) -> Call[dict[str, Any]]:
    """Return what an event would match, without publishing it."""
    return Call("POST", "/v1/events", dict[str, Any], _json(event), query={"dry_run": "true"})


# --- subscriptions ----------------------------------------------------------------------------------------------------


def subscribe(
    expression: Expression, *, lease_seconds: float | None = None, idempotency_key: str | None = None
) -> Call[results.Subscribed]:
    """Subscribe; every event published after this returns is matched.

    May be repeated, and is; where the first answer was lost the second has no ticket, which is shown once. The account
    renews and ends what it owns without one.
    """
    body = _expression(expression) | ({} if lease_seconds is None else {"lease_seconds": lease_seconds})
    headers = {"idempotency-key": idempotency_key or secrets.token_hex(16)}
    return Call("POST", "/v1/subscriptions", results.Subscribed, _json(body), headers)


def subscription(id: int) -> Call[results.Subscription]:
    """Return one of the account's subscriptions."""
    return Call("GET", f"/v1/subscriptions/{int(id)}", results.Subscription)


def subscriptions(*, cursor: str | None = None, limit: int = 100) -> Call[results.SubscriptionPage]:
    """Return a page of the account's live subscriptions."""
    return Call("GET", "/v1/subscriptions", results.SubscriptionPage, query=_query(cursor=cursor, limit=limit))


def renew(
    id: int, *, lease_seconds: float | None = None, generation: int | None = None, ticket: str | None = None
) -> Call[results.Subscribed]:
    """Renew a lease, as its owner or by its ticket; with a generation only if it was not renewed since."""
    headers = {} if ticket is None else {"tocsin-ticket": ticket}
    body = {"lease_seconds": lease_seconds, "generation": generation}
    return Call("POST", f"/v1/subscriptions/{int(id)}/renew", results.Subscribed, _json(body), headers,
                again=generation is None)  # fmt: skip


def unsubscribe(id: int, *, ticket: str | None = None) -> Call[results.Ended]:
    """End a subscription; after this returns nothing more is sent for it."""
    headers = {} if ticket is None else {"tocsin-ticket": ticket}
    return Call("DELETE", f"/v1/subscriptions/{int(id)}", results.Ended, headers=headers)


def explain(expression: Expression, event: Mapping[str, Any]) -> Call[results.Explanation]:
    """Return whether an event satisfies an expression, and why."""
    return Call("POST", "/v1/drafts/explain", results.Explanation, _json({**_expression(expression), "event": event}))


def explain_event(subscription: int, event: Mapping[str, Any]) -> Call[results.Explanation]:
    """Return why an event, or offer, would match a subscription of the account's, or not."""
    return Call("POST", f"/v1/subscriptions/{subscription}/explain", results.Explanation, _json({"event": event}))


def preview(expression: Expression, *, sample: int = 5000) -> Call[results.Estimate]:
    """Estimate how many events a day an expression would match."""
    return Call("POST", "/v1/drafts/preview", results.Estimate, _json({**_expression(expression), "sample": sample}))


def plan(expression: Expression) -> Call[results.Plan]:
    """Return how an expression is understood."""
    return Call("POST", "/v1/drafts/plan", results.Plan, _json(_expression(expression)))


# --- notifications ----------------------------------------------------------------------------------------------------


def notifications(
    *, cursor: str | None = None, limit: int = 100, consumer: str = "default", start: Start = "acknowledged"
) -> Call[results.NotificationPage]:
    """Return a page of notifications after a cursor; without one, after what the consumer has acknowledged."""
    query = _query(cursor=cursor, limit=limit, consumer=consumer, start=start)
    return Call("GET", "/v1/notifications", results.NotificationPage, query=query)


def acknowledge(cursor: str, *, consumer: str = "default") -> Call[None]:
    """Say that everything up to a cursor was taken."""
    return Call("POST", "/v1/notifications/acknowledge", type(None), _json({"cursor": cursor, "consumer": consumer}))


def why(cursor: str) -> Call[dict[str, Any]]:
    """Return a notification with the conditions of its subscription and the actual values."""
    return Call("GET", f"/v1/notifications/{cursor}/why", dict[str, Any])


def add_webhook(url: str, *, start: Literal["now", "oldest"] = "now") -> Call[results.Webhook]:
    """Have notifications pushed to an address; the answer has the secret that signs them."""
    return Call("POST", "/v1/webhooks", results.Webhook, _json({"url": url, "start": start}), again=False)


# --- schema and account -----------------------------------------------------------------------------------------------


def schema() -> Call[dict[str, Any]]:
    """Return the schema in force, as a document."""
    return Call("GET", "/v1/schema", dict[str, Any])


def operators() -> Call[dict[str, Any]]:
    """Return the operators that subscriptions may call, with their signatures and help."""
    return Call("GET", "/v1/operators", dict[str, Any])


def programs() -> Call[dict[str, Any]]:
    """Return the programs that offers may call, with their versions and signatures."""
    return Call("GET", "/v1/programs", dict[str, Any])


def offers_for(text: str) -> Call[dict[str, Any]]:
    """Return the live offers that a subscription matches, with what is computed for it."""
    return Call("POST", "/v1/offers/query", dict[str, Any], _json({"text": text}))


def offers() -> Call[dict[str, Any]]:
    """Return the live offers that the account has published."""
    return Call("GET", "/v1/offers", dict[str, Any])


def withdraw(seq: int) -> Call[None]:
    """Let no new subscription find an offer of the account's."""
    return Call("DELETE", f"/v1/offers/{seq}", type(None))


def extend_schema(changes: list[dict[str, Any]], *, dry_run: bool = False) -> Call[dict[str, Any]]:
    """Extend the schema by the four rules."""
    query = {"dry_run": str(dry_run).lower()}
    return Call("POST", "/v1/schema/extensions", dict[str, Any], _json({"changes": changes}), query=query, again=False)


def account() -> Call[results.Account]:
    """Return who the client acts for."""
    return Call("GET", "/v1/account", results.Account)


def register(name: str, password: str) -> Call[dict[str, Any]]:
    """Make an account."""
    return Call("POST", "/v1/accounts", dict[str, Any], _json({"name": name, "password": password}), again=False)


def new_token(name: str, *, seconds: float | None = None) -> Call[results.Token]:
    """Make an API token for the account."""
    return Call("POST", "/v1/tokens", results.Token, _json({"name": name, "seconds": seconds}), again=False)
