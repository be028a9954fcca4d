"""Without JavaScript: register, subscribe by the form and by the text, publish, read and understand; errors too."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, expect

from tests.service.web.browsing import IN_BROWSER, fill_item, register

pytestmark = IN_BROWSER


def test_everything_but_the_live_parts_works_without_javascript(plain: BrowserContext) -> None:
    page = plain.new_page()
    register(page, "plain")
    page.goto("/subscribe")
    page.locator("input[name=type][value=item]").check()
    page.get_by_role("button", name="Next").first.click()
    page.locator("select[name=attribute]").first.select_option("price")
    page.locator("input[name=value]").first.fill("12")
    page.get_by_role("button", name="Take over into the text").click()
    expect(page.locator("#text")).to_have_value("item where price = 12")
    page.locator("#text").fill("item where price <= 12")
    page.get_by_role("button", name="Check the text").click()
    expect(page.locator("input[name=value]").first).to_have_value("12")
    page.get_by_role("button", name="Subscribe").click()
    expect(page.get_by_role("status").first).to_contain_text("in force")
    fill_item(page, "11")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("status").first).to_contain_text("published")
    page.goto("/inbox")
    page.get_by_role("link", name="why").first.click()
    expect(page.locator(".why")).to_contain_text("price is 11")
    page.goto("/dashboard")
    expect(page.locator(".chart svg").first).to_be_visible()
    page.get_by_text("plain", exact=True).click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("status").first).to_contain_text("logged out")


def test_errors_are_told_without_javascript(plain: BrowserContext) -> None:
    page = plain.new_page()
    register(page, "plain-wrong")
    page.goto("/subscribe?text=item where prise < 3")
    expect(page.locator("#preview mark")).to_have_text("prise")
    page.get_by_role("button", name="Subscribe").click()
    expect(page.locator("#preview .error")).to_contain_text("did you mean price?")
    fill_item(page, "cheap")
    page.get_by_role("button", name="Publish").click()
    expect(page.locator("[name='value.price']")).to_have_attribute("aria-invalid", "true")
    page.goto("/try")
    page.fill("[name=events]", "no event")
    page.get_by_role("button", name="Match").click()
    expect(page.locator("#tried .error").first).to_contain_text("event 1")
