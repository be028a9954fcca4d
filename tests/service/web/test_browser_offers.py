"""Offers in a real browser: tried by a guest, and live between two members."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import BrowserContext, expect

from tests.service.web.browsing import IN_BROWSER, register, subscribe, watched

pytestmark = IN_BROWSER
BOB = "insurance where price <= 20 * age with name = 'Bob', age = 48, years_ncd = 8"
OFFER: dict[str, Any] = {
    "event": {"event_type": "insurance", "name": "Company B", "cover": "Full"},
    "rules": ["age >= 40"],
    "dynamic": {"price": "case when years_ncd > 7 then 900 else 1200 end"},
    "ttl_seconds": 600,
}


def test_a_guest_matches_offers_and_drivers_and_changes_one_of_them(context: BrowserContext) -> None:
    page, errors = watched(context)
    page.goto("/offers")
    bob = page.locator("#offered tbody tr", has_text="Company B").locator("td").nth(1)
    expect(bob).to_have_class("held")
    expect(bob).to_contain_text("matches, price 900")
    bob.locator("summary").click()
    expect(bob).to_contain_text("the offer's rule driver.age >= 40 and driver.years_ncd >= 3")
    dora = page.locator("#offered tbody tr", has_text="Company C").locator("td").nth(3)
    expect(dora).to_contain_text("division by zero")
    drivers = page.get_by_label("Drivers")
    drivers.fill(drivers.input_value().replace("age = 48", "age = 38"))  # the table follows by itself
    expect(bob).to_have_class("failed")
    expect(bob).to_contain_text("refused by the offer")
    drivers.fill("insurance where prise < 3")
    expect(page.locator("#offered .error")).to_contain_text("did you mean price")
    expect(page.get_by_role("heading", name="Live offers here")).to_have_count(0)  # this schema has no union
    assert errors == []


def test_without_scripts_the_button_matches_them(plain: BrowserContext) -> None:
    page = plain.new_page()
    page.goto("/offers")
    page.get_by_label("Drivers").fill("insurance with name = 'Eve', age = 70, years_ncd = 10")
    page.get_by_role("button", name="Match them").click()
    expect(page.locator("#offered thead")).to_contain_text("Eve")
    expect(page.locator("#offered td.held")).to_have_count(3)


def test_an_offer_reaches_a_member_live_with_the_price_made_for_her(market_context: BrowserContext) -> None:
    page, errors = watched(market_context)
    register(page, "bob")
    mine = subscribe(page, BOB)
    page.get_by_label("An event as JSON").fill(json.dumps({**OFFER["event"], "price": 1000}))
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#explained")).to_contain_text("price is 1000, driver.age is 48")
    other = market_context.new_page()
    other.goto("/offers")
    asked = other.get_by_label("Your subscription, with your properties")
    asked.fill(BOB)
    other.get_by_role("button", name="Ask").click()
    expect(other.get_by_role("main")).to_contain_text("No live offer matches this.")
    other.get_by_label("Your offer").fill(json.dumps(OFFER))
    other.get_by_role("button", name="Publish").click()
    expect(other.get_by_role("status")).to_contain_text("1 reached, 0 failed")
    expect(page.locator(".feed").first).to_contain_text("900")  # arrived, without a reload
    other.get_by_label("Your subscription, with your properties").fill(BOB)
    other.get_by_role("button", name="Ask").click()
    expect(other.get_by_role("main")).to_contain_text("price 900 (for you)")
    other.get_by_label("Your offer").fill("{")
    other.get_by_role("button", name="Publish").click()
    expect(other.locator("main .error")).to_be_visible()
    page.goto(mine)
    expect(page.locator(".feed").first).to_contain_text("900")
    page.locator(".feed").get_by_role("link", name="why").first.click()
    expect(page.get_by_role("main")).to_contain_text("a rule of the offer")
    assert errors == []
