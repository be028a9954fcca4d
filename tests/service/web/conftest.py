"""A service in a process of its own and a real browser, for the tests of the pages in Chromium.

They need Chromium (Debian: apt install chromium); TOCSIN_CHROMIUM names another.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.service.web.browsing import ADMIN_TOKEN, CHROMIUM


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of a service."""
    with serving(tmp_path_factory.mktemp("service")) as found:
        yield found


@pytest.fixture(scope="session")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of a service whose schema has a union."""
    with serving(tmp_path_factory.mktemp("market"), TOCSIN_SCHEMA="insurance") as found:
        yield found


@contextmanager
def serving(folder: Path, **settings: str) -> Iterator[str]:
    """Give the address of a service that lives as long as the block."""
    code = "from tocsin.cli import main; main()"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
    environment |= {
        "TOCSIN_ENGINE": "definition",  # which has nothing to compile while somebody waits for a page
        "TOCSIN_ADMIN_TOKEN": ADMIN_TOKEN,
        "TOCSIN_REGISTRATIONS_PER_HOUR": "1000",
        "TOCSIN_LOGINS_PER_MINUTE": "1000",
        **settings,
    }
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


@pytest.fixture(scope="session")
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


@pytest.fixture
def market_context(chromium: Browser, market: str) -> Iterator[BrowserContext]:
    """Give the same at the market."""
    opened = chromium.new_context(base_url=market)
    opened.set_default_timeout(15_000)
    yield opened
    opened.close()


@pytest.fixture
def plain(chromium: Browser, address: str) -> Iterator[BrowserContext]:
    """Give a browser's context without JavaScript."""
    opened = chromium.new_context(base_url=address, java_script_enabled=False)
    opened.set_default_timeout(15_000)
    yield opened
    opened.close()
