"""Credentials as a graph: what a token gets ends with it; sessions, scopes, the audit trail, and who leads back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from tests.databases import place, postgres
from tests.service.world import PASSWORD, World, play
from tocsin.cli import app as commands
from tocsin.documents.accounts import SCOPES
from tocsin.service import account_upkeep
from tocsin.service.routing import TABLE, scope_of
from tocsin.store import accounts

__all__ = ["place", "postgres"]  # the databases that these tests run on
ANOTHER = "another good password"


async def log_in(world: World, name: str, password: str) -> tuple[httpx.AsyncClient, dict[str, str]]:
    """Return a browser that has logged in, and the headers that it sends."""
    browser = httpx.AsyncClient(transport=httpx.ASGITransport(world.app), base_url="http://test")
    answer = await browser.post("/v1/sessions", json={"name": name, "password": password})
    assert answer.status_code == 201, answer.text
    return browser, {"x-csrf-token": answer.json()["csrf_token"]}


async def new_token(client: httpx.AsyncClient, headers: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    answer = await client.post("/v1/tokens", json={"name": "one", **more}, headers=headers or {})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def status(world: World, token: str, path: str = "/v1/account") -> int:
    return (await world.client().get(path, headers={"authorization": f"Bearer {token}"})).status_code


def test_what_a_token_buys_lives_no_longer_than_the_token(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        brief = await new_token(world.client("ada"), seconds=120)
        browser, headers = await log_in(world, "ada", brief["token"])
        bought = await new_token(browser, headers)
        assert (bought["expires"], bought["parent"]) == (brief["expires"], brief["id"])
        (session,) = [
            one for one in (await browser.get("/v1/sessions")).json()["items"] if one["parent"] == brief["id"]
        ]
        assert session["expires"] == brief["expires"]
        again = await new_token(world.client("ada"), seconds=10**6)
        assert again["expires"] > brief["expires"]  # by a token without end

    play(tmp_path, scenario)


def test_revoking_a_token_ends_the_sessions_and_tokens_that_were_got_by_it(place: str) -> None:
    async def scenario(world: World) -> None:
        stolen = await new_token(world.client("ada"))
        browser, headers = await log_in(world, "ada", stolen["token"])
        by_session = await new_token(browser, headers)
        by_token = await new_token(world.client(), {"authorization": f"Bearer {by_session['token']}"})
        assert [await status(world, one["token"]) for one in (stolen, by_session, by_token)] == [200] * 3
        assert (await world.client("ada").delete(f"/v1/tokens/{stolen['id']}")).status_code == 204
        assert [await status(world, one["token"]) for one in (stolen, by_session, by_token)] == [401] * 3
        assert (await browser.get("/v1/account")).status_code == 401
        assert await status(world, world.tokens["ada"]) == 200
        assert (await world.client("ada").get("/v1/tokens")).json()["items"][0]["last_used"] is not None

    play(place, scenario)


@pytest.mark.parametrize("keep", [False, True])
def test_password_change_ends_sessions_and_unless_they_are_kept_tokens(tmp_path: Path, keep: bool) -> None:
    async def scenario(world: World) -> None:
        browser, headers = await log_in(world, "ada", PASSWORD)
        body = {"old": PASSWORD, "new": ANOTHER, "keep_tokens": keep}
        assert (await browser.put("/v1/account/password", json=body, headers=headers)).status_code == 204
        assert (await browser.get("/v1/account")).status_code == 401
        assert await status(world, world.tokens["ada"]) == (200 if keep else 401)
        assert await status(world, world.tokens["bob"]) == 200
        await log_in(world, "ada", ANOTHER)

    play(tmp_path, scenario)


def test_sessions_are_listed_and_ended_and_tokens_outlive_the_session_that_made_them(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        lost, lost_headers = await log_in(world, "ada", PASSWORD)
        made = await new_token(lost, lost_headers)
        assert made["parent"] is None
        mine, headers = await log_in(world, "ada", PASSWORD)
        listed = (await mine.get("/v1/sessions")).json()["items"]
        (current,) = [one for one in listed if one["current"]]
        others = [one["id"] for one in listed if not one["current"]]
        for id in others:
            assert (await mine.delete(f"/v1/sessions/{id}", headers=headers)).status_code == 204
        assert (await lost.get("/v1/account")).status_code == 401
        assert [one["id"] for one in (await mine.get("/v1/sessions")).json()["items"]] == [current["id"]]
        assert await status(world, made["token"]) == 200
        theirs = await world.client("bob").delete(f"/v1/sessions/{current['id']}")
        assert theirs.status_code == 404

    play(tmp_path, scenario)


def test_token_does_what_its_scopes_say_and_makes_none_that_may_do_more(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        admin = world.client("admin")
        made = {scope: await new_token(admin, scopes=[scope]) for scope in SCOPES}
        for method, path in sorted(TABLE):
            rule = TABLE[method, path]
            if rule.needs == "anyone" or method == "WS" or path.endswith("/stream"):
                continue
            for scope in SCOPES:
                if scope == scope_of(method, path):
                    continue
                headers = {"authorization": f"Bearer {made[scope]['token']}"}
                answer = await world.client().request(method, path.replace("{id}", "1"), headers=headers)
                assert answer.status_code == 403, (method, path, scope, answer.text)
        reading = made["read"]["token"]
        assert await status(world, reading) == 200
        assert await status(world, reading, "/v1/accounts") == 403  # though its account is an admin
        child = await new_token(
            world.client(), {"authorization": f"Bearer {made['account']['token']}"}, scopes=["admin", "account"]
        )
        assert child["scopes"] == ["account"]
        refused = await world.client().post("/v1/sessions", json={"name": "admin", "password": reading})
        assert refused.status_code == 403
        page = await world.client().get("/subscriptions", headers={"authorization": f"Bearer {reading}"})
        assert page.status_code == 303  # to the login: pages are for sessions

    play(tmp_path, scenario, guests="none", tokens_per_account=100)


def test_only_admin_cannot_be_made_a_member_disabled_or_deleted(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        admin = world.client("admin")
        for change in ({"role": "member"}, {"disabled": True}):
            answer = await admin.patch("/v1/accounts/admin", json=change)
            assert (answer.status_code, "only admin" in answer.text) == (409, True)
        assert (await admin.delete("/v1/accounts/admin")).status_code == 409
        assert (await admin.patch("/v1/accounts/ada", json={"role": "admin"})).status_code == 200
        assert (await admin.patch("/v1/accounts/admin", json={"role": "member"})).status_code == 200
        assert (await world.client("ada").patch("/v1/accounts/ada", json={"role": "member"})).status_code == 409

    play(tmp_path, scenario)


def test_operator_resets_a_password_and_makes_an_admin_on_the_machine(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        before = world.tokens["bob"]
        password = account_upkeep.reset_password(world.broker.store, "bob")
        world.service.identities.forget()
        assert await status(world, before) == 401
        browser, _ = await log_in(world, "bob", password)
        assert (await browser.get("/v1/accounts")).status_code == 403
        assert not account_upkeep.make_admin(world.broker.store, "bob")
        world.service.identities.forget()
        assert (await browser.get("/v1/accounts")).status_code == 200
        trail = (await browser.get("/v1/audit")).json()["items"]
        assert ("(operator)", "password.reset") in [(one["who"], one["action"]) for one in trail]

    play(tmp_path, scenario)
    store = str(tmp_path / "store.db")
    run = CliRunner()
    assert run.invoke(commands.app, ["admin", "list", store]).stdout.split() == ["admin", "bob"]
    assert "reset-password" in run.invoke(commands.app, ["admin", "make-admin", store, "root"]).stdout
    assert len(run.invoke(commands.app, ["admin", "reset-password", store, "root"]).stdout.strip()) >= 20
    assert "password.reset" in run.invoke(commands.app, ["admin", "audit", store, "--account", "root"]).stdout


def test_audit_trail_says_who_did_what(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        made = await new_token(world.client("ada"))
        await world.client("ada").delete(f"/v1/tokens/{made['id']}")
        await world.client("ada").post("/v1/webhooks", json={"url": "http://127.0.0.1:9/"})
        await world.client("admin").patch("/v1/accounts/ada", json={"quotas": {"subscriptions": 5}})
        listed = (await world.client("ada").get("/v1/account/audit")).json()["items"]
        said = [(one["who"], one["action"]) for one in listed]
        assert said[:4] == [
            ("admin", "account.changed"), ("ada", "webhook.added"), ("ada", "token.ended"), ("ada", "token.made"),
        ]  # fmt: skip
        assert ("ada", "account.registered") in said
        everything = (await world.client("admin").get("/v1/audit")).json()["items"]
        assert {one["who"] for one in everything} >= {"ada", "bob", "admin"}
        assert {one["who"] for one in listed} == {"ada", "admin"}
        page = (await world.client("ada").get("/v1/account/audit", params={"limit": 1})).json()
        following = await world.client("ada").get("/v1/account/audit", params={"limit": 1, "cursor": page["cursor"]})
        assert following.json()["items"] == listed[1:2]
        assert made["token"] not in str(everything)

    play(tmp_path, scenario, webhook_private=True)


def test_account_is_deleted_with_what_is_its_own_and_its_name_is_free(place: str) -> None:
    async def scenario(world: World) -> None:
        ada = world.client("ada")
        subscribed = await world.subscribe("ada")
        paused = await world.subscribe("ada")
        await ada.post(f"/v1/subscriptions/{paused['id']}/pause")
        kept = await world.subscribe("bob")
        hook = await ada.post("/v1/webhooks", json={"url": "http://127.0.0.1:9/", "start": "oldest"})
        assert hook.status_code == 201
        await ada.put(f"/v1/subscriptions/{subscribed['id']}/delivery", json={"digest": "day"})
        bad = {"content-type": "application/x-ndjson"}
        await ada.post("/v1/events?atomic=false", content=b'{"event_type": "car", "price": "x"}', headers=bad)
        await world.publish(1, "ada")
        number = (await numbers(world))["ada"]
        wrong = await ada.request("DELETE", "/v1/account", json={"password": "wrong"})
        assert wrong.status_code == 403
        assert (await ada.request("DELETE", "/v1/account", json={"password": PASSWORD})).status_code == 204
        assert await status(world, world.tokens["ada"]) == 401
        receipt = await world.publish(2, "bob")
        assert [one["subscription"] for one in await world.notifications("bob")] == [kept["id"]] * 2
        assert receipt["seq"]
        with world.broker.store.read() as connection:
            assert accounts.read_account(connection, "ada") is None
            gone = accounts.read_account_of(connection, number)
            assert gone is not None
            assert (gone.name, gone.password_hash) == (f"~{number}", None)
            assert accounts.list_credentials(connection, number, "token") == []
        assert world.broker.subscriptions(f"~{number}") == []
        assert world.broker.dead_letters(publisher="ada") == []
        again = await world.client().post("/v1/accounts", json={"name": "ada", "password": PASSWORD})
        assert again.status_code == 201
        browser, _ = await log_in(world, "ada", PASSWORD)
        assert (await browser.get("/v1/notifications?start=oldest")).json()["items"] == []
        assert (await browser.get("/v1/webhooks")).json()["items"] == []
        assert (await world.client("admin").delete("/v1/accounts/bob")).status_code == 204
        assert (await world.client("admin").delete("/v1/accounts/bob")).status_code == 404

    play(place, scenario, webhook_private=True)


async def numbers(world: World) -> dict[str, int]:
    def look() -> dict[str, int]:
        with world.broker.store.read() as connection:
            return {one.name: one.number for one in accounts.list_accounts(connection)}

    return await asyncio.to_thread(look)


def test_cursor_is_good_for_its_owner_only_and_cannot_be_made_up(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        for name in ("ada", "bob"):
            await world.subscribe(name)
        await world.publish(1)
        theirs = (await world.notifications("bob"))[0]["cursor"]
        ada, bob = world.client("ada"), world.client("bob")
        for cursor in (theirs, theirs[:-1] + ("A" if theirs[-1] != "A" else "B")):
            assert (await ada.get("/v1/notifications", params={"cursor": cursor})).status_code == 400
            assert (await ada.post("/v1/notifications/acknowledge", json={"cursor": cursor})).status_code == 400
            assert (await ada.get(f"/v1/notifications/{cursor}/why")).status_code == 404
            assert (await ada.get("/v1/notifications/stream", params={"cursor": cursor})).status_code == 400
        assert (await bob.get("/v1/notifications", params={"cursor": theirs})).status_code == 200
        assert (await bob.get(f"/v1/notifications/{theirs}/why")).status_code == 200

    play(tmp_path, scenario)
