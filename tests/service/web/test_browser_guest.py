"""A guest in a real browser: what can be seen without an account, and what happens at its borders."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, expect

from tests.service.web.browsing import IN_BROWSER, PASSWORD, fill_item, forget, log_in, register, watched

pytestmark = IN_BROWSER


def test_a_guest_looks_around_and_publishes_where_that_is_allowed(context: BrowserContext) -> None:
    page, errors = watched(context)
    page.goto("/")
    for name, heading in (
        ("Schema", "Schema"),
        ("Dashboard", "Dashboard"),
        ("Operators", "Operators"),
        ("Try it", "Try it"),
    ):
        if name == "Operators":
            page.locator("header details.menu summary").click()
        page.get_by_role("navigation").get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", level=1)).to_contain_text(heading)
    expect(page.locator("#tried td.held").first).to_contain_text("matches")
    page.locator("#tried td.held summary").first.click()
    expect(page.locator("#tried .why").first).to_contain_text("price is 20")
    page.goto("/schema")
    expect(page.locator(".picture svg")).to_be_visible()
    page.locator("summary", has_text="category").click()
    expect(page.get_by_text("golf clubs")).to_be_visible()
    fill_item(page, "5")
    page.get_by_role("button", name="Who would be told?").click()
    expect(page.get_by_role("status")).to_contain_text("Nothing was stored")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("published")
    assert errors == []


def test_what_needs_an_account_leads_to_the_login_and_back(context: BrowserContext) -> None:
    page, errors = watched(context)
    page.goto("/subscriptions")
    expect(page).to_have_url("/login?next=%2Fsubscriptions")
    page.get_by_role("main").get_by_role("link", name="Register").click()
    page.fill("[name=name]", "latecomer")
    page.fill("[name=password]", PASSWORD)
    page.fill("[name=again]", PASSWORD)
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Subscriptions")
    assert errors == []


def test_wrong_names_and_passwords_are_told_at_the_field(context: BrowserContext) -> None:
    page, errors = watched(context)
    register(page, "taken")
    forget(page)
    for name, password, again, message in (
        ("taken", PASSWORD, PASSWORD, "taken"),
        ("not a name", PASSWORD, PASSWORD, "letters, digits"),
        ("other", PASSWORD, PASSWORD + "x", "not the same"),
    ):
        page.goto("/register")
        page.fill("[name=name]", name)
        page.fill("[name=password]", password)
        page.fill("[name=again]", again)
        page.get_by_role("button", name="Register").click()
        expect(page.get_by_role("alert")).to_contain_text(message)
        expect(page.locator("[name=name]")).to_have_value(name)
    log_in(page, "taken", "not the password")
    expect(page.get_by_role("alert")).to_contain_text("not right")
    assert errors == []


def test_what_is_not_there_is_said_so(context: BrowserContext) -> None:
    page, _ = watched(context)
    answer = page.goto("/no-such-page")
    assert answer is not None
    assert answer.status == 404
    page.goto("/publish?type=no-such-type")
    expect(page.get_by_role("heading", level=1)).to_have_text("Publish an event")
