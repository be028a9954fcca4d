"""The client has every route of the service, and the service takes every request of the client as it is made."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.live import serving
from tests.service.world import PASSWORD
from tocsin.client import AsyncClient, Client, calls
from tocsin.client.calls import ClientCall
from tocsin.client.transport import ServiceRefused
from tocsin.service.app import create_app
from tocsin.service.routing import TABLE
from tocsin.service.settings import ServiceSettings

CAR: dict[str, Any] = {"event_type": "car", "price": 5}
# What each request is made with here; those that are not listed need nothing.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("publish", "matches_of"), (CAR,)),
    **dict.fromkeys(("subscribe", "preview", "plan", "backfill", "start_backfill", "offers_for"), ("car where price < 9",)),
    **dict.fromkeys(
        ("subscription", "renew", "unsubscribe", "pause", "resume", "delivery", "set_delivery", "plan_of", "backfill_job",
         "webhook", "remove_webhook", "enable_webhook", "rotate_webhook", "replay_webhook", "deliveries",
         "replay_dead_letter", "schema_version", "end_session", "revoke_token", "withdraw"), (10**9,),
    ),
    **dict.fromkeys(("retry_delivery", "skip_delivery"), (10**9, 1, 1)),
    "publish_all": ([CAR],),
    "publish_messages": ([("1", b'{"event_type": "car", "price": 5}')],),
    "subscribe_all": (["car where price < 9"],),
    "replace": (10**9, "car where price < 9"),
    "explain": ("car where price < 9", CAR),
    "explain_event": (10**9, CAR),
    **dict.fromkeys(("site", "change_site", "end_site", "site_mapping", "site_mappings"), ("nobody & none",)),
    "add_site": ("Hammer & Sons",),
    "set_site_mapping": ("nobody & none", {"rules": []}),
    **dict.fromkeys(("accept_proposal", "refuse_proposal"), (10**9,)),
    "mark_inbox_read": (1,),
    "acknowledge": ("no cursor",),
    "why": ("no cursor",),
    "add_webhook": ("http://127.0.0.1:9/",),
    "extend_schema": ([{"add_domain": {"name": "price", "kind": "numeric"}}],),
    "schema_dtd": ("ADD_EVENT",),
    "register": ("cyd", PASSWORD),
    "log_in": ("ada", PASSWORD),
    "new_token": ("another",),
    "change_password": ("wrong", "a new password of some length"),
    "delete_own_account": ("wrong",),
    "change_account": ("nobody",),
    "delete_account": ("nobody",),
    "problem": ("not-found",),
    "xml": (b"<PUBLISH_EVENT/>",),
}  # fmt: skip
# Not by a request of client/calls.py: a stream is listened to, and the rest is for browsers.
OTHERWISE = {
    ("GET", "/v1/notifications/stream"): "Client.listen",
    ("WS", "/v1/notifications/live"): "for pages; Client.listen has the same",
    ("GET", "/docs"): "a page",
}


def requests() -> dict[str, ClientCall[Any]]:
    """Return every request, made once."""
    made: dict[str, Callable[..., ClientCall[Any]]] = {
        name: found
        for name, found in inspect.getmembers(calls, inspect.isfunction)
        if found.__module__ == calls.__name__ and not name.startswith("_")
    }
    found = {name: build(*ARGUMENTS.get(name, ())) for name, build in made.items()}
    found["audit of all"] = calls.audit(everybody=True)
    found["costs of all"] = calls.costs(everybody=True)
    return found


def route_of(call: ClientCall[Any]) -> tuple[str, str]:
    """Return the route that takes a request: the one with the fewest variables."""
    fits = [
        path
        for method, path in TABLE
        if method == call.method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), call.path)
    ]
    return call.method, min(fits, key=lambda path: path.count("{"))


def test_the_client_has_every_route_of_the_service() -> None:
    covered = {route_of(call) for call in requests().values()} | set(OTHERWISE)
    assert sorted(set(TABLE) - covered) == []
    assert covered <= set(TABLE)


def test_both_clients_have_every_request() -> None:
    names = {name for name in requests() if not name.endswith(" of all")}
    for client in (Client, AsyncClient):
        assert {name for name in names if not callable(getattr(client, name, None))} == set()


def test_what_requests_are_asked_with_is_what_the_routes_describe(tmp_path: Path) -> None:
    described = create_app(ServiceSettings(store=str(tmp_path / "x.db"))).document["paths"]
    for name, call in requests().items():
        method, path = route_of(call)
        if path not in described:
            continue
        known = {one["name"] for one in described[path][method.lower()].get("parameters", ()) if one["in"] == "query"}
        assert set(call.query) <= known, name


def test_the_service_takes_every_request_as_it_is_made(tmp_path: Path) -> None:
    # Answers of these kinds mean that it was understood: done, refused for the person, not there, or no longer possible.
    understood = {200, 201, 202, 204, 401, 403, 404, 409, 410}
    asked_for_nonsense = {"acknowledge", "why", "xml"}  # a cursor, and a document, that are none
    with serving(tmp_path) as live, Client(live.url, live.tokens["ada"]) as client:
        refused = {name: refusal(client, call) for name, call in requests().items() if name != "log_out"}
        for name, error in refused.items():
            assert error is None or error.status in understood or name in asked_for_nonsense, (name, error)


def refusal(client: Client, call: ClientCall[Any]) -> ServiceRefused | None:
    """Return why a request is refused, if it is."""
    try:
        client.do(call)
    except ServiceRefused as error:
        return error
    return None


def test_a_new_user_registers_logs_in_and_gets_a_token(tmp_path: Path) -> None:
    with serving(tmp_path) as live, Client(live.url) as client:
        client.register("cyd", PASSWORD)
        token = client.login("cyd", PASSWORD)
        assert client.account().name == "cyd"
        subscribed = client.subscribe("car where price < 100")
        with Client(live.url, token) as later:
            assert [one.id for one in later.subscriptions().items] == [subscribed.id]
            assert client.sessions().items == []
        with pytest.raises(ServiceRefused):
            client.login("cyd", "wrong")


def test_many_events_are_published_in_batches_and_a_service_that_is_busy_is_waited_for(tmp_path: Path) -> None:
    with serving(tmp_path) as live, Client(live.url, live.tokens["ada"]) as client:
        events = ({"event_type": "car", "price": price} for price in range(2500))
        batches = list(client.publish_many(events))
        assert [one.accepted for one in batches] == [1000, 1000, 500]

        async def scenario() -> list[int]:
            async with AsyncClient(live.url) as other:
                await other.login("bob", PASSWORD)
                return [one.accepted async for one in other.publish_many([CAR] * 3, size=2)]

        assert asyncio.run(scenario()) == [2, 1]


def test_batches_are_sent_again_under_the_same_key(tmp_path: Path) -> None:
    answers, keys = iter([429, 201, 201]), []

    def handle(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["idempotency-key"])
        status = next(answers)
        body = {"accepted": 1, "rejected": 0} if status == 201 else {"title": "busy", "status": status}
        return httpx.Response(status, json=body, headers={"retry-after": "0"})

    with Client("http://x", "t", transport=httpx.MockTransport(handle)) as client:
        assert len(list(client.publish_many([CAR, CAR], size=1))) == 2
    assert keys[0] == keys[1] != keys[2]


def test_verbs_of_a_subscription_and_a_backfill(tmp_path: Path) -> None:
    with serving(tmp_path) as live, Client(live.url, live.tokens["ada"]) as client:
        client.publish(CAR)
        first, second = client.subscribe_all(["car where price < 9", "car where price < 3"]).items
        assert client.pause(first.id).id == first.id
        assert client.subscription(first.id).paused
        client.resume(first.id)
        client.replace(first.id, "car where price > 1")
        assert client.subscription(first.id).text == "car where price > 1"
        assert client.set_delivery(second.id, digest="day").digest == "day"
        assert [one.event["price"] for one in client.backfill("car where price < 9").items] == [5]
        job = client.start_backfill("car where price < 9")
        assert client.backfill_job(job.id).id == job.id
        assert client.tokens().items[0].name == "test"
        assert client.webhooks().items == []
        assert "tocsin_events_published" in client.metrics()
