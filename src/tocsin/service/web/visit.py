"""A visit: one request for a page, by somebody. `Pages` collects the handlers and holds every visit to its rule.

    @pages.get("/subscriptions", "member")
    async def mine(visit: Visit) -> Response: ...

The rules are those of service/routing.py. Who lacks an account is led to the login, and back. A form must come from a
page of ours and, in a session, carry its CSRF token in the field `csrf`.

Templates: Jinja2, everything escaped, an unknown name an error.
"""

from __future__ import annotations

import functools
import hmac
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tocsin import __version__
from tocsin.errors import TocsinError
from tocsin.service.problems import Forbidden, Throttled, Unauthenticated, problem_of
from tocsin.service.routing import CSRF_HEADER, AccessRule, Principal, identify, same_site, service_of
from tocsin.service.service import Service

DONE = {
    "registered": "Welcome. You are registered and logged in.",
    "subscribed": "The subscription is in force: every event published from now on is matched against it.",
    "replaced": "The subscription asks for the new thing, from now on.",
    "paused": "The subscription is paused: it matches nothing until it is resumed. Its lease runs on.",
    "resumed": "The subscription matches again what is published from now on.",
    "renewed": "The lease was renewed.",
    "ended": "The subscription has ended. Nothing more will be sent for it.",
    "published": "The event was published.",
    "extended": "The schema was extended.",
    "password": "The password was changed, and all sessions ended. Log in again.",
    "revoked": "The token was revoked, and with it what was got by it.",
    "session-ended": "The session has ended.",
    "removed": "The webhook was removed.",
    "enabled": "The webhook is enabled.",
    "changed": "The account was changed.",
    "logged-out": "You are logged out.",
}


@functools.cache
def environment() -> Environment:
    """Return the templates of the package."""
    made = Environment(
        loader=PackageLoader("tocsin.service.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"shown": shown, "moment": moment, "left": time_left, "about": about}
    made.globals |= {"version": __version__, "DONE": DONE}
    return made


def render(template: str, context: Mapping[str, Any]) -> str:
    """Return a template filled in."""
    return environment().get_template(template).render(context)


def shown(value: object) -> str:
    """Return a value of an event as people read it."""
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float | Decimal):
        return str(value)
    return msgspec.json.encode(value).decode()


def about(value: float) -> str:
    """Return a number to three digits, as people write it: 553,000 rather than 5.53e+05."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    return f"{rounded:,.0f}" if digits <= 0 else f"{rounded:,.{digits}f}".rstrip("0").rstrip(".")


def moment(at: datetime) -> str:
    """Return an instant to the second, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def time_left(until: datetime, now: datetime) -> str:
    """Return how long it is until then, in the largest unit that says something."""
    seconds = (until - now).total_seconds()
    if seconds <= 0:
        return "over"
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * size or (unit != "day" and seconds >= size):
            count = int(seconds // size)
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{int(seconds)} seconds"


Needs = Literal["anyone", "guest", "publisher", "member", "admin"]
MOST_FIELDS = 2000
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


@dataclass(frozen=True)
class Visit:
    """Who asks for a page, and what the form says."""

    request: Request
    service: Service
    principal: Principal
    form: FormData = field(default_factory=FormData)

    @property
    def by_htmx(self) -> bool:
        """Whether htmx asks, for a part of a page."""
        return "hx-request" in self.request.headers

    def query(self, name: str, default: str = "") -> str:
        """Return a parameter of the address."""
        return self.request.query_params.get(name, default)

    def text(self, name: str, default: str = "") -> str:
        """Return a field of the form; files are not taken."""
        value = self.form.get(name, default)
        return value if isinstance(value, str) else default

    def texts(self, name: str) -> list[str]:
        """Return all values of a field."""
        return [value for value in self.form.getlist(name) if isinstance(value, str)]

    def page(self, template: str, status: int = 200, **context: Any) -> Response:
        """Return a page, or a part of one."""
        given = {"me": self.principal, "path": self.request.url.path, "done": self.query("done"), "csrf": self.csrf}
        return html(render(template, given | context), status)

    def csrf(self) -> Markup:
        """Return the hidden field that every form of a session carries."""
        return Markup('<input type="hidden" name="csrf" value="{}">').format(self.principal.csrf)

    def go(self, path: str, **query: str) -> Response:
        """Lead on to another page, by GET."""
        where = f"{path}?{urlencode(query)}" if query else path
        if self.by_htmx:
            return Response(headers={"hx-redirect": where})
        return RedirectResponse(where, 303)


Handler = Callable[[Visit], Awaitable[Response]]


def html(text: str, status: int = 200) -> Response:
    """Return a page's text as a response that runs only what we serve."""
    return Response(text, status, {"content-security-policy": _POLICY}, media_type="text/html")


class Pages:
    """The handlers of one part of the application, as routes with their rules."""

    def __init__(self) -> None:
        self.routes: list[Route] = []
        self.rules: dict[tuple[str, str], AccessRule] = {}

    def get(self, path: str, needs: Needs) -> Callable[[Handler], Handler]:
        """Serve a page."""
        return self._add("GET", path, needs)

    def post(self, path: str, needs: Needs) -> Callable[[Handler], Handler]:
        """Take a form."""
        return self._add("POST", path, needs)

    def _add(self, method: str, path: str, needs: Needs) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            @functools.wraps(handler)
            async def serve(request: Request) -> Response:
                return await _serve(request, needs, handler)

            self.routes.append(Route(path, serve, methods=[method]))
            self.rules[method, path] = AccessRule(needs)
            return handler

        return add


async def _serve(request: Request, needs: Needs, handler: Handler) -> Response:
    service = service_of(request)
    principal = await identify(service, request, AccessRule("anyone"))
    if principal.way == "token":  # programs have the API
        principal = Principal("", 0, "guest", "none", address=principal.address)
    request.scope["tocsin.who"] = principal.name or "guest"
    visit = Visit(request, service, principal)
    try:
        _throttle(visit)
        if request.method == "POST":
            visit = Visit(request, service, principal, await request.form(max_fields=MOST_FIELDS, max_files=0))
            _check_form(visit)
        _check_role(visit, needs)
        return await handler(visit)
    except Unauthenticated as refusal:
        if principal.is_guest and request.method == "GET":
            return visit.go("/login", next=request.url.path + (f"?{request.url.query}" if request.url.query else ""))
        return problem_page(visit, refusal)
    except TocsinError as error:
        return problem_page(visit, error)


def problem_page(visit: Visit, error: TocsinError) -> Response:
    """Return a page that says what is wrong."""
    problem: Mapping[str, Any] = problem_of(error)
    template = "_problem.html" if visit.by_htmx else "problem.html"
    response = visit.page(template, problem["status"], problem=problem)
    if isinstance(error, Throttled):
        response.headers["retry-after"] = str(max(1, round(error.retry_after_seconds)))
    return response


def safe_path(path: str) -> str:
    """Return where to go after the login: a path of ours, whatever the address says."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"


def _throttle(visit: Visit) -> None:
    principal, settings = visit.principal, visit.service.settings
    most = principal.quotas.get("requests_per_minute", settings.requests_per_minute)
    standing = visit.service.requests.take(principal.name or principal.address, 1, most)
    if not standing.granted:
        raise Throttled(f"{most} requests a minute are the most", standing.again_seconds)


def _check_form(visit: Visit) -> None:
    if not same_site(visit.service, visit.request):
        raise Forbidden("a page of another site sent this form")
    if visit.principal.way == "session":
        given = visit.text("csrf") or visit.request.headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(given.encode(), visit.principal.csrf.encode()):
            raise Forbidden("the form is of another session; go back, load the page again and send it once more")


def _check_role(visit: Visit, needs: Needs) -> None:
    guests = visit.service.settings.guests
    if visit.principal.is_guest:
        allowed = {"anyone": True, "guest": guests != "none", "publisher": guests == "publish"}
        if not allowed.get(needs, False):
            raise Unauthenticated("this page needs an account: log in, or register")
    elif needs == "admin" and visit.principal.role != "admin":
        raise Forbidden("this page is for accounts of the role admin")
