"""Every request of the client, described once: Client does it, AsyncClient awaits it.

`again` says that a request may be repeated when nobody knows whether it was done. Publishing and subscribing always may:
they carry an idempotency key, made up where none is given.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

import msgspec

from tocsin.client import results

R = TypeVar("R")
Expression = str | Mapping[str, Any]
Start = Literal["acknowledged", "oldest", "now"]
NDJSON = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """One request, and the type of its answer."""

    method: str
    path: str
    answer: type[R]
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    again: bool = True
    raw: bool = False  # the answer is a text, not JSON


def _json(document: object) -> bytes:
    return msgspec.json.encode(document)


def _expression(expression: Expression) -> dict[str, Any]:
    return {"text": expression} if isinstance(expression, str) else dict(expression)


def _query(**given: object) -> dict[str, Any]:
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
        "content-type": NDJSON,
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


def subscribe_all(
    expressions: Iterable[Expression], *, lease_seconds: float | None = None, idempotency_key: str | None = None
) -> Call[results.SubscribedMany]:
    """Subscribe many times in one commit, all or none."""
    headers = {"content-type": NDJSON, "idempotency-key": idempotency_key or secrets.token_hex(16)}
    body = b"\n".join(_json(_expression(one)) for one in expressions)
    return Call("POST", "/v1/subscriptions/bulk", results.SubscribedMany, body, headers,
                _query(lease_seconds=lease_seconds))  # fmt: skip


def replace(id: int, expression: Expression) -> Call[results.Subscribed]:
    """Let a subscription ask for something else from now on; its id, ticket and lease stay."""
    return Call("PUT", f"/v1/subscriptions/{int(id)}", results.Subscribed, _json(_expression(expression)))


def pause(id: int) -> Call[results.Subscribed]:
    """Match nothing until it is resumed; the lease runs on."""
    return Call("POST", f"/v1/subscriptions/{int(id)}/pause", results.Subscribed)


def resume(id: int) -> Call[results.Subscribed]:
    """Match again what is published from now on."""
    return Call("POST", f"/v1/subscriptions/{int(id)}/resume", results.Subscribed)


def delivery(id: int) -> Call[dict[str, Any]]:
    """Return how webhooks are told of a subscription: its digest and its rate."""
    return Call("GET", f"/v1/subscriptions/{int(id)}/delivery", dict[str, Any])


def set_delivery(id: int, *, digest: str = "none", most_per_hour: int | None = None) -> Call[dict[str, Any]]:
    """Set how webhooks are told of a subscription; lists and streams always have everything."""
    body = _json({"digest": digest, "most_per_hour": most_per_hour})
    return Call("PUT", f"/v1/subscriptions/{int(id)}/delivery", dict[str, Any], body)


def plan_of(id: int) -> Call[results.Plan]:
    """Return how one of the account's subscriptions is understood."""
    return Call("GET", f"/v1/subscriptions/{int(id)}/plan", results.Plan)


def backfill(expression: Expression, *, after: str | None = None, limit: int = 100) -> Call[results.BackfillPage]:
    """Return stored events that an expression matches, oldest first; `after` goes on."""
    body = {**_expression(expression), "limit": limit} | ({} if after is None else {"after": after})
    return Call("POST", "/v1/drafts/backfill", results.BackfillPage, _json(body))


def start_backfill(expression: Expression) -> Call[results.BackfillJob]:
    """Hold an expression against the whole log, beside other work; `backfill_job` says how far it is."""
    return Call("POST", "/v1/drafts/backfills", results.BackfillJob, _json(_expression(expression)), again=False)


def backfill_job(id: int) -> Call[results.BackfillJob]:
    """Return how far a backfill is, and what it has found."""
    return Call("GET", f"/v1/drafts/backfills/{int(id)}", results.BackfillJob)


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


def webhooks() -> Call[dict[str, list[results.Webhook]]]:
    """Return the account's webhooks, under `items`."""
    return Call("GET", "/v1/webhooks", dict[str, list[results.Webhook]])


def webhook(id: int) -> Call[results.Webhook]:
    """Return one of the account's webhooks."""
    return Call("GET", f"/v1/webhooks/{int(id)}", results.Webhook)


def remove_webhook(id: int) -> Call[None]:
    """Push there no more."""
    return Call("DELETE", f"/v1/webhooks/{int(id)}", type(None))


def enable_webhook(id: int) -> Call[results.Webhook]:
    """Push there again; it goes on where it stopped."""
    return Call("POST", f"/v1/webhooks/{int(id)}/enable", results.Webhook)


def rotate_webhook(id: int) -> Call[results.Webhook]:
    """Sign with a new secret, which the answer has."""
    return Call("POST", f"/v1/webhooks/{int(id)}/rotate", results.Webhook, again=False)


def replay_webhook(id: int, *, cursor: str | None = None) -> Call[results.Webhook]:
    """Send everything after a cursor once more, with the same ids; without one, all that is kept."""
    return Call("POST", f"/v1/webhooks/{int(id)}/replay", results.Webhook, _json({"cursor": cursor}), again=False)


def deliveries(
    webhook: int, *, cursor: str | None = None, limit: int = 100, state: str | None = None
) -> Call[dict[str, Any]]:
    """Return a page of what became of deliveries."""
    query = _query(cursor=cursor, limit=limit, state=state)
    return Call("GET", f"/v1/webhooks/{int(webhook)}/deliveries", dict[str, Any], query=query)


def retry_delivery(webhook: int, seq: int, subscription: int) -> Call[dict[str, Any]]:
    """Try a delivery again at once."""
    body = _json({"seq": seq, "subscription": subscription})
    return Call("POST", f"/v1/webhooks/{int(webhook)}/deliveries/retry", dict[str, Any], body)


def skip_delivery(webhook: int, seq: int, subscription: int) -> Call[dict[str, Any]]:
    """Give up a delivery that fails, and go on with what waits behind it."""
    body = _json({"seq": seq, "subscription": subscription})
    return Call("POST", f"/v1/webhooks/{int(webhook)}/deliveries/skip", dict[str, Any], body)


def dead_letters(*, cursor: str | None = None, limit: int = 100, everybody: bool = False) -> Call[dict[str, Any]]:
    """Return a page of what could not be processed, and why."""
    query = _query(cursor=cursor, limit=limit, everybody=str(everybody).lower())
    return Call("GET", "/v1/dead-letters", dict[str, Any], query=query)


def replay_dead_letter(seq: int) -> Call[results.Receipt]:
    """Publish a bad event once more, as the schema is now; asking twice publishes it once."""
    return Call("POST", f"/v1/dead-letters/{int(seq)}/replay", results.Receipt)


# --- schema and account -----------------------------------------------------------------------------------------------


def schema() -> Call[dict[str, Any]]:
    """Return the schema in force, as a document."""
    return Call("GET", "/v1/schema", dict[str, Any])


def schema_history() -> Call[dict[str, Any]]:
    """Return all versions of the schema, oldest first: what was changed, when, and from which seq on it holds."""
    return Call("GET", "/v1/schema/history", dict[str, Any])


def schema_version(version: int) -> Call[dict[str, Any]]:
    """Return the schema as it was."""
    return Call("GET", f"/v1/schema/versions/{int(version)}", dict[str, Any])


def schema_view(event_types: Iterable[str] = ()) -> Call[dict[str, Any]]:
    """Return what events of these types look like, of all where none is named, as a JSON Schema."""
    return Call("GET", "/v1/schema/view", dict[str, Any], query={"event_type": list(event_types)})


def schema_dtd(kind: str) -> Call[str]:
    """Return the DTD of one of the thesis's XML requests."""
    return Call("GET", f"/v1/schema/dtd/{quote(kind, safe='')}", str, raw=True)


def operators() -> Call[dict[str, Any]]:
    """Return the operators that subscriptions may call, with their signatures and help."""
    return Call("GET", "/v1/operators", dict[str, Any])


def programs() -> Call[dict[str, Any]]:
    """Return the programs that offers may call, with their versions and signatures."""
    return Call("GET", "/v1/programs", dict[str, Any])


def offers_for(text: str) -> Call[dict[str, Any]]:
    """Return the live offers that a subscription matches, with what is computed for it."""
    return Call("POST", "/v1/offers/query", dict[str, Any], _json({"text": text}))


def offers(*, after: int = 0, limit: int = 100) -> Call[dict[str, Any]]:
    """Return the live offers that the account has published, those after a seq."""
    return Call("GET", "/v1/offers", dict[str, Any], query=_query(after=after, limit=limit))


def withdraw(seq: int) -> Call[None]:
    """Let no new subscription find an offer of the account's."""
    return Call("DELETE", f"/v1/offers/{seq}", type(None))


def extend_schema(changes: list[dict[str, Any]], *, dry_run: bool = False) -> Call[dict[str, Any]]:
    """Extend the schema by the four rules."""
    query: dict[str, Any] = {"dry_run": str(dry_run).lower()}
    return Call("POST", "/v1/schema/extensions", dict[str, Any], _json({"changes": changes}), query=query, again=False)


def account() -> Call[results.Account]:
    """Return who the client acts for."""
    return Call("GET", "/v1/account", results.Account)


def register(name: str, password: str) -> Call[dict[str, Any]]:
    """Make an account."""
    return Call("POST", "/v1/accounts", dict[str, Any], _json({"name": name, "password": password}), again=False)


def log_in(name: str, password: str) -> Call[results.LoginSession]:
    """Begin a session; `Client.login` does this, and makes a token of it."""
    return Call("POST", "/v1/sessions", results.LoginSession, _json({"name": name, "password": password}))


def log_out() -> Call[None]:
    """End the session by which this comes."""
    return Call("DELETE", "/v1/sessions/current", type(None), again=False)


def sessions() -> Call[dict[str, Any]]:
    """Return the browsers that are logged in to the account."""
    return Call("GET", "/v1/sessions", dict[str, Any])


def end_session(id: int) -> Call[None]:
    """Log a browser out."""
    return Call("DELETE", f"/v1/sessions/{int(id)}", type(None))


def tokens() -> Call[dict[str, list[results.Token]]]:
    """Return the account's API tokens, without their secrets, under `items`."""
    return Call("GET", "/v1/tokens", dict[str, list[results.Token]])


def new_token(name: str, *, seconds: float | None = None, scopes: Iterable[str] | None = None) -> Call[results.Token]:
    """Make an API token for the account; `scopes` say what it may do: read, publish, subscribe, account, admin."""
    body = {"name": name, "seconds": seconds, "scopes": None if scopes is None else list(scopes)}
    return Call("POST", "/v1/tokens", results.Token, _json(body), again=False)


def revoke_token(id: int) -> Call[None]:
    """Revoke an API token, and what was got by it."""
    return Call("DELETE", f"/v1/tokens/{int(id)}", type(None))


def change_password(old: str, new: str, *, keep_tokens: bool = False) -> Call[None]:
    """Set another password; sessions end, and tokens unless they are kept."""
    body = _json({"old": old, "new": new, "keep_tokens": keep_tokens})
    return Call("PUT", "/v1/account/password", type(None), body, again=False)


def delete_own_account(password: str) -> Call[None]:
    """Delete the account with all that it has."""
    return Call("DELETE", "/v1/account", type(None), _json({"password": password}), again=False)


def audit(*, cursor: int | None = None, limit: int = 100, everybody: bool = False) -> Call[dict[str, Any]]:
    """Return what was done with the account, or (an admin) with all, the newest first."""
    path = "/v1/audit" if everybody else "/v1/account/audit"
    return Call("GET", path, dict[str, Any], query=_query(cursor=cursor, limit=limit))


# --- administration and operations ------------------------------------------------------------------------------------


def accounts(*, cursor: str | None = None, limit: int = 100) -> Call[dict[str, Any]]:
    """Return a page of all accounts, by name."""
    return Call("GET", "/v1/accounts", dict[str, Any], query=_query(cursor=cursor, limit=limit))


def change_account(
    name: str, *, role: str | None = None, disabled: bool | None = None, quotas: Mapping[str, int] | None = None
) -> Call[dict[str, Any]]:
    """Set an account's role, its quotas, or whether it is disabled."""
    given = {"role": role, "disabled": disabled, "quotas": quotas}
    body = _json({key: value for key, value in given.items() if value is not None})
    return Call("PATCH", f"/v1/accounts/{quote(name, safe='')}", dict[str, Any], body)


def delete_account(name: str) -> Call[None]:
    """Delete an account with all that it has."""
    return Call("DELETE", f"/v1/accounts/{quote(name, safe='')}", type(None))


def health() -> Call[dict[str, Any]]:
    """Return whether the process is alive."""
    return Call("GET", "/healthz", dict[str, Any])


def readiness() -> Call[dict[str, Any]]:
    """Return how it stands; raises ServiceRefused (503) where it cannot serve now."""
    return Call("GET", "/readyz", dict[str, Any])


def metrics() -> Call[str]:
    """Return the figures for Prometheus."""
    return Call("GET", "/metrics", str, raw=True)


def openapi() -> Call[dict[str, Any]]:
    """Return the OpenAPI document."""
    return Call("GET", "/openapi.json", dict[str, Any])


def asyncapi() -> Call[dict[str, Any]]:
    """Return the AsyncAPI document, which describes the push side."""
    return Call("GET", "/asyncapi.json", dict[str, Any])


def problem(name: str) -> Call[dict[str, Any]]:
    """Return what a problem's type means."""
    return Call("GET", f"/problems/{quote(name, safe='')}", dict[str, Any])


def xml(document: bytes, *, idempotency_key: str | None = None) -> Call[str]:
    """Send one of the thesis's XML requests; the answer is a REPLY document."""
    headers = {"content-type": "application/xml", "idempotency-key": idempotency_key or secrets.token_hex(16)}
    return Call("POST", "/v1/xml", str, document, headers, raw=True)
