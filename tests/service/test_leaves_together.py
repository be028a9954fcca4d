"""Operators, properties and offers in one subscription, over HTTP: matched, refused with the place, told, and explained."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.broker.test_leaves_together import JOHN, OTTO, broken, fine, insured
from tests.broker.test_offers import A2, SCHEMA
from tests.service.live import serving
from tests.service.web.test_pages import browser
from tests.service.world import World, play
from tocsin.client import Client
from tocsin.operators.registry import Registry

PLAIN = {"event_type": "insurance", "name": "A", "cover": "Basic", "price": 650}
SIXTY_AND_EIGHTY = [{"people": 60}, {"people": 80}]


def registry() -> Registry:
    return Registry([fine, insured, broken])


def played(folder: Path, scenario: Any) -> None:
    play(folder, scenario, schema=SCHEMA, operators=registry())


def test_a_rule_that_forbids_keeps_the_offer_from_who_calls_an_operator(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.subscribe("bob", f"insurance where fine() with {JOHN}")
        await world.subscribe("bob", "insurance where fine()")
        mine = await world.subscribe("bob", f"insurance where fine() and price <= 1000 with {OTTO}")
        receipt = (await world.client("ada").post("/v1/events", json=A2)).json()
        assert receipt["met"] == {"matches": 1, "failures": 0}
        (told,) = await world.notifications("bob")
        assert (told["subscription"], told["event"]["price"], told["computed"]) == (mine["id"], 900.0, ["price"])

    played(tmp_path, scenario)


@pytest.mark.parametrize(
    "text", ["insurance where fine() with nonsense = 7", "driver where age > 3 with nonsense = 'x'"]
)
def test_an_unknown_property_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    async def scenario(world: World) -> None:
        answer = await world.client("ada").post("/v1/subscriptions", json={"text": text})
        assert answer.status_code == 400, answer.text
        problem = answer.json()
        assert "nonsense" in problem["detail"]
        assert problem["span"]["start"] == text.index("nonsense")

    played(tmp_path, scenario)


def test_why_answers_for_a_match_by_operator_and_offer_and_for_a_near_miss(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        bob = world.client("bob")
        mine = await world.subscribe("bob", f"insurance where fine() and insured(?p) and ?p > 50 with {OTTO}")
        await world.client("ada").post("/v1/events", json=A2)
        (told,) = await world.notifications("bob")
        why = (await bob.get(f"/v1/notifications/{told['cursor']}/why")).json()
        assert (why["matched"], why["computed"]) == (True, {"price": 900.0})
        assert why["bindings"] == [{"p": 60}, {"p": 80}]
        missed = await bob.post("/v1/drafts/explain", json={"text": f"insurance where fine() with {JOHN}", "event": A2})
        assert [one["side"] for one in missed.json()["changes"]] == ["offer"]
        failed = (
            await bob.post("/v1/drafts/explain", json={"text": "insurance where broken()", "event": PLAIN})
        ).json()
        assert (failed["matched"], "ValueError" in failed["failure"]) == (False, True)
        async with browser(world, "bob") as pages:
            page = unescape((await pages.get(f"/inbox/{told['cursor']}")).text)
            assert "?p = 60" in page
            assert "a rule of the offer" in page
            assert "fine()" in page
            page = unescape((await pages.get(f"/subscriptions/{mine['id']}")).text)
            assert "?p = 60" in page
            assert "900" in page
            assert "?p = 60" in unescape((await pages.get("/inbox")).text)

    played(tmp_path, scenario)


def test_the_values_of_variables_are_told_by_page_and_by_stream(tmp_path: Path) -> None:
    with serving(tmp_path, schema=SCHEMA, operators=registry()) as live:
        client = Client(live.url, token=live.tokens["ada"])
        mine = client.subscribe(f"insurance where insured(?people) and ?people > 50 with {OTTO}")
        client.publish(A2)
        client.publish(PLAIN)
        page = client.notifications(start="oldest")
        assert [list(one.bindings) for one in page.items] == [SIXTY_AND_EIGHTY] * 2
        assert [one.computed for one in page.items] == [("price",), ()]
        stream = client.listen(start="oldest")
        assert [list(next(stream).bindings) for _ in range(2)] == [SIXTY_AND_EIGHTY] * 2
        assert client.explain_event(mine.id, A2).bindings == SIXTY_AND_EIGHTY
        assert client.why(page.items[0].cursor).bindings == SIXTY_AND_EIGHTY
