"""An admin in a real browser: the schema grows by the four rules, accounts are disabled and promoted."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, expect

from tests.service.web.browsing import ADMIN_TOKEN, IN_BROWSER, forget, log_in, register, watched

pytestmark = IN_BROWSER


def test_an_admin_extends_the_schema_by_the_four_rules(context: BrowserContext) -> None:
    page, errors = watched(context)
    log_in(page, "admin", ADMIN_TOKEN)

    def extend(title: str, button: str = "Put in force", **fields: str) -> None:
        page.goto("/schema/extend")
        article = page.locator("article", has=page.get_by_role("heading", name=title))
        for name, value in fields.items():
            field = article.locator(f"[name={name}]")
            if field.first.evaluate("one => one.tagName") == "SELECT":
                field.select_option(value)
            elif field.first.get_attribute("type") == "checkbox":
                article.locator(f"[name={name}][value='{value}']").check()
            else:
                field.fill(value)
        article.get_by_role("button", name=button).click()

    extend("Add a domain", name="style", kind="hierarchical", values="modern\n  bauhaus\nbaroque")
    expect(page.get_by_role("status").first).to_contain_text("was extended")
    extend("Add an attribute", name="style", domain="style")
    extend("Extend an event type", "Whom would it affect?", event_type="item", attribute="style")
    expect(page.get_by_role("status")).to_contain_text("All stay valid")
    extend("Extend an event type", event_type="item", attribute="style")
    extend("Add an event type", name="exhibition", attributes="style", mandatory="style")
    expect(page.get_by_role("status").first).to_contain_text("was extended")
    extend("Add an attribute", name="style", domain="style")
    expect(page.get_by_role("alert")).to_contain_text("style")  # there is one already
    extend("Add a domain", name="empty", kind="enumerated")
    expect(page.get_by_role("alert")).to_be_visible()
    page.goto("/schema")
    expect(page.locator(".history")).to_contain_text("admin: event type exhibition")
    page.goto("/publish?type=exhibition&example=1")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("published")
    assert errors == []


def test_an_admin_disables_enables_and_promotes_accounts(context: BrowserContext) -> None:
    page, errors = watched(context)
    register(page, "rowdy")
    forget(page)
    log_in(page, "admin", ADMIN_TOKEN)
    page.goto("/accounts")
    row = page.locator("tr", has_text="rowdy")
    row.get_by_role("button", name="Disable").click()
    expect(row).to_contain_text("disabled")
    forget(page)
    log_in(page, "rowdy")
    expect(page.get_by_role("alert")).to_be_visible()
    log_in(page, "admin", ADMIN_TOKEN)
    page.goto("/accounts")
    row.get_by_role("button", name="Enable").click()
    row.get_by_role("button", name="Make an admin").click()
    expect(row).to_contain_text("admin")
    forget(page)
    log_in(page, "rowdy")
    page.goto("/accounts")
    expect(page.get_by_role("heading", level=1)).to_have_text("Accounts")
    page.goto("/dead-letters")
    expect(page.get_by_role("main")).to_contain_text("Events of everybody")
    assert errors == []
