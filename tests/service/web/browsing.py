"""What the tests in a browser do again and again: register, log in, fill a form, watch for errors of scripts."""

from __future__ import annotations

import os
import shutil

import pytest
from playwright.sync_api import BrowserContext, Page, expect

CHROMIUM = os.environ.get("TOCSIN_CHROMIUM") or shutil.which("chromium")
PASSWORD = "correct horse battery"  # noqa: S105 - of test accounts
ADMIN_TOKEN = "toc_a-token-that-only-these-tests-know"  # noqa: S105 - of a service that lives as long as they do
IN_BROWSER = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("TOCSIN_SLOW"), reason="slow: set TOCSIN_SLOW=1 to run it"),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here; Debian: apt install chromium"),
]


def watched(context: BrowserContext) -> tuple[Page, list[str]]:
    """Return a page, and the list of its errors: scripts that fail, and what the content policy stops."""
    page, errors = context.new_page(), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if "Content Security" in message.text else None)
    return page, errors


def register(page: Page, name: str) -> None:
    """Make an account by the form."""
    page.goto("/register")
    page.fill("[name=name]", name)
    page.fill("[name=password]", PASSWORD)
    page.fill("[name=again]", PASSWORD)
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("status").first).to_contain_text("registered")


def log_in(page: Page, name: str, password: str = PASSWORD) -> None:
    """Log in by the form."""
    page.goto("/login")
    page.fill("[name=name]", name)
    page.fill("[name=password]", password)
    page.get_by_role("button", name="Log in").click()


def forget(page: Page) -> None:
    """Forget the session. The page is left first: a live one asks on, is told that nobody is there, and goes to log in."""
    page.goto("about:blank")
    page.context.clear_cookies()


def subscribe(page: Page, text: str) -> str:
    """Subscribe by the text; return the address of the subscription's page."""
    page.goto(f"/subscribe?text={text}")
    page.get_by_role("button", name="Subscribe").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Subscription #")
    return page.url.split("?")[0]


def fill_item(page: Page, price: str) -> None:
    """Fill the form of an item."""
    page.goto("/publish?type=item")
    for name, value in (("item", "i1"), ("title", "a lamp"), ("price", price), ("closes", "2030-01-01T00:00:00Z")):
        page.fill(f"[name='value.{name}']", value)
    page.fill("[name='value.seller.name']", "Tim")
    page.select_option("[name='value.category']", index=1)
