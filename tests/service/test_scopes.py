"""Scopes over arrays of objects over HTTP: subscribed, published, told, explained, and the same after a restart."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.matching.test_scopes import MATCHING, RAW
from tests.service.web.test_pages import browser
from tests.service.world import World, play
from tocsin.schema import Schema
from tocsin.service.web.builder import rows_of, trouble_with

SCHEMA = Schema.infer([{"event_type": "order", **raw} for raw in RAW], mandatory=False)
EXPECTED = {(number, text) for text, numbers in MATCHING.items() for number in numbers}


async def _publish_all(world: World) -> None:
    for raw in RAW:
        answer = await world.client("ada").post("/v1/events", json={"event_type": "order", **raw})
        assert answer.status_code == 201, answer.text


async def _told(world: World, texts: dict[str, str]) -> Counter[tuple[int, str]]:
    """Return how often bob was told of which event by which subscription."""
    items = await world.notifications("bob", limit=500)
    return Counter((item["event"]["id"], texts[item["subscription"]]) for item in items)


@pytest.mark.parametrize("engine", ["definition", "columnar"])
def test_scopes_match_over_http_and_after_a_restart(tmp_path: Path, engine: str) -> None:
    texts: dict[str, str] = {}

    async def before(world: World) -> None:
        for text in MATCHING:
            texts[(await world.subscribe("bob", text))["id"]] = text
        await _publish_all(world)
        assert await _told(world, texts) == Counter(dict.fromkeys(EXPECTED, 1))

    async def after(world: World) -> None:
        await _publish_all(world)
        assert await _told(world, texts) == Counter(dict.fromkeys(EXPECTED, 2))

    play(tmp_path, before, schema=SCHEMA, engine=engine)
    _restarted(tmp_path, after, engine)


def _restarted(folder: Path, scenario: Any, engine: str) -> None:
    """Run a scenario against the store as it was left, for whom the accounts are there already."""
    from tests.service import world as worlds

    async def known(service: Any) -> dict[str, str]:
        tokens = {}
        for name in ("ada", "bob"):
            logged_in = await service.identities.log_in(name, worlds.PASSWORD, "test")
            tokens[name] = (await service.identities.new_token(logged_in.principal, "again", None)).secret
        return tokens

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(worlds, "_accounts", known)
        play(folder, scenario, schema=SCHEMA, engine=engine)


def test_a_scope_is_warned_about_refused_and_explained_over_http(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        bob = world.client("bob")
        plain = {"text": "order where items.sku = 'A' and items.qty > 3"}
        planned = await bob.post("/v1/drafts/plan", json=plain)
        assert any("some items" in warning for warning in planned.json()["warnings"]), planned.text
        refused = await bob.post("/v1/subscriptions", json={"text": "order where some items (foo = 3)"})
        assert refused.status_code == 400
        assert refused.json()["span"]["start"] == len("order where some items (")
        tree = {"event_types": ["order"], "where": {"some": "items", "where": ["qty", ">", 3]}}
        assert (await bob.post("/v1/subscriptions", json=tree)).status_code == 201
        event = {"event_type": "order", "items": [{"sku": "A", "qty": 1}, {"sku": "B", "qty": 5}]}
        draft = {"text": "order where some items (sku = 'A' and qty > 3)", "event": event}
        told = (await bob.post("/v1/drafts/explain", json=draft)).json()
        assert told["matched"] is False
        assert told["changes"][0]["element"] == 1

    play(tmp_path, scenario, schema=SCHEMA)


def test_the_pages_take_a_scope_as_text_and_show_it_as_text(tmp_path: Path) -> None:
    text = "order where some items (sku = 'A' and qty > 3)"
    assert rows_of(text) is None  # the form has rows for plain predicates only
    assert trouble_with(text, SCHEMA) is None

    async def scenario(world: World) -> None:
        mine = await world.subscribe("bob", text)
        async with browser(world, "bob") as pages:
            page = await pages.get(f"/subscriptions/{mine['id']}")
            assert page.status_code == 200
            assert "some items" in page.text

    play(tmp_path, scenario, schema=SCHEMA)
