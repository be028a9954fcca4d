"""Routes: a path, what it takes and what it answers, said once where the handler is; OpenAPI is made of the same.

    @routes.on("POST", "/v1/subscriptions", "Subscribe", status=201, answer=SubscriptionReceipt)
    async def create(request: Request, body: SubscriptionRequest, principal: Principal, dry_run: bool = False): ...

A handler returns a document, or a response. Its parameters are what it takes: `request`, `principal` (whom
the guard found), `body` (a document), and the rest by name from the path, from the headers in `HEADERS`, or from the query. Types are msgspec's, with their bounds.
Every route passes the guard of principal.py first, and has a row in its table.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from tocsin.service.principal import TICKET_HEADER, guard
from tocsin.service.problems import BadRequest, InvalidFields, WrongMediaType

Handler = Callable[..., Awaitable[Any]]
H = TypeVar("H", bound=Handler)
Responses = Mapping[int, str | tuple[str, Any]]  # status -> when, and with which document where it is not a problem
JSON = "application/json"
HEADERS = {
    "key": "Idempotency-Key",
    "if_match": "If-Match",
    "ticket": TICKET_HEADER,
    "last_event_id": "Last-Event-ID",
}
_GIVEN = ("request", "socket", "principal", "body")
_encode = msgspec.json.Encoder().encode
_PLACE = re.compile(r"^(.*) - at `(?:key in )?\$\.?(.*)`$", re.DOTALL)


def json_response(document: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a document as a response."""
    return Response(_encode(document), status, headers, media_type=JSON)


class Parameters:
    """What a handler takes from a request's path, query and headers."""

    def __init__(self, handler: Handler, path: str) -> None:
        hints = get_type_hints(handler, include_extras=True)
        signature = inspect.signature(handler).parameters
        self.takes = frozenset(name for name in _GIVEN if name in signature)
        self.body: Any = _given(hints.get("body"))
        self.body_is_required = "body" in signature and signature["body"].default is inspect.Parameter.empty
        in_path = set(re.findall(r"{(\w+)}", path))
        self.place = {
            name: "path" if name in in_path else "header" if name in HEADERS else "query"
            for name in signature
            if name not in _GIVEN
        }
        fields = [
            (name, hints[name]) if (default := signature[name].default) is inspect.Parameter.empty
            else (name, hints[name], default)
            for name in self.place
        ]  # fmt: skip
        self.struct = msgspec.defstruct(f"{handler.__name__}_parameters", fields, kw_only=True) if fields else None
        self._lists = {name for name in self.place if _is_list(hints[name])}
        self._queries = sorted(name for name, place in self.place.items() if place == "query")

    def read(self, request: HTTPConnection) -> dict[str, Any]:
        """Return them by name; raises InvalidFields, also where the query says what nobody here reads."""
        if unknown := [name for name in request.query_params if name not in self._queries]:
            known = f"known here: {', '.join(self._queries)}" if self._queries else "there are none here"
            errors = [{"place": f"query/{name}"[:100], "message": f"unknown; {known}"} for name in unknown[:10]]
            raise InvalidFields(f"unknown query parameter {unknown[0][:100]!r}; {known}", errors=errors)
        if self.struct is None:
            return {}
        given: dict[str, Any] = {}
        for name, place in self.place.items():
            if place == "path":
                given[name] = request.path_params[name]
            elif place == "header":
                given[name] = request.headers.get(HEADERS[name])
            elif name in self._lists:
                given[name] = request.query_params.getlist(name) or None
            else:
                given[name] = request.query_params.get(name)
        try:
            found = msgspec.convert(
                {name: value for name, value in given.items() if value is not None}, self.struct, strict=False
            )
        except msgspec.ValidationError as error:
            raise invalid(error, self.place) from None
        return {name: getattr(found, name) for name in self.place}

    async def read_body(self, request: Request) -> Any:
        """Return the document of a request's body; raises WrongMediaType, BadRequest, InvalidFields."""
        body = await request.body()
        if not body.strip() and not self.body_is_required:
            return None
        if "json" not in request.headers.get("content-type", JSON).lower():
            raise WrongMediaType(f"the body is sent as {JSON}")
        try:
            return msgspec.json.decode(body, type=self.body)
        except msgspec.ValidationError as error:
            raise invalid(error, {}) from None
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise BadRequest(f"the body is not JSON: {error}") from None


def _given(hint: Any) -> Any:
    """Return the document of a body that may be left out."""
    return next((one for one in get_args(hint) if one is not type(None)), hint)


def _is_list(hint: Any) -> bool:
    return get_origin(hint) is list or any(_is_list(one) for one in get_args(hint) if not isinstance(one, str))


def invalid(error: msgspec.ValidationError, places: Mapping[str, str]) -> InvalidFields:
    """Return the refusal that says which field is wrong, and how."""
    found = _PLACE.match(str(error))
    message, field = (found[1], found[2]) if found else (str(error), "")
    place = f"{places.get(field, 'query')}/{field}" if places else f"body/{field}".rstrip("/")
    return InvalidFields(f"{place}: {message}", errors=[{"place": place, "message": message[:1000]}])


@dataclass(frozen=True, slots=True)
class Described:
    """What OpenAPI says of a route, beside its parameters."""

    summary: str
    answer: Any
    status: int
    responses: Responses
    media: Mapping[str, Any] | None
    body: Mapping[str, Any] | None
    shown: bool


class ApiRoute(Route):
    """A route with what OpenAPI says of it. A HEAD is not a GET: a stream would have no end."""

    def __init__(self, method: str, path: str, handler: Handler, tag: str, described: Described) -> None:
        self.parameters = Parameters(handler, path)
        self.handler, self.tag, self.described = handler, tag, described
        super().__init__(path, self._serve, methods=[method])
        self.methods = {method}

    async def _serve(self, request: Request) -> Response:
        request.scope["route"] = self  # by which the guard finds the rule, and the edge what to count
        principal = await guard(request)
        parameters = self.parameters
        given: dict[str, Any] = parameters.read(request)
        if "request" in parameters.takes:
            given["request"] = request
        if "principal" in parameters.takes:
            given["principal"] = principal
        if "body" in parameters.takes:
            given["body"] = await parameters.read_body(request)
        answer = await self.handler(**given)
        if isinstance(answer, Response):
            return answer
        return Response(status_code=204) if answer is None else json_response(answer, self.described.status)


class Routes:
    """The routes of one resource."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self.routes: list[BaseRoute] = []

    def on(
        self,
        method: str,
        path: str,
        summary: str,
        *,
        answer: Any = None,
        status: int = 200,
        responses: Responses | None = None,
        media: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        shown: bool = True,
    ) -> Callable[[H], H]:
        """Serve a path.

        For OpenAPI: `answer` is the document (or documents) that comes back with `status`, in JSON or in the `media`
        types; `responses` say when there are others; `body` has the media types of bodies read by hand.
        """
        described = Described(summary, answer, status, responses or {}, media, body, shown)

        def add(handler: H) -> H:
            self.routes.append(ApiRoute(method, path, handler, self._tag, described))
            return handler

        return add

    def websocket(self, path: str) -> Callable[[H], H]:
        """Serve a WebSocket."""

        def add(handler: H) -> H:
            parameters = Parameters(handler, path)

            async def serve(socket: WebSocket) -> None:
                socket.scope["route"] = route
                principal = await guard(socket)
                await handler(socket=socket, principal=principal, **parameters.read(socket))

            route = WebSocketRoute(path, serve)
            self.routes.append(route)
            return handler

        return add


# Entity tags: "7" stands for generation or version 7 of a thing.


def etag(number: int) -> str:
    """Return the tag of a version."""
    return f'"{number}"'


def expected(if_match: str | None) -> int | None:
    """Return the version that If-Match asks for; None where any will do. Raises BadRequest."""
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix("W/").strip('"')
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadRequest('If-Match: send the ETag as it came, such as "3"')
    return int(text)
