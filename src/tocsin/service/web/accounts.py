"""Pages of accounts: register, log in and out, password and tokens; for admins all accounts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from tocsin.errors import TocsinError
from tocsin.service.identities import LoggedIn
from tocsin.service.routes.accounts import set_cookies
from tocsin.service.routing import DEVICE_COOKIE, SESSION_COOKIE
from tocsin.service.web.visit import Pages, Visit, safe_path
from tocsin.store.accounts import Credential
from tocsin.store.store import instant

pages = Pages()
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_PER_PAGE = 100


@pages.get("/register", "anyone")
async def show_register(visit: Visit) -> Response:
    """Show the form."""
    return visit.page("register.html", name="", errors={}, next=safe_path(visit.query("next", "/")))


@pages.post("/register", "anyone")
async def register(visit: Visit) -> Response:
    """Make an account, and log in."""
    name, password, onward = visit.text("name").strip(), visit.text("password"), safe_path(visit.text("next", "/"))
    errors = {}
    if not _NAME.fullmatch(name):
        errors["name"] = "letters, digits and . _ @ -, beginning with a letter or digit, 64 at most"
    if not 10 <= len(password) <= 200:
        errors |= {"password": "10 to 200 characters"}
    elif password != visit.text("again"):
        errors["again"] = "the two are not the same"
    if not errors:
        try:
            await visit.service.identities.register(name, password, visit.principal.address)
            return await _log_in(visit, name, password, onward, "registered")
        except TocsinError as error:
            errors["name"] = str(error)
    return visit.page("register.html", 422, name=name, errors=errors, next=onward)


@pages.get("/login", "anyone")
async def show_login(visit: Visit) -> Response:
    """Show the form."""
    return visit.page("login.html", name="", error="", next=safe_path(visit.query("next", "/")), fields=[])


@pages.post("/login", "anyone")
async def log_in(visit: Visit) -> Response:
    """Begin a session, and go where the visitor wanted to."""
    name, onward = visit.text("name").strip(), safe_path(visit.text("next", "/"))
    fields = list(zip(visit.texts("kept-name"), visit.texts("kept-text"), strict=False))
    try:
        return await _log_in(visit, name, visit.text("password"), onward, "", fields)
    except TocsinError as error:
        return visit.page("login.html", 401, name=name, error=str(error), next=onward, fields=fields)


async def _log_in(
    visit: Visit, name: str, password: str, onward: str, done: str, fields: Sequence[tuple[str, str]] = ()
) -> Response:
    """Begin a session and go on; with fields of a form that an ended session left behind, show them to be sent."""
    before = visit.request.cookies.get(SESSION_COOKIE)
    device = visit.request.cookies.get(DEVICE_COOKIE)
    found: LoggedIn = await visit.service.identities.log_in(name, password, visit.principal.address, before, device)
    if fields:
        again = Visit(visit.request, visit.service, replace(found.principal, csrf=found.csrf))
        response = again.page("send_again.html", action=onward, fields=fields)
    else:
        response = visit.go(onward, done=done)
    set_cookies(visit.service, response, found)
    return response


@pages.post("/logout", "member")
async def log_out(visit: Visit) -> Response:
    """End the session."""
    await visit.service.identities.log_out(visit.principal)
    response = visit.go("/", done="logged-out")
    response.delete_cookie(SESSION_COOKIE, path="/")
    return response


@pages.get("/account", "member")
async def account(visit: Visit) -> Response:
    """Show the password form and the tokens."""
    return await _account(visit)


async def _account(visit: Visit, secret: str = "", error: str = "", status: int = 200) -> Response:
    tokens = [_credential(one) for one in await visit.service.identities.tokens_of(visit.principal)]
    sessions = [_credential(one) for one in await visit.service.identities.sessions_of(visit.principal)]
    has_password = await visit.service.identities.has_password(visit.principal)
    return visit.page(
        "account.html", status, tokens=tokens, sessions=sessions, secret=secret, error=error, has_password=has_password
    )


def _credential(one: Credential) -> dict[str, Any]:
    return {
        "id": one.id,
        "name": one.name,
        "address": one.address,
        "created": instant(one.created_us),
        "expires": None if one.expires_us is None else instant(one.expires_us),
        "used": None if one.last_used_us is None else instant(one.last_used_us),
    }


@pages.post("/account/password", "member")
async def change_password(visit: Visit) -> Response:
    """Set another password; all sessions end, and the tokens unless they are kept."""
    new = visit.text("new")
    if not 10 <= len(new) <= 200:
        return await _account(visit, error="the new password has 10 to 200 characters", status=422)
    try:
        keep = visit.text("keep_tokens") == "yes"
        await visit.service.identities.change_password(visit.principal, visit.text("old"), new, keep_tokens=keep)
    except TocsinError as error:
        return await _account(visit, error=str(error), status=422)
    return visit.go("/login", done="password")


@pages.post("/account/tokens", "member")
async def new_token(visit: Visit) -> Response:
    """Make a token, and show it once."""
    name = visit.text("name").strip()[:100]
    if not name.isprintable() or not name:
        return await _account(visit, error="give the token a name, to know it by later", status=422)
    days = visit.text("days")
    seconds = int(days) * 86400.0 if days.isdigit() and 0 < int(days) <= 3660 else None
    made = await visit.service.identities.new_token(visit.principal, name, seconds)
    return await _account(visit, secret=made.secret)


@pages.post("/account/tokens/{id:int}/revoke", "member")
async def revoke(visit: Visit) -> Response:
    """Revoke a token."""
    if (asked := visit.confirm("revoke", "/account")) is not None:
        return asked
    await visit.service.identities.revoke(visit.principal, visit.request.path_params["id"])
    return visit.go("/account", done="revoked")


@pages.post("/account/sessions/{id:int}/end", "member")
async def end_session(visit: Visit) -> Response:
    """Log a browser out."""
    await visit.service.identities.end_session(visit.principal, visit.request.path_params["id"])
    return visit.go("/account", done="session-ended")


@pages.get("/accounts", "admin")
async def all_accounts(visit: Visit) -> Response:
    """Show all accounts by name."""
    found = await visit.service.identities.list_accounts(visit.query("after"), _PER_PAGE)
    following = found[-1].name if len(found) == _PER_PAGE else None
    return visit.page("accounts.html", accounts=found, following=following, instant=instant)


@pages.post("/accounts/{name}/change", "admin")
async def change_account(visit: Visit) -> Response:
    """Set the role of an account, or whether it is disabled."""
    role, disabled = visit.text("role"), visit.text("disabled")
    await visit.service.identities.change_account(
        visit.request.path_params["name"],
        role=role if role in ("member", "publisher", "admin") else None,
        disabled={"yes": True, "no": False}.get(disabled),
        quotas=None,
        actor=visit.principal.actor,
    )
    return visit.go("/accounts", done="changed")
