"""Routes: a path, what it takes and what it answers, said once where the handler is; OpenAPI is made of the same.

    @routes.on("POST", "/v1/subscriptions", "Subscribe", status=201, answer=SubscriptionReceipt)
    async def create(request: Request, body: SubscriptionRequest, principal: Principal, dry_run: bool = False): ...

A handler returns a document, or a response. Its parameters are what it takes: `request`, `principal` (whom the guard
found), `body` (a document), and the rest by name from the path, from the headers in `HEADERS`, or from the query. Types
are msgspec's, with their bounds. Every route passes the guard first, and has a row in its table.

Principals: who a request comes from, found by token, session or nothing, and held to the table of who may do what.

`guard` is what every route passes. It decides in this order: is the credential good (401), did a browser's
page of ours send it (403), does the role suffice (401 for guests, 403 for others), has it asked too often (429).

The table is by route and role; the app enforces it, and a test walks it. A route that is not in the table cannot be
mounted (`check_complete`). What an account owns is looked up by its owner's name in every handler, so another's looks like nothing: `owned` says where the test expects 404.

    anyone       also without an account, and with a wrong one
    guest        without an account where the operator lets guests read (TOCSIN_GUESTS=read or publish)
    publisher    without an account where the operator lets guests publish (TOCSIN_GUESTS=publish)
    ticket       the owner, or whoever holds the subscription's ticket
    member       whoever is logged in, or has an API token
    extender     an account of the role publisher, as far as the operator lets it (TOCSIN_SCHEMA_ADDITIONS), or admin
    admin        an account of that role
"""

from __future__ import annotations

import hmac
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from tocsin.documents.accounts import Scope
from tocsin.service.problems import BadRequest, Forbidden, InvalidFields, Throttled, Unauthenticated, WrongMediaType
from tocsin.store.accounts import Actor

if TYPE_CHECKING:
    from tocsin.service.service import Service

Needs = Literal["anyone", "guest", "publisher", "ticket", "member", "extender", "admin"]
UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True, slots=True)
class AccessRule:
    """What a route needs; `owned`: it is about one thing of one account, and another's is not there."""

    needs: Needs
    owned: bool = False


ANYONE, GUEST, PUBLISHER = AccessRule("anyone"), AccessRule("guest"), AccessRule("publisher")
MEMBER, OWNER, TICKET, ADMIN = (
    AccessRule("member"),
    AccessRule("member", owned=True),
    AccessRule("ticket", owned=True),
    AccessRule("admin"),
)
EXTENDER = AccessRule("extender")

TABLE: dict[tuple[str, str], AccessRule] = {
    # operations
    ("GET", "/healthz"): ANYONE,
    ("GET", "/readyz"): ANYONE,
    ("GET", "/metrics"): ANYONE,
    ("GET", "/openapi.json"): ANYONE,
    ("GET", "/asyncapi.json"): ANYONE,
    ("GET", "/docs"): ANYONE,
    ("GET", "/problems/{name}"): ANYONE,
    # schema
    ("GET", "/v1/schema"): GUEST,
    ("GET", "/v1/schema/history"): GUEST,
    ("GET", "/v1/schema/versions/{version}"): GUEST,
    ("GET", "/v1/schema/view"): GUEST,
    ("GET", "/v1/schema/dtd/{kind}"): GUEST,
    ("POST", "/v1/schema/extensions"): EXTENDER,
    ("GET", "/v1/schema/proposals"): MEMBER,
    ("POST", "/v1/schema/proposals/{number}/accept"): ADMIN,
    ("POST", "/v1/schema/proposals/{number}/refuse"): ADMIN,
    ("GET", "/v1/operators"): GUEST,
    # offers
    ("GET", "/v1/programs"): GUEST,
    ("POST", "/v1/offers/query"): MEMBER,
    ("GET", "/v1/offers"): MEMBER,
    ("DELETE", "/v1/offers/{seq}"): OWNER,
    # events
    ("POST", "/v1/events"): PUBLISHER,
    # subscriptions
    ("POST", "/v1/subscriptions"): MEMBER,
    ("POST", "/v1/subscriptions/bulk"): MEMBER,
    ("GET", "/v1/subscriptions"): MEMBER,
    ("GET", "/v1/subscriptions/{id}"): OWNER,
    ("PUT", "/v1/subscriptions/{id}"): OWNER,
    ("DELETE", "/v1/subscriptions/{id}"): TICKET,
    ("POST", "/v1/subscriptions/{id}/pause"): OWNER,
    ("POST", "/v1/subscriptions/{id}/resume"): OWNER,
    ("POST", "/v1/subscriptions/{id}/renew"): TICKET,
    ("GET", "/v1/subscriptions/{id}/delivery"): OWNER,
    ("PUT", "/v1/subscriptions/{id}/delivery"): OWNER,
    ("POST", "/v1/subscriptions/{id}/explain"): OWNER,
    ("GET", "/v1/subscriptions/{id}/plan"): OWNER,
    ("POST", "/v1/drafts/preview"): MEMBER,
    ("POST", "/v1/drafts/explain"): MEMBER,
    ("POST", "/v1/drafts/plan"): MEMBER,
    ("POST", "/v1/drafts/backfill"): MEMBER,
    ("POST", "/v1/drafts/backfills"): MEMBER,
    ("GET", "/v1/drafts/backfills/{id}"): OWNER,
    # notifications
    ("GET", "/v1/notifications"): MEMBER,
    ("POST", "/v1/notifications/acknowledge"): MEMBER,
    ("GET", "/v1/notifications/stream"): MEMBER,
    ("WS", "/v1/notifications/live"): MEMBER,
    ("GET", "/v1/notifications/{cursor}/why"): OWNER,
    ("GET", "/v1/inbox"): MEMBER,
    ("POST", "/v1/inbox/read"): MEMBER,
    # webhooks and dead letters
    ("POST", "/v1/webhooks"): MEMBER,
    ("GET", "/v1/webhooks"): MEMBER,
    ("GET", "/v1/webhooks/{id}"): OWNER,
    ("DELETE", "/v1/webhooks/{id}"): OWNER,
    ("POST", "/v1/webhooks/{id}/enable"): OWNER,
    ("POST", "/v1/webhooks/{id}/rotate"): OWNER,
    ("GET", "/v1/webhooks/{id}/deliveries"): OWNER,
    ("POST", "/v1/webhooks/{id}/deliveries/retry"): OWNER,
    ("POST", "/v1/webhooks/{id}/deliveries/skip"): OWNER,
    ("POST", "/v1/webhooks/{id}/replay"): OWNER,
    ("GET", "/v1/dead-letters"): MEMBER,
    ("POST", "/v1/dead-letters/{seq}/replay"): OWNER,
    # sites
    ("POST", "/v1/sites"): MEMBER,
    ("GET", "/v1/sites"): MEMBER,
    ("GET", "/v1/sites/{name}"): MEMBER,
    ("PATCH", "/v1/sites/{name}"): OWNER,
    ("DELETE", "/v1/sites/{name}"): OWNER,
    ("PUT", "/v1/sites/{name}/mapping"): OWNER,
    ("GET", "/v1/sites/{name}/mapping"): OWNER,
    ("GET", "/v1/sites/{name}/mappings"): OWNER,
    # accounts
    ("POST", "/v1/accounts"): ANYONE,
    ("GET", "/v1/accounts"): ADMIN,
    ("PATCH", "/v1/accounts/{name}"): ADMIN,
    ("GET", "/v1/account"): MEMBER,
    ("PUT", "/v1/account/password"): MEMBER,
    ("DELETE", "/v1/account"): MEMBER,
    ("GET", "/v1/account/audit"): MEMBER,
    ("GET", "/v1/account/costs"): MEMBER,
    ("GET", "/v1/costs"): ADMIN,
    ("DELETE", "/v1/accounts/{name}"): ADMIN,
    ("GET", "/v1/audit"): ADMIN,
    ("POST", "/v1/sessions"): ANYONE,
    ("GET", "/v1/sessions"): MEMBER,
    ("DELETE", "/v1/sessions/current"): MEMBER,
    ("DELETE", "/v1/sessions/{id}"): OWNER,
    ("GET", "/v1/tokens"): MEMBER,
    ("POST", "/v1/tokens"): MEMBER,
    ("DELETE", "/v1/tokens/{id}"): OWNER,
    # the thesis's requests; what each of them needs is in xml/replies.py
    ("POST", "/v1/xml"): GUEST,
}


def rule_of(method: str, path: str) -> AccessRule:
    """Return the rule of a route; a HEAD is as a GET. Raises KeyError where the table has none."""
    return TABLE["GET" if method == "HEAD" else method, path]


_PUBLISHING = ("/v1/events", "/v1/offers", "/v1/dead-letters", "/v1/sites")
_LOOKING = ("/v1/drafts", "/v1/offers/query", "/v1/notifications", "/v1/inbox", "/v1/xml")  # though they are posted
_ACCOUNT = ("/v1/account", "/v1/tokens", "/v1/sessions")


def scope_of(method: str, path: str) -> Scope:
    """Return what a token that was made for less than everything needs, beside the role.

    read        whatever changes nothing, and acknowledging what was read
    publish     events and offers, dead letters once more, sites to publish as; a publisher's extensions of the schema
    subscribe   subscriptions and webhooks
    account     the account itself: its credentials, password, audit trail and end
    admin       what needs the role admin
    """
    rule = rule_of(method, path)
    if rule.needs in ("admin", "extender"):
        return "admin"
    if path != "/v1/account" and path.startswith(_ACCOUNT):
        return "account"
    if method not in UNSAFE or path.startswith(_LOOKING) or path.endswith(("/explain", "/meet")):
        return "read"
    if path.startswith(_ACCOUNT):
        return "account"
    return "publish" if path.startswith(_PUBLISHING) else "subscribe"


def entries(routes: Iterable[BaseRoute]) -> set[tuple[str, str]]:
    """Return (method, path) of all routes; WS for a WebSocket."""
    found: set[tuple[str, str]] = set()
    for route in routes:
        if isinstance(route, WebSocketRoute):
            found.add(("WS", route.path))
        elif isinstance(route, Route):
            found |= {(method, route.path) for method in (route.methods or ()) if method != "HEAD"}
    return found


def check_complete(routes: Iterable[BaseRoute], pages: Iterable[tuple[str, str]] = ()) -> None:
    """Raise where a route is not in the table, nor a page with its own rule, so that it is never served."""
    if missing := sorted(entries(routes) - set(TABLE) - set(pages)):
        raise LookupError(f"these routes have no rule in service/routing.py: {missing}")


SESSION_COOKIE = "tocsin_session"
DEVICE_COOKIE = "tocsin_device"  # of a browser that was logged in before; opens nothing
CSRF_HEADER = "x-csrf-token"
TICKET_HEADER = "tocsin-ticket"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: an account, or a guest, whose name is empty."""

    name: str
    number: int
    role: str  # guest, member, publisher, admin
    way: str  # token, session, none
    quotas: Mapping[str, int] = field(default_factory=dict)
    csrf: str = field(default="", repr=False)
    credential: bytes = field(default=b"", repr=False)  # the hash of the token or session
    credential_id: int | None = None
    scopes: frozenset[str] | None = None  # what a token may do; None: whatever its account may
    address: str = ""

    @property
    def is_guest(self) -> bool:
        return self.role == "guest"

    def may(self, scope: Scope) -> bool:
        """Return whether the credential by which somebody came is good for this."""
        return self.scopes is None or scope in self.scopes

    @property
    def actor(self) -> Actor:
        """Who it is in the audit trail."""
        return Actor(self.number, self.name, self.credential_id, self.address)


def service_of(connection: HTTPConnection) -> Service:
    """Return the service that the app belongs to."""
    service: Service = connection.app.state.service
    return service


async def guard(connection: HTTPConnection) -> Principal:
    """Return who asks; raises a refusal where the table says so."""
    service = service_of(connection)
    method = "WS" if connection.scope["type"] == "websocket" else connection.scope["method"]
    rule = rule_of(method, connection.scope["route"].path)
    principal = await identify(service, connection, rule)
    if rule.needs == "anyone":
        if method in UNSAFE and not same_site(service, connection):
            raise Forbidden("a page of another site sent this")
    elif principal.way == "session" and (method in UNSAFE or method == "WS"):
        _check_browser(service, connection, principal, method)
    _check_role(service, connection, principal, rule)
    _check_scope(principal, rule, scope_of(method, connection.scope["route"].path))
    _throttle(service, connection, principal)
    connection.scope["tocsin.principal"] = principal
    connection.scope["tocsin.who"] = principal.name or "guest"
    return principal


async def identify(service: Service, connection: HTTPConnection, rule: AccessRule) -> Principal:
    """Return the account that the credential belongs to, or a guest where there is none."""
    address = connection.client.host if connection.client else ""
    guest = Principal("", 0, "guest", "none", address=address)
    try:
        found = await _by_credential(service, connection)
        return guest if found is None else replace(found, address=address)
    except Unauthenticated:
        if rule.needs == "anyone":
            return guest
        raise


async def _by_credential(service: Service, connection: HTTPConnection) -> Principal | None:
    authorization = connection.headers.get("authorization")
    if authorization is not None:
        scheme, _, token = authorization.partition(" ")
        found = await service.identities.by_token(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            raise Unauthenticated("the token is not good: unknown, expired or revoked")
        return found
    if (secret := connection.cookies.get(SESSION_COOKIE)) is not None:
        found = await service.identities.by_session(secret)
        if found is None:
            raise Unauthenticated("the session is over; log in again")
        return found
    return None


def same_site(service: Service, connection: HTTPConnection) -> bool:
    """Return whether the request comes from a page of ours, or from no page at all."""
    if connection.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = connection.headers.get("origin")
    if origin is None:
        return True
    host = connection.headers.get("host", "")
    return origin in service.settings.origins or origin in (f"http://{host}", f"https://{host}")


def _check_browser(service: Service, connection: HTTPConnection, principal: Principal, method: str) -> None:
    """A cookie is sent by any page; only ours know the session's CSRF token, and only ours have our origin."""
    if not same_site(service, connection):
        raise Forbidden("a page of another site sent this")
    if method == "WS":
        if connection.headers.get("origin") is None:
            raise Forbidden("a WebSocket with a session says which page opened it; use a token otherwise")
    elif not hmac.compare_digest(connection.headers.get(CSRF_HEADER, "").encode(), principal.csrf.encode()):
        raise Forbidden(f"the header {CSRF_HEADER} must carry the session's CSRF token; or use an API token")


def _check_role(service: Service, connection: HTTPConnection, principal: Principal, rule: AccessRule) -> None:
    guests = service.settings.guests
    if rule.needs == "anyone":
        return
    if principal.is_guest:
        allowed = (
            (rule.needs == "guest" and guests != "none")
            or (rule.needs == "publisher" and guests == "publish")
            or (rule.needs == "ticket" and TICKET_HEADER in connection.headers)
        )
        if not allowed:
            raise Unauthenticated("this needs an account: send Authorization: Bearer TOKEN, or log in")
    elif rule.needs == "admin" and principal.role != "admin":
        raise Forbidden("this needs an account of the role admin")
    elif rule.needs == "extender":
        check_extender(service, principal)


def check_extender(service: Service, principal: Principal) -> None:
    """Raise Forbidden unless somebody may extend the schema, or propose to."""
    if principal.role != "admin" and service.settings.schema_additions == "admins":
        raise Forbidden("here only admins extend the schema")
    if principal.role not in ("publisher", "admin"):
        raise Forbidden("this needs an account of the role publisher, or admin")


def _check_scope(principal: Principal, rule: AccessRule, scope: Scope) -> None:
    if rule.needs == "extender" and principal.role == "publisher" and principal.may("publish"):
        return  # who is no admin has no token for what admins do
    if rule.needs != "anyone" and not principal.may(scope):
        raise Forbidden(f"this token is not good for that: it lacks the scope {scope}")


def _throttle(service: Service, connection: HTTPConnection, principal: Principal) -> None:
    who = principal.name or principal.address
    most = principal.quotas.get("requests_per_minute", service.settings.requests_per_minute)
    standing = service.requests.take(who, 1, most)
    connection.scope["tocsin.rate"] = standing
    if not standing.granted:
        raise Throttled(f"{most} requests a minute are the most", standing.again_seconds)


# --- Routes -----------------------------------------------------------------------------------------------------------


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
