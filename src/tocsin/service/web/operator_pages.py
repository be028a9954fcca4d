"""Pages of the operators: which subscriptions may call, how, and a form to try one on an event."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from tocsin.errors import TocsinError
from tocsin.language import Explanation
from tocsin.language.documents import decode
from tocsin.service.problems import Invalid, Throttled
from tocsin.service.web.visit import Pages, Visit

pages = Pages()
MOST_TEXT, MOST_EVENT = 4 << 10, 256 << 10
_trials = asyncio.Semaphore(2)  # operators may take long, in threads that others need too


@pages.get("/operators", "guest")
async def show(visit: Visit) -> Response:
    """List the operators."""
    return _page(visit, {"text": "", "event": ""})


@pages.post("/operators", "member")
async def attempt(visit: Visit) -> Response:
    """Say what a subscription makes of an event, with what each operator found; nothing is stored."""
    given = {"text": visit.text("text"), "event": visit.text("event")}
    try:
        return _page(visit, given, told=await _explain(visit, **given))
    except TocsinError as error:
        return _page(visit, given, error=str(error), status=422)


def _page(visit: Visit, given: dict[str, str], *, status: int = 200, **more: Any) -> Response:
    listed = sorted(visit.service.broker.operators, key=lambda each: each.name)
    context = {"operators": listed, "given": given, "told": None, "error": "", **more}
    return visit.page("_explained.html" if visit.by_htmx else "operators.html", status, **context)


async def _explain(visit: Visit, text: str, event: str) -> Explanation:
    """Return the explanation; at most a few are made at a time."""
    if len(text) > MOST_TEXT or len(event) > MOST_EVENT:
        raise Invalid(f"here at most {MOST_TEXT >> 10} KiB of text, and {MOST_EVENT >> 10} KiB of an event")
    if _trials.locked():
        raise Throttled("others are trying operators just now; try again in a moment", 1.0)
    async with _trials:
        return await asyncio.to_thread(visit.service.broker.explain_draft, decode(event), text)
