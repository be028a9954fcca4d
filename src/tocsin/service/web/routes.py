"""All pages as routes, with the rules that hold for them, and the files that they load."""

from __future__ import annotations

from pathlib import Path

from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from tocsin.service.routing import AccessRule
from tocsin.service.web import (
    accounts,
    dashboard_pages,
    match_pages,
    publishing_pages,
    schema_pages,
    subscribing_pages,
    try_pages,
)

_ALL = (
    match_pages.pages, accounts.pages, schema_pages.pages, publishing_pages.pages, subscribing_pages.pages,
    try_pages.pages, dashboard_pages.pages,
)  # fmt: skip
RULES: dict[tuple[str, str], AccessRule] = {key: rule for pages in _ALL for key, rule in pages.rules.items()}


def page_routes() -> list[BaseRoute]:
    """Return the routes of the web application."""
    static = StaticFiles(directory=Path(__file__).parent / "static")
    return [*(route for pages in _ALL for route in pages.routes), Mount("/static", static)]
