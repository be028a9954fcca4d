"""The short cut: publishing goes from the edge straight to the guard and its handler.

What a framework does around a handler (routing, contexts for dependencies, parameters found by reflection) costs more
than storing an event does. A publish without parameters in its URL needs none of it. The answer is the same, and so are
the table of access, the limits and the problems; only what is left out is quicker.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from tocsin.errors import TocsinError
from tocsin.service.principal import guard
from tocsin.service.problems import answer_of
from tocsin.service.routes.events import take

PATH = "/v1/events"


class Shortcut:
    """Stands between the edge and the app."""

    def __init__(self, app: ASGIApp, routes: list[BaseRoute]) -> None:
        self._app = app
        self._route = next(route for route in routes if getattr(route, "path", "") == PATH)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST" or scope["query_string"]:
            await self._app(scope, receive, send)
            return
        scope["route"] = self._route  # by which the guard finds the rule, and the edge what to count
        request = Request(scope, receive)
        try:
            response = await take(request, await guard(request))
        except TocsinError as error:
            response = await answer_of(request, error)
        await response(scope, receive, send)
