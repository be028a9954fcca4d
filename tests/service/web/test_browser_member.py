"""A member in a real browser: subscriptions over their life, drafts and their warnings, webhooks, tokens, dead letters."""

from __future__ import annotations

import httpx
from playwright.sync_api import BrowserContext, expect

from tests.service.web.browsing import IN_BROWSER, PASSWORD, fill_item, forget, log_in, register, subscribe, watched

pytestmark = IN_BROWSER


def test_a_subscription_is_edited_paused_renewed_asked_and_ended(context: BrowserContext) -> None:
    page, errors = watched(context)
    register(page, "keeper")
    mine = subscribe(page, "item where price < 10 and brand = 'mini'")
    page.get_by_role("button", name="Edit").click()
    page.locator("#text").fill("item where price < 20")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").first).to_contain_text("asks for the new thing")
    for button, told in (("Pause", "paused"), ("Resume", "matches again"), ("Renew", "renewed")):
        page.get_by_role("button", name=button).click()
        expect(page.get_by_role("status").first).to_contain_text(told)
    page.get_by_label("An event as JSON").fill('{"event_type": "item", "price": 30}')
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#explained .error")).to_contain_text("item")  # what is mandatory is missing
    fill_item(page, "25")
    page.get_by_role("button", name="Publish", exact=True).click()
    page.goto(mine)
    expect(page.locator("section", has_text="Near misses")).to_contain_text("price < 20")
    page.get_by_role("button", name="End it").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("End this subscription?")
    page.get_by_role("button", name="End it").click()
    expect(page.get_by_role("status").first).to_contain_text("has ended")
    assert errors == []


def test_drafts_warn_of_what_never_holds_always_holds_or_is_covered(context: BrowserContext) -> None:
    page, errors = watched(context)
    register(page, "drafter")
    subscribe(page, "item where price < 50")
    page.goto("/subscribe?type=item")
    expect(page.locator("#preview")).to_contain_text("So far it asks for every event")
    text = page.locator("#text")
    for draft, warning in (
        ("item where price < 1 and price > 2", "can never hold"),
        ("item where price is present or price is absent", "always holds"),
        ("item where price < 20 and brand = 'mini'", "covered by another of yours"),
        ("item, bid where price < 90", "matches everything that"),
        ("item where price <", "expected"),
    ):
        text.fill(draft)
        expect(page.locator("#preview")).to_contain_text(warning, ignore_case=True)
    assert errors == []


def test_webhooks_tokens_and_the_password(context: BrowserContext) -> None:
    page, errors = watched(context)
    register(page, "hooked")
    page.goto("/webhooks")
    page.fill("[name=url]", "http://127.0.0.1:9/hook")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("alert")).to_be_visible()  # an inward address
    page.goto("/account")
    page.fill("[name=name]", "laptop")
    page.get_by_role("button", name="Make a token").click()
    expect(page.get_by_role("status")).to_contain_text("toc_")
    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("button", name="Revoke it").click()
    expect(page.get_by_role("status").first).to_contain_text("revoked")
    page.fill("[name=old]", "not the password")
    page.fill("[name=new]", "another long password")
    page.get_by_role("button", name="Change").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.fill("[name=old]", PASSWORD)
    page.fill("[name=new]", "another long password")
    page.get_by_role("button", name="Change").click()
    expect(page.get_by_role("status").first).to_contain_text("password was changed")
    log_in(page, "hooked", "another long password")
    expect(page.get_by_role("heading", level=1)).to_contain_text("hooked")
    assert errors == []


def test_a_dead_letter_is_mended_where_it_stands(context: BrowserContext, address: str) -> None:
    page, errors = watched(context)
    register(page, "sender")
    page.goto("/account")
    page.fill("[name=name]", "program")
    page.get_by_role("button", name="Make a token").click()
    token = page.locator("article.done code").inner_text()
    bad = {"event_type": "question", "item": "i9", "title": "x", "at": "2026-01-01T00:00:00Z", "question": 7}
    headers = {"authorization": f"Bearer {token}"}
    assert httpx.post(f"{address}/v1/events?atomic=false", json=bad, headers=headers).status_code < 300
    page.goto("/dead-letters")
    letter = page.get_by_label("The event")
    letter.fill('{"event_type": "question"}')
    page.get_by_role("button", name="Publish again").click()
    expect(page.get_by_role("alert")).to_contain_text("item")
    expect(letter).to_have_value('{"event_type": "question"}')
    letter.fill('{"event_type": "question", "item": "i9", "title": "x", "at": "2026-01-01T00:00:00Z", "question": "?"}')
    page.get_by_role("button", name="Publish again").click()
    expect(page.get_by_role("status")).to_contain_text("published")
    assert errors == []


def test_what_belongs_to_others_is_not_there(context: BrowserContext) -> None:
    page, _ = watched(context)
    register(page, "owner")
    theirs = subscribe(page, "item where price < 3")
    forget(page)
    register(page, "stranger")
    for path, status in ((theirs, 404), ("/accounts", 403), ("/schema/extend", 403), ("/subscriptions/999999", 404)):
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == status
        expect(page.get_by_role("alert")).to_be_visible()
