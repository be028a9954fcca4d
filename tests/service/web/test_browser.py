"""The pages in a real browser: what a member does, what moves by itself, and whether everybody can use it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.service.web.browsing import ADMIN_TOKEN, IN_BROWSER, fill_item, forget, log_in, register, subscribe, watched

pytestmark = IN_BROWSER
AXE = Path(__file__).parent / "axe.min.js"
PAGES = (
    "/", "/try", "/offers", "/schema", "/subscribe?type=item", "/publish?type=item", "/subscriptions", "/inbox", "/dashboard",
    "/account", "/webhooks", "/dead-letters", "/operators", "/help", "/subscribe", "/publish", "/publish?type=item&example=1",
    "/inbox/nonsense",
)  # fmt: skip

ADMIN_PAGES = ("/accounts", "/schema/extend", "/dead-letters")
GUEST_PAGES = ("/login", "/register", "/")


def test_a_subscription_made_in_the_form_is_matched_live_by_an_event_from_another_window(
    context: BrowserContext,
) -> None:
    page, errors = watched(context)
    register(page, "ada")
    page.goto("/subscribe?type=item")
    page.locator("select[name=attribute]").first.select_option("price")
    page.locator("select[name=op]").first.select_option("<")
    page.locator("input[name=value]").first.fill("100")
    expect(page.locator("#text")).to_have_value("item where price < 100")
    page.get_by_role("button", name="Subscribe").click()
    expect(page.get_by_role("status")).to_contain_text("in force")

    page.goto("/inbox")
    expect(page.locator("#live-state")).to_contain_text("Live")
    other, more = watched(context)
    fill_item(other, "20")
    other.get_by_role("button", name="Publish").click()
    expect(other.get_by_role("status")).to_contain_text("published")
    arrived = page.locator(".feed li.new")
    expect(arrived).to_contain_text("a lamp")
    arrived.get_by_role("link", name="why").click()
    expect(page.locator(".why")).to_contain_text("price < 100")
    expect(page.locator(".why")).to_contain_text("price is 20")
    assert errors + more == []


def test_text_drives_the_form_completes_names_and_marks_what_is_wrong(context: BrowserContext) -> None:
    page, errors = watched(context)
    register(page, "bob")
    page.goto("/subscribe?type=item")
    text = page.locator("#text")
    text.fill("item where price < 100 and bran")
    expect(page.locator("#completions li")).to_have_text(["brand"])
    text.press("Tab")
    expect(text).to_have_value("item where price < 100 and brand")
    text.fill("item where prise < 100")
    expect(page.locator("#preview mark")).to_have_text("prise")
    text.fill("item where price < 100 and brand = 'mini'")
    expect(page.locator("input[name=value]").nth(1)).to_have_value("mini")
    text.fill("item where price < 100 or brand = 'mini'")
    expect(page.locator("#builder")).to_contain_text("more than rows can show")
    assert errors == []


def test_a_newcomer_is_led_from_the_front_page_to_a_live_match(context: BrowserContext) -> None:
    page, errors = watched(context)
    page.goto("/")
    page.get_by_role("button", name="Register").click()
    page.fill("[name=name]", "newcomer")
    page.fill("[name=password]", "a long password")
    page.fill("[name=again]", "a long password")
    page.get_by_role("button", name="Register").click()
    page.get_by_role("main").get_by_role("button", name="Subscribe").click()
    page.locator("input[name=type]").first.check()
    page.get_by_role("button", name="Next").first.click()
    page.locator("select[name=attribute]").first.select_option("price")
    page.locator("select[name=op]").first.select_option("<")
    page.locator("input[name=value]").first.fill("7")
    expect(page.locator("#text")).to_have_value("item where price < 7")
    page.get_by_role("button", name="Subscribe").click()
    with context.expect_page() as opened:
        page.get_by_role("button", name="Publish an event that fits").click()
    expect(opened.value.locator("[name='value.price']")).to_have_value("3.5")
    opened.value.get_by_role("button", name="Publish").click()
    expect(opened.value.get_by_role("status")).to_contain_text("published")
    arrived = page.locator(".feed li.new")  # on the subscription's own page, without loading it again
    expect(arrived).to_contain_text("3.5")
    arrived.get_by_role("link", name="why").click()
    expect(page.locator(".why")).to_contain_text("price is 3.5")
    assert errors == []


def test_errors_stand_at_the_field(context: BrowserContext) -> None:
    page, errors = watched(context)
    fill_item(page, "cheap")
    page.get_by_role("button", name="Publish").click()
    expect(page.locator("[name='value.price']")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("alert").first).to_contain_text("cheap")
    assert errors == []


def test_trying_updates_while_typing_and_the_dashboard_moves(context: BrowserContext) -> None:
    page, errors = watched(context)
    page.goto("/try")
    page.fill("[name=subscriptions]", "price < 10")
    page.fill("[name=events]", '{"price": 7}')
    expect(page.locator("#tried td")).to_have_count(1)
    expect(page.locator("#tried td.held")).to_contain_text("matches")
    page.goto("/dashboard")
    expect(page.locator(".chart").first).to_be_visible()
    before = page.locator(".chart path.line").first.get_attribute("d")
    expect(page.locator(".chart path.line").first).not_to_have_attribute("d", before or "")
    assert errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_phone_and_are_accessible(chromium: Browser, address: str, scheme: str) -> None:
    context = chromium.new_context(
        base_url=address, viewport={"width": 390, "height": 844}, bypass_csp=True,
        color_scheme="dark" if scheme == "dark" else "light",
    )  # fmt: skip
    page = context.new_page()
    register(page, f"eve-{scheme}")
    mine = subscribe(page, "item where price < 10")
    wrong: list[str] = []
    for path in (*PAGES, mine, *ADMIN_PAGES, *GUEST_PAGES):
        if path == ADMIN_PAGES[0]:
            log_in(page, "admin", ADMIN_TOKEN)
        if path == GUEST_PAGES[0]:
            forget(page)
        page.goto(path)
        if not page.evaluate("document.documentElement.scrollWidth <= window.innerWidth + 1"):
            wide = page.evaluate(
                "[...document.querySelectorAll('main *, header *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1"
                " && !e.closest('.overflow-auto, .picture')).map(e => e.outerHTML.slice(0, 80)).slice(0, 3)"
            )
            wrong.append(f"{path} is too wide for a phone: {wide}")
        page.add_script_tag(path=AXE)
        found = page.evaluate(
            "axe.run({resultTypes: ['violations']})"
            ".then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).slice(0, 3).join(' | ')))"
        )
        wrong += [f"{path}: {one}" for one in found]
    context.close()
    assert wrong == []
