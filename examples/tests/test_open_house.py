"""The open house: two sites join and publish over HTTP, a visitor is told, and the check tells theirs from strangers'."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tocsin.client import Client
from tocsin_examples.front import on_a_desktop
from tocsin_examples.open_house import PASSWORD, VISITOR, OpenHouse
from tocsin_examples.worlds import WORLDS


@pytest.fixture
def house(tmp_path: Path) -> Iterator[OpenHouse]:
    house = OpenHouse(tmp_path, 3, WORLDS["auction"](3), port=0, matching="inline")
    yield house
    house.close()


def test_sites_extend_the_schema_publish_and_what_they_publish_is_matched_and_checked(house: OpenHouse) -> None:
    house.subscribe(300)
    house.run(120, rate=400)
    assert {"site", "saleroom"} <= set(house.broker.schema.attributes)
    assert "seller" in house.broker.schema.event_types
    assert house.notifications() > 0
    with Client(house.front.url, house.front.admin_token) as stranger:
        stranger.publish(
            {"event_type": "question", "item": "x", "title": "x", "question": "?", "at": "2026-01-01T00:00:00Z"}
        )
        stranger.subscribe("item")
    house.publish(20)
    assert house.check(house.notifications()) == 10
    assert house.publish_ms


def test_a_visitor_logs_in_and_sees_the_dashboard(house: OpenHouse) -> None:
    house.publish(200)
    with httpx.Client(base_url=house.front.url, follow_redirects=True) as browser:
        assert "Dashboard" in browser.get("/dashboard").text
        page = browser.post("/login", data={"name": VISITOR, "password": PASSWORD, "next": "/inbox"}).text
    assert "why" in page


def test_a_browser_is_opened_only_before_a_screen() -> None:
    assert on_a_desktop({"DISPLAY": ":0"}, is_terminal=True, platform="linux")
    assert on_a_desktop({}, is_terminal=True, platform="darwin")
    assert not on_a_desktop({}, is_terminal=True, platform="linux")
    assert not on_a_desktop({"DISPLAY": ":0", "CI": "1"}, is_terminal=True, platform="linux")
    assert not on_a_desktop({"DISPLAY": ":0", "SSH_CONNECTION": "x"}, is_terminal=True, platform="linux")
    assert not on_a_desktop({"DISPLAY": ":0"}, is_terminal=False, platform="linux")
