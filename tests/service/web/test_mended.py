"""What was once broken on the pages, a test each, as plain HTTP; what only a browser shows is in test_browser_mended.py."""

from __future__ import annotations

import csv
import json
import re
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.clocks import ManualClock
from tests.service.web.test_pages import browser, send, token
from tests.service.world import PASSWORD, World, play
from tocsin.language import parse
from tocsin.language.explain import ExplainedNode
from tocsin.schema import Schema
from tocsin.schema.examples import example_names, load_example
from tocsin.service.web.examples import example_event, example_lines, example_subscription
from tocsin.service.web.match_pages import distance_of
from tocsin.service.web.try_pages import attempt

PAGE = {"accept": "text/html,application/xhtml+xml"}


async def page(client: httpx.AsyncClient, path: str, **query: Any) -> str:
    """Return what a page says."""
    answer = await client.get(path, params=query or None)
    assert answer.status_code == 200, (path, answer.text)
    return unescape(answer.text)


def test_renewing_on_the_pages_never_shortens_a_lease(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        made = await world.subscribe("ada", lease_seconds=29 * 86400)
        async with browser(world, "ada") as client:
            await send(client, f"/subscriptions/{made['id']}/renew", lease="86400")
        renewed = (await world.client("ada").get(f"/v1/subscriptions/{made['id']}")).json()
        assert renewed["lease_end"] == made["lease_end"]
        assert renewed["generation"] == 2

    play(tmp_path, scenario)


def test_a_subscription_lasts_until_it_is_stopped_or_for_a_term_or_until_a_date(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with browser(world, "ada") as client:

            async def subscribe(**lease: str) -> dict[str, Any]:
                answer = await send(client, "/subscribe", text="car where price < 9", action="subscribe", **lease)
                found = re.search(r"/subscriptions/(\d+)", str(answer.url))
                assert found is not None, answer.text
                document: dict[str, Any] = (await world.client("ada").get(f"/v1{found.group()}")).json()
                return document

            assert (await subscribe())["renews"]
            assert not (await subscribe(lease="604800"))["renews"]
            last = world.broker.now().date() + timedelta(days=3)
            assert (await subscribe(lease="date", until=last.isoformat()))["lease_end"].startswith(
                (last + timedelta(days=1)).isoformat()
            )
            past = await send(client, "/subscribe", text="car where price < 9", lease="date", until="2001-01-01")
            assert past.status_code == 422
            assert "car where price < 9" in unescape(past.text)
            assert "the day until which it lasts" in past.text

    play(tmp_path, scenario)


def test_an_owner_is_warned_before_a_lease_ends(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        made = await world.subscribe("ada", lease_seconds=5)
        async with browser(world, "ada") as client:
            assert "renew it to go on" not in await page(client, "/subscriptions")
        clock.advance(4.8)
        async with browser(world, "ada") as client:
            for path in ("/", "/inbox", "/subscriptions"):
                assert f"Subscription #{made['id']}</a> ends on" in await page(client, path)

    clock = ManualClock()
    play(tmp_path, scenario, machine=clock)


def test_a_subscription_keeps_its_matches_however_many_events_follow(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        made = await world.subscribe("ada", "car where price < 10")
        await world.publish(7)
        world.broker.publish([{"event_type": "car", "price": 500}] * 500)
        async with browser(world, "ada") as client:
            shown = await page(client, f"/subscriptions/{made['id']}")
        assert "<dd>7</dd>" in shown
        assert "1 matches over time" in shown

    play(tmp_path, scenario)


def test_the_newest_come_first_and_each_event_once(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        ids = [made.id for made in world.broker.subscribe_all(["car"] * 20, owner="ada")]
        for price in range(60):
            world.broker.publish({"event_type": "car", "price": price})
        async with browser(world, "ada") as client:
            shown = await page(client, "/inbox")
            assert re.findall(r"<dt>price</dt><dd>(\d+)</dd>", shown) == [str(price) for price in range(59, 9, -1)]
            assert all(f'href="/subscriptions/{id}"' in shown for id in ids)
            older = re.search(r'href="([^"]+)">Older', shown)
            assert older is not None
            rest = await page(client, older.group(1))
            assert re.findall(r"<dt>price</dt><dd>(\d+)</dd>", rest) == [str(price) for price in range(9, -1, -1)]
            newer = re.search(r'href="([^"]+)">Newer', rest)
            assert newer is not None
            assert "<dd>59</dd>" in await page(client, newer.group(1))

    play(tmp_path, scenario)


def test_a_page_that_was_away_gets_what_came_meanwhile(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.subscribe("ada")
        first = await world.publish(1)
        await world.publish(2)
        await world.publish(3)
        async with browser(world, "ada") as client:
            shown = await page(client, "/inbox/newer", after=first["seq"])
            assert re.findall(r"<dt>price</dt><dd>(\d+)</dd>", shown) == ["3", "2"]
            seq = re.search(r'data-seq="(\d+)"', shown)
            assert seq is not None
            assert (await client.get("/inbox/newer", params={"after": seq.group(1)})).status_code == 204

    play(tmp_path, scenario)


def test_an_ended_session_keeps_what_was_typed(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with browser(world, "ada") as client:
            text = "car where price < 100\n  and brand = 'mini'"
            form = {"csrf": await token(client), "text": text, "action": "subscribe", "lease": "86400"}
            client.cookies.delete("tocsin_session")
            refused = await client.post("/subscribe", data=form)
            assert refused.status_code == 401
            kept = {
                "next": "/subscribe",
                "kept-name": re.findall(r'name="kept-name" value="([^"]+)"', refused.text),
                "kept-text": [
                    unescape(one) for one in re.findall(r"kept-text\" hidden>\n(.*?)</t", refused.text, re.DOTALL)
                ],
            }
            assert text in kept["kept-text"]
            again = await client.post("/login", data={"name": "ada", "password": PASSWORD, **kept})
            assert 'action="/subscribe"' in again.text
            fields = {
                name: unescape(value)
                for name, value in re.findall(r'<textarea name="(\w+)"[^>]*>\n(.*?)</t', again.text, re.DOTALL)
            }
            csrf = re.search(r'name="csrf" value="([^"]+)"', again.text.partition('action="/subscribe"')[2])
            assert csrf is not None
            made = await client.post("/subscribe", data={**fields, "csrf": csrf.group(1)})
            assert "The subscription is in force" in made.text
        (one,) = world.broker.subscriptions("ada")
        assert "brand = 'mini'" in one.text

    play(tmp_path, scenario)


def test_a_password_is_never_kept_over_an_ended_session(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with browser(world) as client:
            refused = await client.post("/account/password", data={"old": PASSWORD, "new": "another long one"})
            assert refused.status_code == 401
            assert PASSWORD not in refused.text

    play(tmp_path, scenario)


def test_what_is_not_there_is_a_page_for_browsers_and_a_problem_for_programs(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with browser(world, "ada") as client:
            answer = await client.get("/nowhere", headers=PAGE)
            assert answer.status_code == 404
            assert answer.headers["content-type"].startswith("text/html")
            assert "There is no such page" in answer.text
            assert 'href="/inbox"' in answer.text
            assert (await client.get("/nowhere")).headers["content-type"] == "application/problem+json"
            missing = await client.get("/v1/nowhere", headers=PAGE)
            assert missing.headers["content-type"] == "application/problem+json"

    play(tmp_path, scenario)


def test_carets_stand_under_the_word_that_is_wrong() -> None:
    (error,) = attempt("price < 10 and prise < 5", '{"price": 7}').errors
    _, line, caret = error.split("\n")[:3]
    assert line[caret.index("^") :].startswith("prise")


@pytest.mark.parametrize("name", example_names())
def test_examples_are_of_the_schema_in_force_and_right(name: str) -> None:
    schema: Schema = load_example(name)
    text = example_subscription(schema)
    assert parse(text).event_types[0] in schema.event_types
    schema.admit(json.loads(example_event(schema, text)))
    lines = example_lines(schema)
    assert (lines is None) == (name == "dynamic")  # which has no attributes to make one of
    if lines is None:
        return
    trial = attempt(*lines)
    assert trial.errors == []
    assert any(one.matched for _, told in trial.rows for one in told)
    assert not all(one.matched for _, told in trial.rows for one in told)


def test_pages_speak_of_what_the_schema_has(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        made = await world.subscribe("ada", "car where price < 100")
        async with browser(world) as client:
            for path in ("/", "/try"):
                shown = await page(client, path)
                assert "item" not in re.sub(r"<[^>]*>", "", shown)
                assert "price < 100" in shown
        async with browser(world, "ada") as client:
            assert "item where" not in await page(client, "/subscribe")
            shown = await page(client, f"/subscriptions/{made['id']}")
            example = re.search(r'<textarea name="event"[^>]*>(.*?)</textarea>', shown)
            assert example is not None
            told = await send(client, f"/subscriptions/{made['id']}/explain", event=example.group(1))
            assert "It matches." in told.text

    play(tmp_path, scenario, guests="read")


def test_what_waits_to_be_matched_is_counted_in_events(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        history = world.app.state.history
        await history.close()
        with world.broker.store.write() as transaction:
            transaction.set_meta(matching="pipeline")
        world.broker.subscribe_all(["car"] * 50, owner="ada")
        history.take()
        assert history.moments[-1].lag == 0

    play(tmp_path, scenario)


def test_what_can_never_hold_has_no_estimate_beside_it(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.publish(5)
        async with browser(world, "ada") as client:
            shown = await page(client, "/subscribe", text="car where price < 5 and price > 10")
            assert "can never hold" in shown
            assert "looked at" not in shown.partition('id="preview"')[2]
            assert "events looked at" in await page(client, "/subscribe", text="car where price < 10")

    play(tmp_path, scenario)


def test_the_first_admin_sets_a_password(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        secret = world.tokens["admin"]
        async with browser(world, "admin", secret) as client:
            assert "You have none yet" in await page(client, "/account")
            wrong = await send(client, "/account/password", old="toc_no-such-token", new="a password of mine")
            assert wrong.status_code == 422
            done = await send(client, "/account/password", old=secret, new="a password of mine", keep_tokens="yes")
            assert "The password was changed" in done.text
        async with browser(world, "admin", "a password of mine") as client:
            assert "You have none yet" not in await page(client, "/account")
            later = await send(client, "/account/password", old=secret, new="another one of mine")
            assert later.status_code == 422  # a token stands for a password only where there is none

    play(tmp_path, scenario)


@pytest.mark.parametrize("path", ["/v1/subscriptions", "/v1/notifications", "/v1/inbox", "/v1/schema", "/healthz"])
def test_query_parameters_that_nobody_reads_are_refused(path: str, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        answer = await world.client("ada").get(path, params={"subscriptionn": 829})
        assert answer.status_code == 422
        problem = answer.json()
        assert "subscriptionn" in problem["detail"]
        assert problem["errors"][0]["place"] == "query/subscriptionn"
        assert ("known here: " in problem["detail"]) == (path != "/healthz")

    play(tmp_path, scenario)


def test_the_inbox_is_asked_for_one_subscription(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        cheap = (await world.subscribe("ada", "car where price < 10"))["id"]
        await world.subscribe("ada", "car")
        await world.publish(5)
        await world.publish(50)
        found = (await world.client("ada").get("/v1/inbox", params={"subscription": cheap})).json()
        assert [one["event"]["price"] for one in found["items"]] == [5]
        async with browser(world, "ada") as client:
            shown = await page(client, "/inbox", subscription=cheap)
            assert re.findall(r"<dt>price</dt><dd>(\d+)</dd>", shown) == ["5"]

    play(tmp_path, scenario)


@pytest.mark.parametrize("guests", ["read", "publish"])
def test_a_guest_who_may_publish_finds_the_link(guests: str, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with browser(world) as client:
            assert ('href="/publish"' in await page(client, "/")) == (guests == "publish")

    play(tmp_path, scenario, guests=guests)


def test_near_misses_are_near_and_the_nearest_comes_first(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        made = await world.subscribe("ada", "car where price < 100")
        for price in (150, 101, 90_000, 120):
            await world.publish(price)
        async with browser(world, "ada") as client:
            shown = (await page(client, f"/subscriptions/{made['id']}")).partition("Near misses")[2]
        assert re.findall(r"<dt>price</dt><dd>(\d+)</dd>", shown) == ["101", "120", "150"]
        assert "Off by 1%" in shown

    play(tmp_path, scenario)


def test_the_distance_of_a_miss_is_the_way_to_its_bound() -> None:
    def missed(condition: str, *actual: Any) -> float:
        return distance_of(ExplainedNode(condition, held=False, attribute="price", actual=actual))

    assert missed("price < 100", 150) == 0.5
    assert missed("price between 10 and 20", 30) == 0.5
    assert missed("price in (5, 8)", 10) == 0.25
    assert missed("brand = 'mini'", "rover") == missed("no condition at all", 1) == 1.0


def test_what_was_done_is_said_once_and_stands_in_no_address(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with browser(world, "ada") as client:
            made = await send(client, "/subscribe", text="car where price < 100", action="subscribe")
            assert "The subscription is in force" in made.text
            assert "done" not in str(made.url)
            assert "The subscription is in force" not in await page(client, str(made.url))

    play(tmp_path, scenario)


def test_ending_revoking_and_removing_ask_first(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        id = (await world.subscribe("ada"))["id"]
        async with browser(world, "ada") as client:
            asked = await send(client, f"/subscriptions/{id}/end")
            assert "End this subscription?" in asked.text
            assert len(world.broker.subscriptions("ada")) == 1
            assert "has ended" in (await send(client, f"/subscriptions/{id}/end", sure="yes")).text
            assert world.broker.subscriptions("ada") == []
            assert "Revoke this token?" in (await send(client, "/account/tokens/1/revoke")).text
            assert "Remove this webhook?" in (await send(client, "/webhooks/1/remove")).text

    play(tmp_path, scenario)


def test_the_inbox_is_marked_as_read(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.subscribe("ada")
        seq = (await world.publish(5))["seq"]
        async with browser(world, "ada") as client:
            assert "1 unread" in await page(client, "/inbox")
            assert "marked as read" in (await send(client, "/inbox/read", through=seq)).text
            assert "unread" not in await page(client, "/inbox")

    play(tmp_path, scenario)


def test_the_inbox_is_exported_as_it_is_asked_for(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        cheap = (await world.subscribe("ada", "car where price < 10"))["id"]
        await world.subscribe("ada", "car")
        world.broker.publish([{"event_type": "car", "price": price, "brand": '=1+1,"x"'} for price in range(1200)])
        async with browser(world, "ada") as client:
            lines = (await client.get("/inbox/export")).text.splitlines()
            assert [json.loads(line)["event"]["price"] for line in lines] == list(range(1199, -1, -1))
            answer = await client.get("/inbox/export", params={"format": "csv", "subscription": cheap})
            rows = list(csv.DictReader(answer.text.splitlines()))
            assert [json.loads(row["event"])["price"] for row in rows] == list(range(9, -1, -1))
            assert {row["subscriptions"] for row in rows} == {str(cheap)}
            assert not re.search(r'(^|,)"?[=+@-]', answer.text, re.MULTILINE)

    play(tmp_path, scenario)


def test_help_says_what_the_schema_can_be_asked(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with browser(world, "ada") as client:
            shown = await page(client, "/help")
            assert "<code>contains</code>" in shown
            assert "price" in shown
            example = re.search(r"<pre><code>(.*?)</code></pre>", shown)
            assert example is not None
            world.broker.prepare(example.group(1))

    play(tmp_path, scenario)
