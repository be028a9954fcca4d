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
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tocsin import __version__
from tocsin.errors import TocsinError
from tocsin.service.problems import HANDLERS, Forbidden, Throttled, Unauthenticated, problem_of
from tocsin.service.routing import CSRF_HEADER, AccessRule, Principal, check_extender, identify, same_site, service_of
from tocsin.service.service import Service
from tocsin.service.web.texts import CONFIRM, DONE, LEASES


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
    made.globals |= {"version": __version__, "DONE": DONE, "LEASES": LEASES}
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


def moment(at: datetime) -> Markup:
    """Return an instant to the second, in UTC; scripts say it in the visitor's own time, and how long ago."""
    at = at.astimezone(UTC)
    words = at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup('<time datetime="{}">{}</time>').format(at.isoformat(timespec="seconds"), words)


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


Needs = Literal["anyone", "guest", "publisher", "member", "extender", "admin"]
MOST_FIELDS = 2000
SECRETS = frozenset({"password", "again", "old", "new"})
DONE_COOKIE = "tocsin_done"  # a key of texts.DONE: in no address, so that no link and no reload says it again
_POLICY = (
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
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
        """Return a page, or a part of one; a whole page says once what was done before it."""
        done = "" if template.startswith("_") else self.request.cookies.get(DONE_COOKIE, "")
        given = {
            "me": self.principal, "path": self.request.url.path, "done": done, "csrf": self.csrf,
            "may_publish": not self.principal.is_guest or self.service.settings.guests == "publish",
        }  # fmt: skip
        response = html(render(template, given | context), status)
        if done:
            response.delete_cookie(DONE_COOKIE)
        return response

    def confirm(self, what: str, path: str) -> Response | None:
        """Return the page that asks before something is destroyed; None where it was answered."""
        if self.text("sure") == "yes":
            return None
        question, means, button = CONFIRM[what]
        return self.page("confirm.html", question=question, means=means, button=button, back=path)

    def csrf(self) -> Markup:
        """Return the hidden field that every form of a session carries."""
        return Markup('<input type="hidden" name="csrf" value="{}">').format(self.principal.csrf)

    def go(self, path: str, done: str = "", **query: str) -> Response:
        """Lead on to another page, by GET, which says what was done."""
        where = f"{path}?{urlencode(query)}" if query else path
        response = Response(headers={"hx-redirect": where}) if self.by_htmx else RedirectResponse(where, 303)
        if done:
            response.set_cookie(DONE_COOKIE, done, max_age=60, httponly=True, samesite="lax")
        return response


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
        if principal.is_guest and not visit.by_htmx:
            return keep_form(visit)
        return problem_page(visit, refusal)
    except TocsinError as error:
        return problem_page(visit, error)


def keep_form(visit: Visit) -> Response:
    """Return the login to whom a session ended over a form; what was typed comes along, and is sent afterwards."""
    fields = [(name, text) for name, text in visit.form.multi_items() if isinstance(text, str) and name != "csrf"]
    if any(name in SECRETS for name, _ in fields):  # is typed again rather than shown
        fields = []
    return visit.page("login.html", 401, name="", error="", next=visit.request.url.path, fields=fields)


async def not_found(request: Request, error: Exception) -> Response:
    """Answer what no route answers: with a page where a browser asks for one, with a problem document elsewhere."""
    wants_page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1/")
    if not wants_page or not isinstance(error, HTTPException) or "tocsin.refusal" in request.scope:
        return await HANDLERS[HTTPException](request, error)
    service = service_of(request)
    visit = Visit(request, service, await identify(service, request, AccessRule("anyone")))
    title = {404: "There is no such page", 405: "That page takes no such form"}.get(error.status_code, "Refused")
    return visit.page("problem.html", error.status_code, problem={"title": title, "detail": ""})


def problem_page(visit: Visit, error: TocsinError) -> Response:
    """Return a page that says what is wrong; to htmx a part that is shown beside what was typed."""
    problem: Mapping[str, Any] = problem_of(error)
    template = "_problem.html" if visit.by_htmx else "problem.html"
    response = visit.page(template, problem["status"], problem=problem)
    if visit.by_htmx:
        response.headers.update({"hx-retarget": "#toasts", "hx-reswap": "innerHTML"})
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
    elif needs == "extender":
        check_extender(visit.service, visit.principal)
