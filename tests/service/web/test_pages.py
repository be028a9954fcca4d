"""Pages as plain HTTP: what a browser without JavaScript sees and sends."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.service.world import PASSWORD, World, play
from tocsin.service.web.routes import RULES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MEMBERS = sorted(path for (method, path), rule in RULES.items() if method == "GET" and rule.needs == "member")


@asynccontextmanager
async def browser(world: World, name: str = "", password: str = PASSWORD) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client that keeps cookies and follows redirects; logged in where there is a name."""
    transport = httpx.ASGITransport(world.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test", follow_redirects=True) as client:
        if name:
            answer = await client.post("/login", data={"name": name, "password": password, "next": "/"})
            assert answer.status_code == 200, answer.text
        yield client


async def token(client: httpx.AsyncClient, path: str = "/account") -> str:
    """Return the CSRF token that a page's forms carry."""
    found = re.search(r'name="csrf" value="([^"]+)"', (await client.get(path)).text)
    assert found is not None
    return found.group(1)


async def send(client: httpx.AsyncClient, path: str, **fields: Any) -> httpx.Response:
    """Send a form of a session."""
    return await client.post(path, data={"csrf": await token(client), **fields})


def test_a_guest_registers_subscribes_publishes_and_reads_why_without_javascript(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with browser(world) as client:
            front = await client.get("/")
            assert 'href="/register"' in front.text
            fields = {"name": "eve", "password": PASSWORD, "again": PASSWORD}
            assert "You are registered" in (await client.post("/register", data=fields)).text
            types = await client.get("/subscribe")
            assert 'value="car"' in types.text
            form = await client.get("/subscribe", params={"type": "car"})
            assert 'name="attribute"' in form.text
            rows = {"type": "car", "attribute": ["price"], "op": ["<"], "value": ["100"], "text": "", "action": "rows"}
            assert "car where price &lt; 100" in (await send(client, "/subscribe", **rows)).text
            made = await send(client, "/subscribe", text="car where price < 100", action="subscribe", lease="3600")
            assert "The subscription is in force" in made.text
            published = await send(client, "/publish", type="car", **{"value.price": "50"})
            assert "The event was published" in published.text
            matches = await client.get("/inbox")
            why = re.search(r'href="(/inbox/[^"?]+)"', matches.text)
            assert why is not None
            told = unescape((await client.get(why.group(1))).text)
            assert "price < 100" in told
            assert "price is 50" in told

    play(tmp_path, scenario)


def test_errors_stand_at_the_field_and_nothing_typed_is_lost(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with browser(world, "ada") as client:
            answer = await send(client, "/publish", type="car", **{"value.price": "cheap"})
            assert answer.status_code == 422
            assert 'value="cheap"' in answer.text
            assert 'aria-invalid="true"' in answer.text
            draft = await send(client, "/subscribe", text="car where prise < 100", action="subscribe")
            assert draft.status_code == 422
            assert "<mark>prise</mark>" in draft.text
            assert "did you mean price?" in draft.text
        async with browser(world) as client:
            short = await client.post("/register", data={"name": "x y", "password": "short", "again": "short"})
            assert short.status_code == 422
            assert "10 to 200 characters" in short.text
            wrong = await client.post("/login", data={"name": "ada", "password": "not the password"})
            assert wrong.status_code == 401
            assert "not right" in wrong.text

    play(tmp_path, scenario)


def test_what_events_carry_is_inert_on_every_page(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        attack = "<script>alert(1)</script>"
        made = await world.subscribe("ada", "car where price < 100")
        await world.publish(50, brand=attack)
        async with browser(world, "ada") as client:
            for path in ("/", "/inbox", f"/subscriptions/{made['id']}"):
                page = await client.get(path)
                assert page.status_code == 200, (path, page.text)
                assert "<script>alert" not in page.text
                policy = page.headers["content-security-policy"]
                assert "script-src 'self'" in policy
                assert "unsafe" not in policy

    play(tmp_path, scenario)


@pytest.mark.parametrize("path", [path for path in MEMBERS if "{" not in path])
def test_pages_for_members_lead_guests_to_the_login_and_back(path: str, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with browser(world) as client:
            answer = await client.get(path, follow_redirects=False)
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/login?next=%2F")
        async with browser(world, "ada") as client:
            assert (await client.get(path)).status_code in (200, 204)

    play(tmp_path, scenario)


def test_another_members_things_are_not_there_and_admin_pages_are_for_admins(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        made = await world.subscribe("ada")
        await world.publish(50)
        (match,) = await world.notifications("ada")
        async with browser(world, "bob") as client:
            assert (await client.get(f"/subscriptions/{made['id']}")).status_code == 404
            assert (await client.get(f"/inbox/{match['cursor']}")).status_code == 404
            assert (await send(client, f"/subscriptions/{made['id']}/end")).status_code == 404
            assert (await client.get("/accounts")).status_code == 403
            assert (await send(client, "/schema/extend", rule="add attribute", name="x", domain="y")).status_code == 403

    play(tmp_path, scenario)


def test_forms_of_other_sites_and_without_the_token_are_refused(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with browser(world, "ada") as client:
            fields = {"text": "car where price < 1", "action": "subscribe"}
            assert (await client.post("/subscribe", data=fields)).status_code == 403
            headers = {"origin": "https://evil.example"}
            right = {"csrf": await token(client), **fields}
            assert (await client.post("/subscribe", data=right, headers=headers)).status_code == 403
        async with browser(world) as client:
            elsewhere = {"name": "ada", "password": PASSWORD, "next": "//evil.example/"}
            answer = await client.post("/login", data=elsewhere, follow_redirects=False)
            assert answer.headers["location"] == "/"

    play(tmp_path, scenario)


def test_a_publisher_proposes_on_the_pages_and_an_admin_answers_there(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with browser(world, "admin", world.tokens["admin"]) as admin:
            await send(admin, "/accounts/ada/change", role="publisher")
            world.service.identities.forget()
            async with browser(world, "ada") as ada:
                assert "Extend it" in (await ada.get("/schema")).text
                proposed = await send(ada, "/schema/extend", rule="add attribute", name="<b>shade", domain="name")
                assert "It waits for an admin" in proposed.text
                assert "&lt;b&gt;shade" in proposed.text or "\\u003cb\\u003eshade" in proposed.text
                assert "<b>shade" not in proposed.text
                await send(ada, "/schema/extend", rule="add attribute", name="shade", domain="name")
                assert (await send(ada, "/schema/proposals/1", answer="yes")).status_code == 403
            await send(admin, "/schema/proposals/1", answer="no", words="no such names")
            answered = await send(admin, "/schema/proposals/2", answer="yes")
            assert "Accepted by admin, in version 2" in answered.text
            assert "Refused by admin: no such names" in answered.text
            assert (await send(admin, "/schema/proposals/2", answer="yes")).status_code == 404
        assert list(world.broker.schema.attributes)[-1] == "shade"

    play(tmp_path, scenario, schema_additions="after-yes")


def test_an_admin_extends_the_schema_with_the_rules_explained(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with browser(world, "admin", world.tokens["admin"]) as client:
            kept = await send(
                client, "/schema/extend", rule="add domain", name="grade", kind="enumerated", values="a\nb"
            )
            assert "The schema was extended" in kept.text
            await send(client, "/schema/extend", rule="add attribute", name="grade", domain="grade")
            dry = {"rule": "extend event type", "event_type": "car", "attribute": "grade", "dry_run": "1"}
            assert "All stay valid" in (await send(client, "/schema/extend", **dry)).text
            again = await send(client, "/schema/extend", rule="add attribute", name="grade", domain="grade")
            assert again.status_code == 422
            assert "grade" in again.text
            await send(client, "/schema/extend", rule="add values", domain="grade", values="c\n d ", below="")
            await send(client, "/schema/extend", rule="add alias", alias="mark", means="grade", domain="")
            await send(client, "/schema/extend", rule="add alias", alias="A", means="a", domain="grade")
            refused = await send(client, "/schema/extend", rule="add values", domain="grade", values="c", below="")
            assert refused.status_code == 422
        schema = world.broker.schema
        assert schema.domains["grade"].admit("A") == "a"
        assert schema.domains["grade"].admit("d") == "d"
        assert schema.aliases == {"mark": "grade"}
        assert world.broker.schema_history()[-1].change == "admin: grade: A means a"

    play(tmp_path, scenario)


def test_a_subscription_is_edited_paused_and_resumed_under_its_number(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        id = (await world.subscribe("ada", "car where price < 100"))["id"]
        async with browser(world, "ada") as client:
            edited = await send(
                client, "/subscribe", text="car where price > 100", action="subscribe", replaces=str(id)
            )
            assert "asks for the new thing" in edited.text
            await world.publish(50)
            await send(client, f"/subscriptions/{id}/pause")
            await world.publish(150)
            assert await world.notifications("ada") == []
            assert "Resume" in (await client.get(f"/subscriptions/{id}")).text
            await send(client, f"/subscriptions/{id}/resume")
            await world.publish(160)
        (told,) = await world.notifications("ada")
        assert told["event"]["price"] == 160

    play(tmp_path, scenario)


def test_trying_needs_no_account_and_is_bounded(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with browser(world) as client:
            pasted = {"subscriptions": "price < 10\nprise < 5", "events": '{"price": 7}\n{"price": 70}'}
            page = unescape((await client.post("/try", data=pasted)).text)
            assert "✓ matches" in page
            assert "subscription 2" in page
            assert "did you mean price?" in page
            flood = {"subscriptions": "price < 1\n" * 51, "events": '{"price": 1}'}
            assert "at most 50 lines" in (await client.post("/try", data=flood)).text

    play(tmp_path, scenario)


def test_tokens_are_shown_once_and_can_be_revoked(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with browser(world, "ada") as client:
            made = await send(client, "/account/tokens", name="laptop", days="7")
            secret = re.search(r"toc_[\w-]+", made.text)
            assert secret is not None
            assert secret.group() not in (await client.get("/account")).text
            id = max(map(int, re.findall(r"/account/tokens/(\d+)/revoke", made.text)))
            assert "was revoked" in (await send(client, f"/account/tokens/{id}/revoke", sure="yes")).text
            bearer = {"authorization": f"Bearer {secret.group()}"}
            assert (await world.client().get("/v1/account", headers=bearer)).status_code == 401

    play(tmp_path, scenario)


def test_a_dead_letter_is_mended_and_published_again(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.client("ada").post("/v1/events?atomic=false", json={"event_type": "car", "price": "much"})
        async with browser(world, "ada") as client:
            body = '{"event_type": "car", "price": 5}'
            assert "was published" in (await send(client, "/dead-letters/replay", body=body)).text

    play(tmp_path, scenario)


def test_a_draft_is_compared_with_what_its_author_has(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        wide = (await world.subscribe("ada", "car where price < 100"))["id"]
        await world.subscribe("bob", "car where price < 1000")
        async with browser(world, "ada") as client:

            async def preview(text: str) -> str:
                return unescape((await client.get("/subscribe", params={"text": text})).text)

            narrow = await preview("car where price < 50 and brand = 'mini'")
            assert "covered by another of yours" in narrow
            assert f'href="/subscriptions/{wide}"' in narrow
            assert "matches everything that" in await preview("car where price < 500")
            neither = await preview("car where price > 10")
            assert "covered by" not in neither
            assert "matches everything" not in neither
            assert "can never hold" in await preview("car where price < 5 and price > 10")
            assert "always holds" in await preview("car where price is present or price is absent")
            edited = await client.get("/subscribe", params={"text": "car where price < 50", "replaces": str(wide)})
            assert "covered by" not in edited.text

    play(tmp_path, scenario)


def test_the_page_proposes_an_event_that_fits_a_subscription(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with browser(world, "ada") as client:
            for text in ("car where price < 100 and brand = 'mini'", "car where price > 7", "price between 3 and 4"):
                made = await world.subscribe("ada", text)
                assert f"/publish?fits={made['id']}" in (await client.get(f"/subscriptions/{made['id']}")).text
                form = await client.get("/publish", params={"fits": made["id"]})
                given = dict(re.findall(r'name="(value\.[^"]+)" value="([^"]+)"', form.text))
                told = await send(client, "/publish", type="car", dry_run="1", **given)
                assert f'href="/subscriptions/{made["id"]}"' in told.text, text
            assert 'name="value.price" value="' in (await client.get("/publish?type=car&example=1")).text

    play(tmp_path, scenario)
