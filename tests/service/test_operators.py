"""Operators in the service: listed, called by subscriptions, explained, counted; and their page."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.service.web.test_pages import browser, send
from tests.service.world import World, play
from tocsin.errors import NotSupported
from tocsin.operators.operator import operator
from tocsin.operators.registry import Registry
from tocsin.schema import Event
from tocsin.service.service import open_broker
from tocsin.service.settings import ServiceSettings


@operator(outputs={"doors": int}, reads=("price:numeric",), timeout=5.0)
def doors(event: Event) -> int:
    """How many doors the car has."""
    return int(str(event.values["price"][0])) % 6


@operator
def broken(event: Event) -> bool:
    """What never works."""
    raise ValueError("out of order")


@operator(reads=("wheels",))
def rolls(event: Event) -> bool:
    """Whether it has wheels, which cars of this schema do not say."""
    return True


def registry() -> Registry:
    return Registry([doors, broken, rolls])


def test_operators_are_listed_with_signatures_and_help(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        items = (await world.client("ada").get("/v1/operators")).json()["items"]
        assert [each["name"] for each in items] == ["doors", "broken", "rolls"]
        assert items[0]["signature"] == "doors(?doors: int)"
        assert items[0]["help"] == "How many doors the car has."
        assert items[0]["timeout_seconds"] == 5.0

    play(tmp_path, scenario, operators=registry())


def test_a_subscription_that_calls_operators_is_made_matched_explained_and_counted(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        ada = world.client("ada")
        made = await world.subscribe("ada", "car where price < 50 and doors(?d) and ?d > 3")
        await world.subscribe("ada", "car where broken()")
        await world.publish(4)
        await world.publish(7)
        told = await world.notifications("ada")
        assert [(one["event"]["price"], one["subscription"]) for one in told] == [(4, made["id"])]
        why = (await ada.get(f"/v1/notifications/{told[0]['cursor']}/why")).json()
        assert (why["bindings"], told[0]["bindings"]) == ([{"d": 4}], [{"d": 4}])
        body = {"text": "car where doors(?d) and ?d > 3", "event": {"event_type": "car", "price": 2}}
        drafted = (await ada.post("/v1/drafts/explain", json=body)).json()
        assert [one["condition"] for one in drafted["changes"]] == ["?d > 3"]
        plan = (await ada.post("/v1/drafts/plan", json={"text": "car where doors(3) or price > 9 and broken()"})).json()
        assert plan["conjunctions"] == [
            "event_type in {0} and doors(3)",
            "event_type in {0} and price in (9, ∞) and broken()",
        ]
        preview = (await ada.post("/v1/drafts/preview", json={"text": "car where doors(4)"})).json()
        assert (preview["matched"], preview["sample"]) == (1, 2)
        found = (await ada.post("/v1/drafts/backfill", json={"text": "car where doors(1)"})).json()
        assert [one["event"]["price"] for one in found["items"]] == [7]
        figures = (await ada.get("/metrics")).text
        assert 'tocsin_operator_failures_total{operator="broken"} 2.0' in figures
        assert 'tocsin_operator_timeouts_total{operator="broken"} 0.0' in figures
        assert "tocsin_failed_pairs 2.0" in figures
        assert "tocsin_missing_operators 0.0" in figures

    play(tmp_path, scenario, operators=registry())


def test_a_wrong_call_is_refused_at_its_place(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        answer = await world.client("ada").post("/v1/subscriptions", json={"text": "car where door(?d)"})
        assert answer.status_code == 400, answer.text
        assert "did you mean doors?" in answer.text

    play(tmp_path, scenario, operators=registry())


def test_the_page_lists_operators_and_tries_them(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with browser(world) as guest:
            page = (await guest.get("/operators")).text
            assert "doors(?doors: int)" in page
            assert "How many doors the car has." in page
            assert "<textarea" not in page
        async with browser(world, "ada") as client:
            event = '{"event_type": "car", "price": 4}'
            tried = unescape((await send(client, "/operators", text="doors(?d) and ?d > 3", event=event)).text)
            assert "It matches." in tried
            assert "found ?d = 4" in tried
            wrong = await send(client, "/operators", text="doors(", event=event)
            assert wrong.status_code == 422
            too_long = await send(client, "/operators", text="doors(?d)" + " " * 5000, event=event)
            assert "at most 4 KiB of text" in too_long.text
            # The form of a subscription offers those that its types have the attributes for.
            form = unescape((await client.get("/subscribe", params={"type": "car"})).text)
            assert '"doors(": []' in form
            assert "doors(?doors: int)" in form
            assert "rolls(" not in form

    play(tmp_path, scenario, operators=registry())


def test_a_service_without_operators_says_so(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with browser(world) as guest:
            assert "TOCSIN_OPERATORS" in (await guest.get("/operators")).text
        assert (await world.client("ada").get("/v1/operators")).json() == {"items": []}

    play(tmp_path, scenario)


def test_the_setting_names_the_operators(tmp_path: Path) -> None:
    def opened(operators: str) -> Any:
        return open_broker(ServiceSettings(store=str(tmp_path / "s.db"), engine="definition", operators=operators))

    with opened(f"{__name__}:registry") as broker:
        assert [each.name for each in broker.operators] == ["doors", "broken", "rolls"]
    settings = tmp_path / "operators.toml"
    settings.write_text('[spatial]\nattribute = "location"\n')
    with opened(str(settings)) as broker:
        assert "locIn" in broker.operators
        assert "similarTo" not in broker.operators
    with pytest.raises(NotSupported, match="does not lead to a function"):
        opened("no.such:thing")
