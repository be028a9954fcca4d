"""Subscriptions that speak of their own properties, explained, tried and looked back at like any other."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Any

from tests.broker.test_offers import A2, Q2, SCHEMA, programs
from tests.service.web.test_pages import browser, send
from tests.service.world import World, play
from tocsin.broker import BrokerSettings

OWN = "insurance where cover = 'Full' and price <= 20 * age with name = 'Bob', age = 48, years_ncd = 8"
CHEAP = {"event_type": "insurance", "name": "A", "cover": "Full", "price": 900}
DEAR = {**CHEAP, "price": 1000}
SHARED: dict[str, Any] = {**A2, "dynamic": {"price": "program('auto_price', age, years_ncd)"}}
WRONG: list[dict[str, Any]] = [{"event_type": "insurance"}, {**A2, "rules": 3}, {"event": {}}]


def leaves(outcome: dict[str, Any]) -> list[dict[str, Any]]:
    return [leaf for part in outcome["parts"] for leaf in leaves(part)] if "parts" in outcome else [outcome]


def test_events_and_offers_are_explained_with_the_subscriptions_own_properties(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        bob = world.client("bob")
        mine = await world.subscribe("bob", OWN)
        for path, more in ((f"/v1/subscriptions/{mine['id']}/explain", {}), ("/v1/drafts/explain", {"text": OWN})):
            told = (await bob.post(path, json={"event": CHEAP, **more})).json()
            assert told["matched"] is True
            _, cover, price = leaves(told["outcome"])
            assert (cover["condition"], cover["held"]) == ("cover = 'Full'", True)
            assert (price["condition"], price["held"]) == ("price <= 20 * driver.age", True)
            assert price["values"] == {"price": 900.0, "driver.age": 48}
            told = (await bob.post(path, json={"event": DEAR, **more})).json()
            assert [one["condition"] for one in told["changes"]] == ["price <= 20 * driver.age"]
            told = (await bob.post(path, json={"event": {**SHARED, "rules": ["age < 40"]}, **more})).json()
            assert told["computed"] == {"price": 488.0}
            assert [(one["condition"], one["side"]) for one in told["changes"]] == [
                ("the offer's rule driver.age < 40", "offer")
            ]
            driver = {"event_type": "driver", "name": "D", "age": 30, "years_ncd": 1}
            assert (await bob.post(path, json={"event": driver, **more})).json()["matched"] is False
            for wrong in WRONG:
                assert (await bob.post(path, json={"event": wrong, **more})).status_code == 422
        plain = (await bob.post("/v1/drafts/explain", json={"text": Q2, "event": CHEAP})).json()
        assert (plain["matched"], plain.get("computed")) == (True, None)

    revealing = BrokerSettings(reveal_rules=True)
    play(tmp_path, scenario, schema=SCHEMA, programs=programs(), broker_settings=revealing)


def test_a_draft_with_properties_is_planned_estimated_and_held_against_the_log(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        ada, bob = world.client("ada"), world.client("bob")
        hidden = {**SHARED, "rules": ["age < 40"]}
        for event in (CHEAP, DEAR, A2, hidden, {**A2, "dynamic": {"price": "21 * age"}}):
            assert (await ada.post("/v1/events", json=event)).is_success
        planned = (await bob.post("/v1/drafts/plan", json={"text": OWN})).json()
        assert planned["conjunctions"] == ["event_type in {0} and cover in {1} and price in (-∞, 960]"]
        estimate = (await bob.post("/v1/drafts/preview", json={"text": OWN})).json()
        assert (estimate["matched"], estimate["sample"]) == (2, 5)
        found = (await bob.post("/v1/drafts/backfill", json={"text": OWN})).json()
        assert [one["event"]["name"] for one in found["items"]] == ["A", "Company B"]
        mine = await world.subscribe("bob", OWN)
        told = [(await bob.post("/v1/events?dry_run=true", json=one)).json()["items"][0] for one in (CHEAP, DEAR)]
        assert told == [{"matches": None, "yours": [mine["id"]]}, {"matches": None, "yours": []}]

    play(tmp_path, scenario, schema=SCHEMA, programs=programs())


def test_the_pages_of_a_subscription_with_properties(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        mine = await world.subscribe("bob", OWN)
        other = await world.subscribe("bob", OWN.replace("20", "30").replace("48", "20"))
        for event in (CHEAP, DEAR, SHARED, {**SHARED, "rules": ["age < 40"]}):
            assert (await world.client("ada").post("/v1/events", json=event)).is_success
        async with browser(world, "bob") as bob:
            page = unescape((await bob.get(f"/subscriptions/{mine['id']}")).text)
            assert "price is 1000, driver.age is 48" in page  # the near miss
            assert "488" in page  # computed
            assert "age < 40" not in page
            path = f"/subscriptions/{mine['id']}/explain"
            told = unescape((await send(bob, path, event=str(DEAR).replace("'", '"'))).text)
            assert "It does not match." in told
            assert "price <= 20 * driver.age" in told
            preview = unescape((await bob.get("/subscribe", params={"text": OWN})).text)
            assert "2 of the 4" in preview
            assert f"#{other['id']}" not in preview  # never called covered
            why = [one for one in await world.notifications("bob") if one["subscription"] == mine["id"]]
            assert [one["event"]["price"] for one in why] == [900, 488.0]
            page = unescape((await bob.get(f"/inbox/{why[0]['cursor']}")).text)
            assert "price <= 20 * driver.age" in page

    play(tmp_path, scenario, schema=SCHEMA, programs=programs(), broker_settings=BrokerSettings())
