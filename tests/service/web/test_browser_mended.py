"""What was once broken and only a browser shows: streams of many tabs, arrivals after an absence, the menu on a phone."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.service.web.browsing import IN_BROWSER, register, subscribe, watched

pytestmark = IN_BROWSER
_AGO = re.compile(r"now|seconds? ago|minutes? ago")
ITEM = {"event_type": "item", "item": "i1", "title": "a lamp", "closes": "2030-01-01T00:00:00Z", "seller.name": "Tim"}


def publish(address: str, price: int) -> None:
    """Publish an item by the API, as a guest."""
    answer = httpx.post(f"{address}/v1/events", json={**ITEM, "category": "furniture", "price": price})
    assert answer.status_code == 201, answer.text


def live(page: Page) -> None:
    """Wait until a page says that it is live."""
    page.goto("/inbox")
    expect(page.locator("#live-state")).to_contain_text("Live")


def test_many_live_tabs_share_one_stream_and_the_site_goes_on(context: BrowserContext, address: str) -> None:
    first, errors = watched(context)
    register(first, "tabs")
    subscribe(first, "item where price < 100")
    tabs = [first, *(context.new_page() for _ in range(7))]
    for tab in tabs:
        live(tab)
    one_more = context.new_page()
    assert one_more.goto("/subscriptions") is not None  # a ninth connection, where six is the most
    publish(address, 42)
    for tab in tabs:
        tab.bring_to_front()
        expect(tab.locator(".feed li.new")).to_contain_text("42")
        expect(tab.locator(".feed li[data-seq]")).to_have_count(1)
    assert errors == []


def test_what_came_while_a_tab_was_away_is_there_when_it_is_back(context: BrowserContext, address: str) -> None:
    page, _ = watched(context)
    register(page, "away")
    mine = subscribe(page, "item where price < 100")
    page.goto(mine)
    publish(address, 1)
    expect(page.locator(".feed li[data-seq]")).to_have_count(1)
    context.set_offline(True)
    publish(address, 2)
    publish(address, 3)
    context.set_offline(False)
    publish(address, 4)
    expect(page.locator(".feed li[data-seq]")).to_have_count(4)
    prices = page.locator(".feed li[data-seq] div:has(> dt:text-is('price')) dd")
    expect(prices).to_have_text(["4", "3", "2", "1"])


def test_the_menu_of_a_phone_is_on_the_screen(chromium: Browser, address: str) -> None:
    context = chromium.new_context(base_url=address, viewport={"width": 390, "height": 844})
    page = context.new_page()
    register(page, "phone")
    page.locator("header details.menu summary").click()
    for link in page.locator("header nav a, header nav button").all():
        box = link.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    assert page.locator("header .places a").count() == 5
    context.close()


def test_times_are_said_as_how_long_ago(context: BrowserContext, address: str) -> None:
    page, errors = watched(context)
    register(page, "clock")
    subscribe(page, "item where price < 100")
    publish(address, 7)
    page.goto("/inbox")
    expect(page.locator(".feed time").first).to_have_text(_AGO)
    assert page.locator(".feed time").first.get_attribute("title")
    assert errors == []


def test_a_draft_over_an_ended_session_says_so_and_keeps_the_text(context: BrowserContext) -> None:
    page, errors = watched(context)
    register(page, "expired")
    page.goto("/subscribe?type=item")
    context.clear_cookies()
    page.locator("#text").fill("item where price < 55")
    expect(page.locator("#toasts")).to_contain_text("needs an account")
    expect(page.locator("#text")).to_have_value("item where price < 55")
    page.get_by_role("button", name="Subscribe").click()
    page.fill("[name=name]", "expired")
    page.fill("[name=password]", "correct horse battery")
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("status").first).to_contain_text("in force")
    expect(page.locator("pre")).to_contain_text("price < 55")
    assert errors == []
