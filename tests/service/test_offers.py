"""Offers over HTTP: counts for the publisher, values for the subscriber, both sides explained; the page."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Any

from tests.broker.test_offers import A2, Q2, Q3, SCHEMA, programs
from tests.service.web.test_pages import browser, send
from tests.service.world import World, play
from tocsin.broker import BrokerSettings
from tocsin.service.service import open_broker
from tocsin.service.settings import ServiceSettings
from tocsin.service.web.try_pages import DRIVERS, OFFERS, try_offers

LIVE: dict[str, Any] = {**A2, "ttl_seconds": 3600}


def test_an_offer_over_http_tells_counts_to_its_publisher_and_values_to_the_subscriber(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        mine = await world.subscribe("bob", Q2)
        receipt = (await world.client("ada").post("/v1/events", json=A2)).json()
        assert receipt["met"] == {"matches": 1, "failures": 0}
        (told,) = await world.notifications("bob")
        assert told["event"]["price"] == 900.0
        assert told["computed"] == ["price"]
        why = (await world.client("bob").get(f"/v1/notifications/{told['cursor']}/why")).json()
        assert (why["matched"], why["computed"]) == (True, {"price": 900.0})
        assert [one["condition"] for one in why["outcome"]["parts"] if one.get("side")] == ["a rule of the offer"]
        assert (await world.client("ada").get(f"/v1/notifications/{told['cursor']}/why")).status_code == 404
        path = f"/v1/subscriptions/{mine['id']}/explain"
        assert (await world.client("bob").post(path, json={"event": A2})).json()["matched"] is True
        assert (await world.client("ada").post(path, json={"event": A2})).status_code == 404
        for wrong in ({}, {"event": 3}, {"event": {"event_type": ["x"]}}, {**A2, "rules": 5}, {**A2, "dynamic": []}):
            answer = await world.client("bob").post(path, json={"event": wrong})
            assert answer.status_code == 422, answer.text
        assert (await world.client("bob").post(path, json={"event": LIVE})).is_success

    play(tmp_path, scenario, schema=SCHEMA)


def test_which_side_refuses_is_told_over_http(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        mine = await world.subscribe("bob", Q3)
        client, path = world.client("bob"), f"/v1/subscriptions/{mine['id']}/explain"
        told = (await client.post(path, json={"event": A2})).json()
        assert [(one["condition"], one.get("side")) for one in told["changes"]] == [("price <= 700", None)]
        strict = {**A2, "rules": ["age > 60"]}
        told = (await client.post(path, json={"event": strict})).json()
        assert [(one["condition"], one.get("side")) for one in told["changes"]] == [
            ("the offer's rule driver.age > 60", "offer"),
            ("price <= 700", None),
        ]

    play(tmp_path, scenario, schema=SCHEMA, broker_settings=BrokerSettings(reveal_rules=True))


def test_live_offers_are_queried_listed_and_withdrawn(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        ada, bob = world.client("ada"), world.client("bob")
        seq = (await ada.post("/v1/events", json=LIVE)).json()["seq"]
        (found,) = (await bob.post("/v1/offers/query", json={"text": Q2})).json()["items"]
        assert (found["seq"], found["event"]["price"], found["computed"]) == (seq, 900.0, ["price"])
        assert "rules" not in found
        assert [one["seq"] for one in (await ada.get("/v1/offers")).json()["items"]] == [seq]
        assert (await bob.get("/v1/offers")).json()["items"] == []
        assert (await bob.delete(f"/v1/offers/{seq}")).status_code == 404
        assert (await ada.delete(f"/v1/offers/{seq}")).status_code == 204
        assert (await bob.post("/v1/offers/query", json={"text": Q2})).json()["items"] == []
        assert (await bob.post("/v1/offers/query", json={"text": "driver"})).json()["items"] == []
        assert (await bob.post("/v1/offers/query", json={"text": "insurance where prise < 3"})).status_code == 400

    play(tmp_path, scenario, schema=SCHEMA)


def test_a_failure_is_the_admins_dead_letter_and_not_the_publishers(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.subscribe("bob", "insurance with name = 'Zoe', age = 50, years_ncd = 0")
        offer = {**A2, "rules": ["age >= 40"], "dynamic": {"price": "program('share', age, years_ncd)"}}
        receipt = (await world.client("ada").post("/v1/events", json=offer)).json()
        assert receipt["met"] == {"matches": 0, "failures": 1}
        assert (await world.client("ada").get("/v1/dead-letters")).json()["items"] == []
        letters = (await world.client("admin").get("/v1/dead-letters", params={"everybody": "true"})).json()["items"]
        assert [one["kind"] for one in letters] == ["match"]
        assert "division by zero" in letters[0]["reason"]

    play(tmp_path, scenario, schema=SCHEMA, programs=programs())


def test_programs_come_from_a_file_and_are_listed(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        items = (await world.client().get("/v1/programs")).json()["items"]
        assert [(one["name"], one["version"]) for one in items] == [("auto_price", 1), ("share", 1)]
        assert items[0]["parameters"] == {"age": "int", "years_ncd": "int"}

    play(tmp_path, scenario, schema=SCHEMA, programs=programs())
    (tmp_path / "programs.toml").write_text(
        '[programs.floor]\nversion = 2\nparameters = { x = "float" }\nreturns = "int"\ncallable = "math:floor"\n'
    )
    settings = ServiceSettings(
        store=str(tmp_path / "other.db"), schema="insurance", programs=str(tmp_path / "programs.toml")
    )
    with open_broker(settings) as broker:
        broker.subscribe(Q2, owner="bob")
        receipt = broker.publish({**A2, "dynamic": {"price": "program('floor', years_ncd / 3)"}})
        assert receipt.met is not None
        assert receipt.met.matches == 1
        (told,) = broker.notifications("bob")
        assert told.event["price"] == 2.0


def test_the_page_matches_offers_and_drivers_without_an_account(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        page = unescape((await world.client().get("/offers")).text)
        assert "✓ matches, price 900" in page
        assert "✗ refused by the offer" in page
        assert "! division by zero" in page
        async with browser(world, "ada") as ada:
            asked = unescape((await send(ada, "/offers", asked=Q2)).text)
            assert "No live offer matches this." in asked
            published = unescape((await send(ada, "/offers", offer=str(LIVE).replace("'", '"'))).text)
            assert "0 reached, 0 failed" in published
            found = unescape((await send(ada, "/offers", asked=Q2)).text)
            assert "(for you)" in found

    play(tmp_path, scenario, schema=SCHEMA)


def test_what_is_tried_on_the_page_is_bounded_and_told_when_wrong() -> None:
    assert [row.matches for row in try_offers(OFFERS, DRIVERS).rows] == [3, 1, 2]
    assert "at most 20 lines" in try_offers("{}\n" * 21, DRIVERS).errors[0]
    found = try_offers('{"event": {"name": "A", "cover": "Half"}}\n[', "insurance where prise < 3\n")
    assert [one.split(":")[0] for one in found.errors] == ["driver 1", "offer 1", "offer 2"]
