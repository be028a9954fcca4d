"""Every request of the client, described once: Client does it, AsyncClient awaits it.

`again` says that a request may be repeated when nobody knows whether it was done. Publishing and subscribing always may:
they carry an idempotency key, made up where none is given.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

import msgspec

from tocsin.documents.accounts import (
    AccountPage,
    AccountView,
    AuditPage,
    CostList,
    LoginResponse,
    OwnAccount,
    SessionList,
    TokenList,
    TokenView,
)
from tocsin.documents.events import (
    BatchReceipt,
    DeadLetterPage,
    DeliveryPage,
    DeliveryRule,
    DeliveryView,
    DryRunResponse,
    InboxPage,
    NotificationExplanation,
    NotificationPage,
    PublishReceipt,
    WebhookList,
    WebhookView,
)
from tocsin.documents.schema import ExtensionResponse, OperatorList, ProgramList, ProposalList, SchemaHistory
from tocsin.documents.sites import MappingList, MappingView, SitePage, SiteView
from tocsin.documents.subscriptions import (
    BackfillJob,
    BackfillPage,
    EndReceipt,
    Estimate,
    ExplanationView,
    FoundOffers,
    HeldOfferPage,
    Plan,
    SubscriptionPage,
    SubscriptionReceipt,
    SubscriptionReceipts,
    SubscriptionView,
)

R = TypeVar("R")
Expression = str | Mapping[str, Any]
Start = Literal["acknowledged", "oldest", "now"]
MappingVersion = int | Literal["newest", "none"]
NDJSON, CLOUDEVENTS = "application/x-ndjson", "application/cloudevents-batch+json"


@dataclass(frozen=True, slots=True)
class ClientCall(Generic[R]):
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


def publish(
    event: Mapping[str, Any], *, idempotency_key: str | None = None, site: str | None = None,
    mapping: MappingVersion | None = None,
) -> ClientCall[PublishReceipt]:  # fmt: skip
    """Publish an event; when this returns it is on disk, and whom it reaches will be told.

    As a `site` of the account's it says where it comes from, and is translated by the site's mapping, if that has one.
    """
    headers = {"idempotency-key": idempotency_key or secrets.token_hex(16)}
    query = _query(site=site, mapping=mapping)
    return ClientCall("POST", "/v1/events", PublishReceipt, _json(event), headers, query)


def publish_all(
    events: Iterable[Mapping[str, Any] | bytes], *, atomic: bool = True, receipts: bool = True,
    idempotency_key: str | None = None, site: str | None = None, mapping: MappingVersion | None = None,
) -> ClientCall[BatchReceipt]:  # fmt: skip
    """Publish a batch in one commit, all or none; with `atomic=False` bad events become dead letters.

    As a `site` of the account's they say where they come from, and are translated by the site's mapping, if it has one.
    """
    lines = [event if isinstance(event, bytes) else _json(event) for event in events]
    headers = {
        "content-type": NDJSON,
        "idempotency-key": idempotency_key or secrets.token_hex(16),
    }
    query = {"atomic": str(atomic).lower(), "receipts": str(receipts).lower(), **_query(site=site, mapping=mapping)}
    return ClientCall("POST", "/v1/events", BatchReceipt, b"\n".join(lines), headers, query)


def publish_messages(
    messages: Iterable[tuple[str, bytes]], *, source: str = "tocsin connector", event_type: str = "event"
) -> ClientCall[BatchReceipt]:
    """Publish (id, JSON) pairs as CloudEvents: each is stored once by its source and id, however often it is sent.

    Bad events become dead letters. `event_type` is meant where an event names none.
    """
    head = b'{"specversion":"1.0","type":%b,"source":%b,"id":' % (_json(event_type), _json(source))
    body = b",".join(head + _json(id) + b',"data":' + event + b"}" for id, event in messages)
    query = {"atomic": "false", "receipts": "false"}
    return ClientCall("POST", "/v1/events", BatchReceipt, b"[" + body + b"]", {"content-type": CLOUDEVENTS}, query)


def matches_of(event: Mapping[str, Any]) -> ClientCall[DryRunResponse]:
    """Return what an event would match, without publishing it."""
    return ClientCall("POST", "/v1/events", DryRunResponse, _json(event), query={"dry_run": "true"})


# --- sites ------------------------------------------------------------------------------------------------------------


def add_site(name: str, *, contact: str = "", home_page: str = "") -> ClientCall[SiteView]:
    """Make a site of the account, to publish as."""
    body = {"name": name, "contact": contact, "home_page": home_page}
    return ClientCall("POST", "/v1/sites", SiteView, _json(body), again=False)


def sites(*, own: bool = False, cursor: str | None = None, limit: int = 100) -> ClientCall[SitePage]:
    """Return a page of sites, by name: everybody's, or the account's own."""
    query = _query(own=str(own).lower(), cursor=cursor, limit=limit)
    return ClientCall("GET", "/v1/sites", SitePage, query=query)


def site(name: str) -> ClientCall[SiteView]:
    """Return a site, with how to reach it."""
    return ClientCall("GET", _site(name), SiteView)


def change_site(name: str, *, contact: str | None = None, home_page: str | None = None) -> ClientCall[SiteView]:
    """Say how to reach a site of the account's."""
    given = {"contact": contact, "home_page": home_page}
    return ClientCall(
        "PATCH", _site(name), SiteView, _json({key: one for key, one in given.items() if one is not None})
    )


def end_site(name: str) -> ClientCall[None]:
    """Let nobody publish as a site of the account's any more; its name stays taken."""
    return ClientCall("DELETE", _site(name), type(None))


def set_site_mapping(name: str, mapping: Mapping[str, Any], *, words: str = "") -> ClientCall[MappingView]:
    """Store a mapping of a site of the account's as its next version."""
    body = _json({"mapping": mapping, "words": words})
    return ClientCall("PUT", f"{_site(name)}/mapping", MappingView, body, again=False)


def site_mapping(name: str, *, version: int | None = None) -> ClientCall[MappingView]:
    """Return a version of the mapping of a site of the account's, the newest by default."""
    return ClientCall("GET", f"{_site(name)}/mapping", MappingView, query=_query(version=version))


def site_mappings(name: str) -> ClientCall[MappingList]:
    """Return all versions of the mapping of a site of the account's, oldest first."""
    return ClientCall("GET", f"{_site(name)}/mappings", MappingList)


def _site(name: str) -> str:
    return f"/v1/sites/{quote(name, safe='')}"


# --- subscriptions ----------------------------------------------------------------------------------------------------


def subscribe(
    expression: Expression, *, lease_seconds: float | None = None, renews: bool = False,
    idempotency_key: str | None = None,
) -> ClientCall[SubscriptionReceipt]:  # fmt: skip
    """Subscribe; every event published after this returns is matched. A lease that `renews` lasts until you end it.

    May be repeated, and is; where the first answer was lost the second has no ticket, which is shown once. The account
    renews and ends what it owns without one.
    """
    body = _expression(expression) | ({} if lease_seconds is None else {"lease_seconds": lease_seconds})
    body |= {"renews": True} if renews else {}
    headers = {"idempotency-key": idempotency_key or secrets.token_hex(16)}
    return ClientCall("POST", "/v1/subscriptions", SubscriptionReceipt, _json(body), headers)


def subscription(id: int) -> ClientCall[SubscriptionView]:
    """Return one of the account's subscriptions."""
    return ClientCall("GET", f"/v1/subscriptions/{int(id)}", SubscriptionView)


def subscriptions(*, cursor: str | None = None, limit: int = 100) -> ClientCall[SubscriptionPage]:
    """Return a page of the account's live subscriptions."""
    return ClientCall("GET", "/v1/subscriptions", SubscriptionPage, query=_query(cursor=cursor, limit=limit))


def renew(
    id: int, *, lease_seconds: float | None = None, renews: bool = False, generation: int | None = None,
    ticket: str | None = None,
) -> ClientCall[SubscriptionReceipt]:  # fmt: skip
    """Renew a lease, as its owner or by its ticket; with a generation only if it was not renewed since."""
    headers = {} if ticket is None else {"tocsin-ticket": ticket}
    body = {"lease_seconds": lease_seconds, "generation": generation, "renews": renews}
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


def subscribe_all(
    expressions: Iterable[Expression], *, lease_seconds: float | None = None, idempotency_key: str | None = None
) -> ClientCall[SubscriptionReceipts]:
    """Subscribe many times in one commit, all or none."""
    headers = {"content-type": NDJSON, "idempotency-key": idempotency_key or secrets.token_hex(16)}
    body = b"\n".join(_json(_expression(one)) for one in expressions)
    return ClientCall("POST", "/v1/subscriptions/bulk", SubscriptionReceipts, body, headers,
                _query(lease_seconds=lease_seconds))  # fmt: skip


def replace(id: int, expression: Expression) -> ClientCall[SubscriptionReceipt]:
    """Let a subscription ask for something else from now on; its id, ticket and lease stay."""
    return ClientCall("PUT", f"/v1/subscriptions/{int(id)}", SubscriptionReceipt, _json(_expression(expression)))


def pause(id: int) -> ClientCall[SubscriptionReceipt]:
    """Match nothing until it is resumed; the lease runs on."""
    return ClientCall("POST", f"/v1/subscriptions/{int(id)}/pause", SubscriptionReceipt)


def resume(id: int) -> ClientCall[SubscriptionReceipt]:
    """Match again what is published from now on."""
    return ClientCall("POST", f"/v1/subscriptions/{int(id)}/resume", SubscriptionReceipt)


def delivery(id: int) -> ClientCall[DeliveryRule]:
    """Return how webhooks are told of a subscription: its digest and its rate."""
    return ClientCall("GET", f"/v1/subscriptions/{int(id)}/delivery", DeliveryRule)


def set_delivery(id: int, *, digest: str = "none", most_per_hour: int | None = None) -> ClientCall[DeliveryRule]:
    """Set how webhooks are told of a subscription; lists and streams always have everything."""
    body = _json({"digest": digest, "most_per_hour": most_per_hour})
    return ClientCall("PUT", f"/v1/subscriptions/{int(id)}/delivery", DeliveryRule, body)


def plan_of(id: int) -> ClientCall[Plan]:
    """Return how one of the account's subscriptions is understood."""
    return ClientCall("GET", f"/v1/subscriptions/{int(id)}/plan", Plan)


def backfill(expression: Expression, *, after: str | None = None, limit: int = 100) -> ClientCall[BackfillPage]:
    """Return stored events that an expression matches, oldest first; `after` goes on."""
    body = {**_expression(expression), "limit": limit} | ({} if after is None else {"after": after})
    return ClientCall("POST", "/v1/drafts/backfill", BackfillPage, _json(body))


def start_backfill(expression: Expression) -> ClientCall[BackfillJob]:
    """Hold an expression against the whole log, beside other work; `backfill_job` says how far it is."""
    return ClientCall("POST", "/v1/drafts/backfills", BackfillJob, _json(_expression(expression)), again=False)


def backfill_job(id: int) -> ClientCall[BackfillJob]:
    """Return how far a backfill is, and what it has found."""
    return ClientCall("GET", f"/v1/drafts/backfills/{int(id)}", BackfillJob)


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


def inbox(
    *, before: str | None = None, after: str | None = None, limit: int = 50, subscription: int | None = None,
    event_type: str | None = None, since: datetime | None = None, until: datetime | None = None, search: str | None = None,
) -> ClientCall[InboxPage]:  # fmt: skip
    """Return matched events, newest first, one entry an event; `before` and `after` are a page's `older` and `newer`."""
    times = {name: None if at is None else at.isoformat() for name, at in (("since", since), ("until", until))}
    query = _query(
        before=before,
        after=after,
        limit=limit,
        subscription=subscription,
        event_type=event_type,
        search=search,
        **times,
    )
    return ClientCall("GET", "/v1/inbox", InboxPage, query=query)


def mark_inbox_read(through: int) -> ClientCall[None]:
    """Say that the inbox was read up to a seq."""
    return ClientCall("POST", "/v1/inbox/read", type(None), _json({"through": through}))


def why(cursor: str) -> ClientCall[NotificationExplanation]:
    """Return a notification with the conditions of its subscription and the actual values."""
    return ClientCall("GET", f"/v1/notifications/{cursor}/why", NotificationExplanation)


def add_webhook(url: str, *, start: Literal["now", "oldest"] = "now") -> ClientCall[WebhookView]:
    """Have notifications pushed to an address; the answer has the secret that signs them."""
    return ClientCall("POST", "/v1/webhooks", WebhookView, _json({"url": url, "start": start}), again=False)


def webhooks() -> ClientCall[WebhookList]:
    """Return the account's webhooks, under `items`."""
    return ClientCall("GET", "/v1/webhooks", WebhookList)


def webhook(id: int) -> ClientCall[WebhookView]:
    """Return one of the account's webhooks."""
    return ClientCall("GET", f"/v1/webhooks/{int(id)}", WebhookView)


def remove_webhook(id: int) -> ClientCall[None]:
    """Push there no more."""
    return ClientCall("DELETE", f"/v1/webhooks/{int(id)}", type(None))


def enable_webhook(id: int) -> ClientCall[WebhookView]:
    """Push there again; it goes on where it stopped."""
    return ClientCall("POST", f"/v1/webhooks/{int(id)}/enable", WebhookView)


def rotate_webhook(id: int) -> ClientCall[WebhookView]:
    """Sign with a new secret, which the answer has."""
    return ClientCall("POST", f"/v1/webhooks/{int(id)}/rotate", WebhookView, again=False)


def replay_webhook(id: int, *, cursor: str | None = None) -> ClientCall[WebhookView]:
    """Send everything after a cursor once more, with the same ids; without one, all that is kept."""
    return ClientCall("POST", f"/v1/webhooks/{int(id)}/replay", WebhookView, _json({"cursor": cursor}), again=False)


def deliveries(
    webhook: int, *, cursor: str | None = None, limit: int = 100, state: str | None = None
) -> ClientCall[DeliveryPage]:
    """Return a page of what became of deliveries."""
    query = _query(cursor=cursor, limit=limit, state=state)
    return ClientCall("GET", f"/v1/webhooks/{int(webhook)}/deliveries", DeliveryPage, query=query)


def retry_delivery(webhook: int, seq: int, subscription: int) -> ClientCall[DeliveryView]:
    """Try a delivery again at once."""
    body = _json({"seq": seq, "subscription": subscription})
    return ClientCall("POST", f"/v1/webhooks/{int(webhook)}/deliveries/retry", DeliveryView, body)


def skip_delivery(webhook: int, seq: int, subscription: int) -> ClientCall[DeliveryView]:
    """Give up a delivery that fails, and go on with what waits behind it."""
    body = _json({"seq": seq, "subscription": subscription})
    return ClientCall("POST", f"/v1/webhooks/{int(webhook)}/deliveries/skip", DeliveryView, body)


def dead_letters(*, cursor: str | None = None, limit: int = 100, everybody: bool = False) -> ClientCall[DeadLetterPage]:
    """Return a page of what could not be processed, and why."""
    query = _query(cursor=cursor, limit=limit, everybody=str(everybody).lower())
    return ClientCall("GET", "/v1/dead-letters", DeadLetterPage, query=query)


def replay_dead_letter(seq: int) -> ClientCall[PublishReceipt]:
    """Publish a bad event once more, as the schema is now; asking twice publishes it once."""
    return ClientCall("POST", f"/v1/dead-letters/{int(seq)}/replay", PublishReceipt)


# --- schema and account -----------------------------------------------------------------------------------------------


def schema() -> ClientCall[dict[str, Any]]:
    """Return the schema in force, as a document."""
    return ClientCall("GET", "/v1/schema", dict[str, Any])


def schema_history() -> ClientCall[SchemaHistory]:
    """Return all versions of the schema, oldest first: what was changed, when, and from which seq on it holds."""
    return ClientCall("GET", "/v1/schema/history", SchemaHistory)


def schema_version(version: int) -> ClientCall[dict[str, Any]]:
    """Return the schema as it was."""
    return ClientCall("GET", f"/v1/schema/versions/{int(version)}", dict[str, Any])


def schema_view(event_types: Iterable[str] = ()) -> ClientCall[dict[str, Any]]:
    """Return what events of these types look like, of all where none is named, as a JSON Schema."""
    return ClientCall("GET", "/v1/schema/view", dict[str, Any], query={"event_type": list(event_types)})


def schema_dtd(kind: str) -> ClientCall[str]:
    """Return the DTD of one of the thesis's XML requests."""
    return ClientCall("GET", f"/v1/schema/dtd/{quote(kind, safe='')}", str, raw=True)


def operators() -> ClientCall[OperatorList]:
    """Return the operators that subscriptions may call, with their signatures and help."""
    return ClientCall("GET", "/v1/operators", OperatorList)


def programs() -> ClientCall[ProgramList]:
    """Return the programs that offers may call, with their versions and signatures."""
    return ClientCall("GET", "/v1/programs", ProgramList)


def offers_for(text: str) -> ClientCall[FoundOffers]:
    """Return the live offers that a subscription matches, with what is computed for it."""
    return ClientCall("POST", "/v1/offers/query", FoundOffers, _json({"text": text}))


def offers(*, after: int = 0, limit: int = 100) -> ClientCall[HeldOfferPage]:
    """Return the live offers that the account has published, those after a seq."""
    return ClientCall("GET", "/v1/offers", HeldOfferPage, query=_query(after=after, limit=limit))


def withdraw(seq: int) -> ClientCall[None]:
    """Let no new subscription find an offer of the account's."""
    return ClientCall("DELETE", f"/v1/offers/{seq}", type(None))


def extend_schema(
    changes: list[dict[str, Any]], *, dry_run: bool = False, words: str = ""
) -> ClientCall[ExtensionResponse]:
    """Extend the schema by the four rules; `proposal` of the answer is given where that waits for an admin's yes."""
    query: dict[str, Any] = {"dry_run": str(dry_run).lower()}
    body = _json({"changes": changes, "words": words})
    return ClientCall("POST", "/v1/schema/extensions", ExtensionResponse, body, query=query, again=False)


def schema_proposals(*, limit: int = 100) -> ClientCall[ProposalList]:
    """Return extensions that wait for an admin's yes, or had it: the account's, or all for an admin."""
    return ClientCall("GET", "/v1/schema/proposals", ProposalList, query=_query(limit=limit))


def accept_proposal(number: int, *, words: str = "") -> ClientCall[ExtensionResponse]:
    """Put what a proposal asks for in force."""
    path = f"/v1/schema/proposals/{int(number)}/accept"
    return ClientCall("POST", path, ExtensionResponse, _json({"words": words}), again=False)


def refuse_proposal(number: int, *, words: str = "") -> ClientCall[None]:
    """Say no to a proposal."""
    return ClientCall(
        "POST", f"/v1/schema/proposals/{int(number)}/refuse", type(None), _json({"words": words}), again=False
    )


def account() -> ClientCall[OwnAccount]:
    """Return who the client acts for."""
    return ClientCall("GET", "/v1/account", OwnAccount)


def register(name: str, password: str) -> ClientCall[AccountView]:
    """Make an account."""
    return ClientCall("POST", "/v1/accounts", AccountView, _json({"name": name, "password": password}), again=False)


def log_in(name: str, password: str) -> ClientCall[LoginResponse]:
    """Begin a session; `Client.login` does this, and makes a token of it."""
    return ClientCall("POST", "/v1/sessions", LoginResponse, _json({"name": name, "password": password}))


def log_out() -> ClientCall[None]:
    """End the session by which this comes."""
    return ClientCall("DELETE", "/v1/sessions/current", type(None), again=False)


def sessions() -> ClientCall[SessionList]:
    """Return the browsers that are logged in to the account."""
    return ClientCall("GET", "/v1/sessions", SessionList)


def end_session(id: int) -> ClientCall[None]:
    """Log a browser out."""
    return ClientCall("DELETE", f"/v1/sessions/{int(id)}", type(None))


def tokens() -> ClientCall[TokenList]:
    """Return the account's API tokens, without their secrets, under `items`."""
    return ClientCall("GET", "/v1/tokens", TokenList)


def new_token(name: str, *, seconds: float | None = None, scopes: Iterable[str] | None = None) -> ClientCall[TokenView]:
    """Make an API token for the account; `scopes` say what it may do: read, publish, subscribe, account, admin."""
    body = {"name": name, "seconds": seconds, "scopes": None if scopes is None else list(scopes)}
    return ClientCall("POST", "/v1/tokens", TokenView, _json(body), again=False)


def revoke_token(id: int) -> ClientCall[None]:
    """Revoke an API token, and what was got by it."""
    return ClientCall("DELETE", f"/v1/tokens/{int(id)}", type(None))


def change_password(old: str, new: str, *, keep_tokens: bool = False) -> ClientCall[None]:
    """Set another password; sessions end, and tokens unless they are kept."""
    body = _json({"old": old, "new": new, "keep_tokens": keep_tokens})
    return ClientCall("PUT", "/v1/account/password", type(None), body, again=False)


def delete_own_account(password: str) -> ClientCall[None]:
    """Delete the account with all that it has."""
    return ClientCall("DELETE", "/v1/account", type(None), _json({"password": password}), again=False)


def audit(*, cursor: int | None = None, limit: int = 100, everybody: bool = False) -> ClientCall[AuditPage]:
    """Return what was done with the account, or (an admin) with all, the newest first."""
    path = "/v1/audit" if everybody else "/v1/account/audit"
    return ClientCall("GET", path, AuditPage, query=_query(cursor=cursor, limit=limit))


def costs(*, limit: int = 100, everybody: bool = False) -> ClientCall[CostList]:
    """Return what the account's subscriptions, or (an admin) all, cost within the last hour, the heaviest first."""
    return ClientCall("GET", "/v1/costs" if everybody else "/v1/account/costs", CostList, query=_query(limit=limit))


# --- administration and operations ------------------------------------------------------------------------------------


def accounts(*, cursor: str | None = None, limit: int = 100) -> ClientCall[AccountPage]:
    """Return a page of all accounts, by name."""
    return ClientCall("GET", "/v1/accounts", AccountPage, query=_query(cursor=cursor, limit=limit))


def change_account(
    name: str, *, role: str | None = None, disabled: bool | None = None, quotas: Mapping[str, int] | None = None
) -> ClientCall[AccountView]:
    """Set an account's role, its quotas, or whether it is disabled."""
    given = {"role": role, "disabled": disabled, "quotas": quotas}
    body = _json({key: value for key, value in given.items() if value is not None})
    return ClientCall("PATCH", f"/v1/accounts/{quote(name, safe='')}", AccountView, body)


def delete_account(name: str) -> ClientCall[None]:
    """Delete an account with all that it has."""
    return ClientCall("DELETE", f"/v1/accounts/{quote(name, safe='')}", type(None))


def health() -> ClientCall[dict[str, Any]]:
    """Return whether the process is alive."""
    return ClientCall("GET", "/healthz", dict[str, Any])


def readiness() -> ClientCall[dict[str, Any]]:
    """Return how it stands; raises ServiceRefused (503) where it cannot serve now."""
    return ClientCall("GET", "/readyz", dict[str, Any])


def metrics() -> ClientCall[str]:
    """Return the figures for Prometheus."""
    return ClientCall("GET", "/metrics", str, raw=True)


def openapi() -> ClientCall[dict[str, Any]]:
    """Return the OpenAPI document."""
    return ClientCall("GET", "/openapi.json", dict[str, Any])


def asyncapi() -> ClientCall[dict[str, Any]]:
    """Return the AsyncAPI document, which describes the push side."""
    return ClientCall("GET", "/asyncapi.json", dict[str, Any])


def problem(name: str) -> ClientCall[dict[str, Any]]:
    """Return what a problem's type means."""
    return ClientCall("GET", f"/problems/{quote(name, safe='')}", dict[str, Any])


def xml(document: bytes, *, idempotency_key: str | None = None) -> ClientCall[str]:
    """Send one of the thesis's XML requests; the answer is a REPLY document."""
    headers = {"content-type": "application/xml", "idempotency-key": idempotency_key or secrets.token_hex(16)}
    return ClientCall("POST", "/v1/xml", str, document, headers, raw=True)
