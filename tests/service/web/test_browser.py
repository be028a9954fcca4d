"""The pages in a real browser: what a person does, also what moves by itself.

Needs Chromium (Debian: apt install chromium); TOCSIN_CHROMIUM names another. Slow, so only with TOCSIN_SLOW=1, and
skipped, with the reason, where there is no browser.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

CHROMIUM = os.environ.get("TOCSIN_CHROMIUM") or shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("TOCSIN_SLOW"), reason="slow: set TOCSIN_SLOW=1 to run it"),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here; Debian: apt install chromium"),
]
PASSWORD = "correct horse battery"  # noqa: S105 - of a test account
AXE = Path(__file__).parent / "axe.min.js"
PAGES = (
    "/", "/try", "/schema", "/subscribe?type=item", "/publish?type=item", "/subscriptions", "/matches", "/dashboard",
    "/account", "/webhooks", "/dead-letters",
)  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of a service in a process of its own."""
    folder = tmp_path_factory.mktemp("service")
    code = "from tocsin.cli import main; main()"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
    environment["TOCSIN_ENGINE"] = "definition"  # which has nothing to compile while somebody waits for a page
    command = [sys.executable, "-c", code, "serve", "--store", str(folder / "store.db"), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--guests", "publish", "--log-level", "error"], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "serves http" in line:
            yield line.split()[-1]
            break
    process.terminate()
    process.wait(20)
    process.stdout.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Give a browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Browser, address: str) -> Iterator[BrowserContext]:
    """Give a browser's context of its own, with its own cookies."""
    opened = chromium.new_context(base_url=address)
    opened.set_default_timeout(15_000)
    yield opened
    opened.close()


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
    expect(page.get_by_role("status")).to_contain_text("registered")


def fill_item(page: Page, price: str) -> None:
    """Fill the form of an item."""
    page.goto("/publish?type=item")
    for name, value in (("item", "i1"), ("title", "a lamp"), ("price", price), ("closes", "2030-01-01T00:00:00Z")):
        page.fill(f"[name='value.{name}']", value)
    page.fill("[name='value.seller.name']", "Tim")
    page.select_option("[name='value.category']", index=1)


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

    page.goto("/matches")
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
    wrong: list[str] = []
    for path in PAGES:
        page.goto(path)
        if not page.evaluate("document.documentElement.scrollWidth <= window.innerWidth + 1"):
            wrong.append(f"{path} is too wide for a phone")
        page.add_script_tag(path=AXE)
        found = page.evaluate(
            "axe.run({resultTypes: ['violations']})"
            ".then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).slice(0, 3).join(' | ')))"
        )
        wrong += [f"{path}: {one}" for one in found]
    context.close()
    assert wrong == []
