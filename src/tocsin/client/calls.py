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

from tocsin.documents.accounts import AccountView, OwnAccount, TokenView
from tocsin.documents.events import (
    BatchReceipt,
    DryRunResponse,
    NotificationExplanation,
    NotificationPage,
    PublishReceipt,
    WebhookView,
)
from tocsin.documents.schema import ExtensionResponse, OperatorList, ProgramList
from tocsin.documents.subscriptions import (
    EndReceipt,
    Estimate,
    ExplanationView,
    FoundOffers,
    HeldOfferPage,
    Plan,
    SubscriptionPage,
    SubscriptionReceipt,
    SubscriptionView,
)

R = TypeVar("R")
Expression = str | Mapping[str, Any]
Start = Literal["acknowledged", "oldest", "now"]


@dataclass(frozen=True, slots=True)
class ClientCall(Generic[R]):
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


def publish(event: Mapping[str, Any], *, idempotency_key: str | None = None) -> ClientCall[PublishReceipt]:
    """Publish an event; when this returns it is on disk, and whom it reaches will be told."""
    headers = {"idempotency-key": idempotency_key or secrets.token_hex(16)}
    return ClientCall("POST", "/v1/events", PublishReceipt, _json(event), headers)


def publish_all(
    events: Iterable[Mapping[str, Any] | bytes], *, atomic: bool = True, receipts: bool = True,
    idempotency_key: str | None = None,
) -> ClientCall[BatchReceipt]:  # fmt: skip
    """Publish a batch in one commit, all or none; with `atomic=False` bad events become dead letters."""
    lines = [event if isinstance(event, bytes) else _json(event) for event in events]
    headers = {
        "content-type": "application/x-ndjson",
        "idempotency-key": idempotency_key or secrets.token_hex(16),
    }
    query = {"atomic": str(atomic).lower(), "receipts": str(receipts).lower()}
    return ClientCall("POST", "/v1/events", BatchReceipt, b"\n".join(lines), headers, query)


def matches_of(event: Mapping[str, Any]) -> ClientCall[DryRunResponse]:
    """Return what an event would match, without publishing it."""
    return ClientCall("POST", "/v1/events", DryRunResponse, _json(event), query={"dry_run": "true"})


# --- subscriptions ----------------------------------------------------------------------------------------------------


def subscribe(
    expression: Expression, *, lease_seconds: float | None = None, idempotency_key: str | None = None
) -> ClientCall[SubscriptionReceipt]:
    """Subscribe; every event published after this returns is matched.

    May be repeated, and is; where the first answer was lost the second has no ticket, which is shown once. The account
    renews and ends what it owns without one.
    """
    body = _expression(expression) | ({} if lease_seconds is None else {"lease_seconds": lease_seconds})
    headers = {"idempotency-key": idempotency_key or secrets.token_hex(16)}
    return ClientCall("POST", "/v1/subscriptions", SubscriptionReceipt, _json(body), headers)


def subscription(id: int) -> ClientCall[SubscriptionView]:
    """Return one of the account's subscriptions."""
    return ClientCall("GET", f"/v1/subscriptions/{int(id)}", SubscriptionView)


def subscriptions(*, cursor: str | None = None, limit: int = 100) -> ClientCall[SubscriptionPage]:
    """Return a page of the account's live subscriptions."""
    return ClientCall("GET", "/v1/subscriptions", SubscriptionPage, query=_query(cursor=cursor, limit=limit))


def renew(
    id: int, *, lease_seconds: float | None = None, generation: int | None = None, ticket: str | None = None
) -> ClientCall[SubscriptionReceipt]:
    """Renew a lease, as its owner or by its ticket; with a generation only if it was not renewed since."""
    headers = {} if ticket is None else {"tocsin-ticket": ticket}
    body = {"lease_seconds": lease_seconds, "generation": generation}
    return ClientCall("POST", f"/v1/subscriptions/{int(id)}/renew", SubscriptionReceipt, _json(body), headers,
                again=generation is None)  # fmt: skip


def unsubscribe(id: int, *, ticket: str | None = None) -> ClientCall[EndReceipt]:
    """End a subscription; after this returns nothing more is sent for it."""
    headers = {} if ticket is None else {"tocsin-ticket": ticket}
    return ClientCall("DELETE", f"/v1/subscriptions/{int(id)}", EndReceipt, headers=headers)


def explain(expression: Expression, event: Mapping[str, Any]) -> ClientCall[ExplanationView]:
    """Return whether an event satisfies an expression, and why."""
    return ClientCall("POST", "/v1/drafts/explain", ExplanationView, _json({**_expression(expression), "event": event}))


def explain_event(subscription: int, event: Mapping[str, Any]) -> ClientCall[ExplanationView]:
    """Return why an event, or offer, would match a subscription of the account's, or not."""
    return ClientCall("POST", f"/v1/subscriptions/{subscription}/explain", ExplanationView, _json({"event": event}))


def preview(expression: Expression, *, sample: int = 5000) -> ClientCall[Estimate]:
    """Estimate how many events a day an expression would match."""
    return ClientCall("POST", "/v1/drafts/preview", Estimate, _json({**_expression(expression), "sample": sample}))


def plan(expression: Expression) -> ClientCall[Plan]:
    """Return how an expression is understood."""
    return ClientCall("POST", "/v1/drafts/plan", Plan, _json(_expression(expression)))


# --- notifications ----------------------------------------------------------------------------------------------------


def notifications(
    *, cursor: str | None = None, limit: int = 100, consumer: str = "default", start: Start = "acknowledged"
) -> ClientCall[NotificationPage]:
    """Return a page of notifications after a cursor; without one, after what the consumer has acknowledged."""
    query = _query(cursor=cursor, limit=limit, consumer=consumer, start=start)
    return ClientCall("GET", "/v1/notifications", NotificationPage, query=query)


def acknowledge(cursor: str, *, consumer: str = "default") -> ClientCall[None]:
    """Say that everything up to a cursor was taken."""
    return ClientCall(
        "POST", "/v1/notifications/acknowledge", type(None), _json({"cursor": cursor, "consumer": consumer})
    )


def why(cursor: str) -> ClientCall[NotificationExplanation]:
    """Return a notification with the conditions of its subscription and the actual values."""
    return ClientCall("GET", f"/v1/notifications/{cursor}/why", NotificationExplanation)


def add_webhook(url: str, *, start: Literal["now", "oldest"] = "now") -> ClientCall[WebhookView]:
    """Have notifications pushed to an address; the answer has the secret that signs them."""
    return ClientCall("POST", "/v1/webhooks", WebhookView, _json({"url": url, "start": start}), again=False)


# --- schema and account -----------------------------------------------------------------------------------------------


def schema() -> ClientCall[dict[str, Any]]:
    """Return the schema in force, as a document."""
    return ClientCall("GET", "/v1/schema", dict[str, Any])


def operators() -> ClientCall[OperatorList]:
    """Return the operators that subscriptions may call, with their signatures and help."""
    return ClientCall("GET", "/v1/operators", OperatorList)


def programs() -> ClientCall[ProgramList]:
    """Return the programs that offers may call, with their versions and signatures."""
    return ClientCall("GET", "/v1/programs", ProgramList)


def offers_for(text: str) -> ClientCall[FoundOffers]:
    """Return the live offers that a subscription matches, with what is computed for it."""
    return ClientCall("POST", "/v1/offers/query", FoundOffers, _json({"text": text}))


def offers() -> ClientCall[HeldOfferPage]:
    """Return the live offers that the account has published."""
    return ClientCall("GET", "/v1/offers", HeldOfferPage)


def withdraw(seq: int) -> ClientCall[None]:
    """Let no new subscription find an offer of the account's."""
    return ClientCall("DELETE", f"/v1/offers/{seq}", type(None))


def extend_schema(changes: list[dict[str, Any]], *, dry_run: bool = False) -> ClientCall[ExtensionResponse]:
    """Extend the schema by the four rules."""
    query = {"dry_run": str(dry_run).lower()}
    return ClientCall(
        "POST", "/v1/schema/extensions", ExtensionResponse, _json({"changes": changes}), query=query, again=False
    )


def account() -> ClientCall[OwnAccount]:
    """Return who the client acts for."""
    return ClientCall("GET", "/v1/account", OwnAccount)


def register(name: str, password: str) -> ClientCall[AccountView]:
    """Make an account."""
    return ClientCall("POST", "/v1/accounts", AccountView, _json({"name": name, "password": password}), again=False)


def new_token(name: str, *, seconds: float | None = None) -> ClientCall[TokenView]:
    """Make an API token for the account."""
    return ClientCall("POST", "/v1/tokens", TokenView, _json({"name": name, "seconds": seconds}), again=False)
