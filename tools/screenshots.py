"""Takes the pictures of docs/web/ from a running demo.

    make serve                                              # in one window
    python tools/screenshots.py http://127.0.0.1:8080       # in another

Pages are shot as the visitor of the demo sees them; with --all also every page light, dark and at the width of a phone,
to look at.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

FOLDER = Path(__file__).parents[1] / "docs" / "web"
VISITOR, PASSWORD = "visitor", "let me look around"
DRAFT = "item where category kind of 'bedroom' and price < 40"
PAGES = {
    "home": "/", "try": "/try", "meet": "/meet", "schema": "/schema", "types": "/subscribe", "subscribe": f"/subscribe?text={DRAFT}",
    "publish": "/publish?type=item&example=1", "subscriptions": "/subscriptions", "inbox": "/inbox",
    "dashboard": "/dashboard", "account": "/account", "webhooks": "/webhooks", "dead-letters": "/dead-letters",
    "operators": "/operators",
}  # fmt: skip
IN_DOCS = {"subscribe", "subscriptions", "inbox", "dashboard", "schema", "meet"}
WHOLE = ("dashboard", "subscriptions", "meet")  # shot to their ends


def shoot(browser: Browser, url: str, folder: Path, looks: str, names: set[str]) -> None:
    """Take pages in one look: light, dark or phone."""
    width = 390 if looks == "phone" else 1100
    context = browser.new_context(
        base_url=url, viewport={"width": width, "height": 780}, color_scheme="dark" if looks == "dark" else "light"
    )
    page = context.new_page()
    prefix = "" if folder == FOLDER else f"{looks}-"
    page.goto("/")
    page.screenshot(path=folder / f"{prefix}front.png")
    page.goto("/login")
    page.fill("[name=name]", VISITOR)
    page.fill("[name=password]", PASSWORD)
    page.get_by_role("button", name="Log in").click()
    for name, path in PAGES.items():
        if name in names:
            page.goto(path)
            page.wait_for_timeout(2500 if name in ("inbox", "dashboard") else 300)
            page.screenshot(path=folder / f"{prefix}{name}.png", full_page=name in WHOLE)
    _why(page, folder / f"{prefix}why.png")
    if prefix:
        page.goto("/subscriptions")
        page.locator("tbody a").first.click()
        page.screenshot(path=folder / f"{prefix}subscription.png")
    context.close()


def _why(page: Page, path: Path) -> None:
    page.goto("/inbox")
    page.goto(page.locator(".feed").get_by_role("link", name="why").first.get_attribute("href") or "/inbox")
    page.screenshot(path=path)


def main() -> None:
    """Take them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--all", type=Path, help="a folder for every page in every look")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        shoot(browser, options.url, FOLDER, "light", IN_DOCS)
        if options.all:
            options.all.mkdir(parents=True, exist_ok=True)
            for looks in ("light", "dark", "phone"):
                shoot(browser, options.url, options.all, looks, set(PAGES))
        browser.close()


if __name__ == "__main__":
    main()
