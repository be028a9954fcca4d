"""Attack 1 and 2: every route, asked by everybody, answers as the route-by-role table says; another's is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import Response

from tests.service.world import PASSWORD, World, play
from tocsin.service.app import create_app
from tocsin.service.routing import TABLE, check_complete, entries
from tocsin.service.settings import ServiceSettings
from tocsin.service.web.routes import RULES

ASKERS = ("anonymous", "expired", "other", "admin", "owner")  # the owner last: what it ends is needed before
EVENT = {"event_type": "car", "price": 5}

# A body with which each route that takes one does something; {id} and the like are filled in by `things_of`.
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/v1/schema/extensions"): {"changes": [{"add_attribute": {"name": "size", "domain": "money"}}]},
    ("POST", "/v1/inbox/read"): {"through": 0},
    ("POST", "/v1/events"): EVENT,
    ("POST", "/v1/subscriptions"): {"text": "car where price < 3"},
    ("POST", "/v1/subscriptions/bulk"): {"text": "car where price < 3"},
    ("PUT", "/v1/subscriptions/{id}"): {"text": "car where price < 90"},
    ("PUT", "/v1/subscriptions/{id}/delivery"): {"digest": "hour"},
    ("POST", "/v1/subscriptions/{id}/explain"): {"event": EVENT},
    ("POST", "/v1/offers/query"): {"text": "car where price < 3"},
    ("POST", "/v1/drafts/preview"): {"text": "car where price < 3"},
    ("POST", "/v1/drafts/explain"): {"text": "car where price < 3", "event": EVENT},
    ("POST", "/v1/drafts/plan"): {"text": "car where price < 3"},
    ("POST", "/v1/drafts/backfill"): {"text": "car where price < 3"},
    ("POST", "/v1/drafts/backfills"): {"text": "car where price < 3"},
    ("POST", "/v1/webhooks"): {"url": "http://127.0.0.1:9/"},
    ("POST", "/v1/webhooks/{id}/replay"): {},
    ("POST", "/v1/accounts"): {"name": "carol", "password": PASSWORD},
    ("PATCH", "/v1/accounts/{name}"): {"quotas": {"subscriptions": 10}},
    ("PUT", "/v1/account/password"): {"old": PASSWORD, "new": PASSWORD, "keep_tokens": True},
    ("POST", "/v1/sessions"): {"name": "ada", "password": PASSWORD},
    ("POST", "/v1/tokens"): {"name": "another"},
    ("DELETE", "/v1/account"): {"password": "not the password"},
    ("POST", "/v1/sites"): {"name": "Hammer & Sons"},
    ("PATCH", "/v1/sites/{name}"): {"contact": "ada@example.org"},
    ("PUT", "/v1/sites/{name}/mapping"): {"mapping": {"event_type": "car", "rules": []}},
}


def verdict(method: str, path: str, asker: str) -> set[int]:
    """Return the statuses that the table allows."""
    rule = TABLE[method, path]
    good = set(range(200, 300))
    if asker in ("anonymous", "expired"):
        if rule.needs == "anyone" or (rule.needs in ("guest", "publisher") and asker == "anonymous"):
            return good
        return {401}
    if rule.needs in ("admin", "extender") and asker != "admin":
        return {403}
    if rule.owned and asker in ("other", "admin"):  # an admin does not own it either
        return {404}
    return good


async def things_of(world: World, name: str) -> dict[str, dict[str, str]]:
    """Make one of everything that an account can own; return how to fill in the paths of routes."""
    client = world.client(name)
    subscribed = await world.subscribe(name, "car where price < 100")
    receipt = await world.publish(1, name)
    told = await world.notifications(name)
    hook = (await client.post("/v1/webhooks", json={"url": "http://127.0.0.1:9/", "start": "oldest"})).json()
    token = (await client.post("/v1/tokens", json={"name": "one"})).json()
    session = await world.service.identities.log_in(name, PASSWORD, "test")
    job = await backfill(world, name)
    site = (await client.post("/v1/sites", json={"name": f"site {token['id']}"})).json()["name"]
    await client.put(f"/v1/sites/{site}/mapping", json={"mapping": {"event_type": "car", "rules": []}})
    bad = b'{"event_type": "car", "price": "dear"}'
    ndjson = {"content-type": "application/x-ndjson"}
    (letter,) = (await client.post("/v1/events?atomic=false", content=bad, headers=ndjson)).json()["items"]
    return {
        "/v1/subscriptions": {"id": str(subscribed["id"])},
        "/v1/notifications": {"cursor": told[-1]["cursor"]},
        "/v1/webhooks": {"id": str(hook["id"])},
        "/v1/tokens": {"id": str(token["id"])},
        "/v1/sessions": {"id": str(session.principal.credential_id)},
        "/v1/drafts/backfills": {"id": str(job["id"])},
        "/v1/dead-letters": {"seq": str(letter["seq"])},
        "/v1/accounts": {"name": "bob"},
        "/v1/sites": {"name": site},
        "/v1/schema/proposals": {"number": "1"},
        "/v1/schema/versions": {"version": "1"},
        "/v1/offers/": {"seq": "1"},
        "/v1/schema/dtd": {"kind": "ADD_EVENT"},
        "/problems": {"name": "not-found"},
        "delivery": {"seq": str(receipt["seq"]), "subscription": str(subscribed["id"])},
    }


async def backfill(world: World, name: str) -> dict[str, Any]:
    """Start a backfill, and return it when it is done."""
    client = world.client(name)
    id = (await client.post("/v1/drafts/backfills", json={"text": "car where price < 100"})).json()["id"]
    await world.service.backfills.settle()
    job: dict[str, Any] = (await client.get(f"/v1/drafts/backfills/{id}")).json()
    return job


async def ask(world: World, things: dict[str, dict[str, str]], method: str, path: str, asker: str) -> httpx.Response:
    """Let somebody ask for something of ada's."""
    filled = path
    for prefix, parts in things.items():
        if path.startswith(prefix):
            filled = path.format(**parts)
    if (method, path) == ("DELETE", "/v1/accounts/{name}"):
        filled = "/v1/accounts/zed"  # who is there for that
    body = BODIES.get((method, path))
    if path.endswith(("/deliveries/retry", "/deliveries/skip")):
        body = {name: int(value) for name, value in things["delivery"].items()}
    if path.endswith("/acknowledge"):
        body = things["/v1/notifications"]
    client = world.client({"other": "bob", "owner": "ada", "admin": "admin"}.get(asker, ""))
    headers = {"authorization": "Bearer toc_" + "x" * 43} if asker == "expired" else {}
    if path == "/v1/subscriptions/bulk":
        headers["content-type"] = "application/x-ndjson"
    client.cookies.clear()
    if path == "/v1/xml":
        headers["content-type"] = "application/xml"
        document = '<PUBLISH_EVENT><EVENT_TYPES><EVENT_TYPE type="car"/></EVENT_TYPES></PUBLISH_EVENT>'
        return await client.request(method, filled, content=document, headers=headers)
    return await client.request(method, filled, json=body, headers=headers)


def test_every_route_answers_everybody_as_the_table_says(tmp_path: Path) -> None:
    odd: dict[tuple[str, str], set[int]] = {
        ("POST", "/v1/accounts"): {409},  # made by the asker before
        ("DELETE", "/v1/sessions/current"): {400},  # with a token: there is no session to end
        ("POST", "/v1/xml"): {422},  # let in, and then wrong by the DTD
        ("POST", "/v1/dead-letters/{seq}/replay"): {422},  # found, and still a bad event
        ("PUT", "/v1/account/password"): {403},  # the first admin has no password to change
        ("DELETE", "/v1/account"): {403},  # not with that password
        ("POST", "/v1/notifications/acknowledge"): {400},  # the cursor is ada's
        ("DELETE", "/v1/offers/{seq}"): {404},
        ("POST", "/v1/sites"): {409},  # made by the asker before
        ("POST", "/v1/schema/proposals/{number}/accept"): {404},  # there is none
        ("POST", "/v1/schema/proposals/{number}/refuse"): {404},
    }

    async def scenario(world: World) -> None:
        await world.service.courier.close()
        asked = [pair for pair in sorted(TABLE) if pair[0] != "WS" and not pair[1].endswith("/stream")]
        things = await things_of(world, "ada")
        await world.service.identities.register("zed", PASSWORD, "test")
        for method, path in asked:
            if TABLE[method, path].owned:  # another route may have ended it
                things = await things_of(world, "ada")
            world.service.courier.due.make_out(None)
            for asker in ASKERS:
                answer = await ask(world, things, method, path, asker)
                also = odd.get((method, path), set()) if asker == "owner" or not TABLE[method, path].owned else set()
                allowed = verdict(method, path, asker) | also
                assert answer.status_code in allowed, (method, path, asker, answer.status_code, answer.text)
                if answer.status_code >= 400 and answer.status_code not in also:
                    assert answer.headers["content-type"] == "application/problem+json"
                    assert answer.json()["status"] == answer.status_code

    play(
        tmp_path, scenario, guests="publish", webhook_private=True, webhooks_per_account=1000, tokens_per_account=1000,
        registrations_per_hour=1000,
    )  # fmt: skip


def test_table_has_every_route_and_nothing_else() -> None:
    app = create_app(ServiceSettings())
    assert entries(app.routes) == set(TABLE) | set(RULES)
    assert not set(TABLE) & set(RULES)


def test_route_that_is_not_in_the_table_cannot_be_served() -> None:
    app = create_app(ServiceSettings())
    app.add_route("/v1/forgotten", lambda _: Response(), methods=["POST"])
    with pytest.raises(LookupError, match="/v1/forgotten"):
        check_complete(app.routes, RULES)


def test_another_accounts_thing_looks_the_same_as_none(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        things = await things_of(world, "ada")
        id = things["/v1/subscriptions"]["id"]
        absent = await world.client("bob").get("/v1/subscriptions/999999")
        others = await world.client("bob").get(f"/v1/subscriptions/{id}")
        assert absent.status_code == others.status_code == 404
        shown = [{**one.json(), "instance": "", "detail": ""} for one in (absent, others)]
        assert shown[0] == shown[1]
        assert others.json()["detail"] == f"there is no subscription {id}"
        cursor = things["/v1/notifications"]["cursor"]
        why = await world.client("bob").get(f"/v1/notifications/{cursor}/why")
        assert why.status_code == 404
        page = await world.client("bob").get("/v1/notifications", params={"cursor": cursor})
        assert page.status_code == 400  # a cursor is its owner's
        await world.client("ada").post(
            "/v1/events?atomic=false", content='{"event_type": "car"}', headers={"content-type": "application/x-ndjson"}
        )
        assert len((await world.client("ada").get("/v1/dead-letters")).json()["items"]) == 2
        assert (await world.client("bob").get("/v1/dead-letters")).json()["items"] == []
        assert (await world.client("bob").get("/v1/dead-letters?everybody=true")).status_code == 403

    play(tmp_path, scenario, webhook_private=True)


@pytest.mark.parametrize("guests", ["none", "read"])
def test_guests_do_what_the_operator_allows(guests: str, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        guest = world.client()
        assert (await guest.get("/v1/schema")).status_code == (200 if guests == "read" else 401)
        assert (await guest.post("/v1/events", json=EVENT)).status_code == 401

    play(tmp_path, scenario, guests=guests)
