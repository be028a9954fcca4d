"""Accounts: register, log in and out, passwords, API tokens; and what an admin does with accounts."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from tocsin.documents import StoredInt
from tocsin.documents.accounts import (
    SCOPES,
    AccountChange,
    AccountDeletion,
    AccountPage,
    AccountView,
    AuditEntry,
    AuditPage,
    CostList,
    Login,
    LoginResponse,
    OwnAccount,
    PasswordChange,
    Registration,
    SessionList,
    SessionView,
    TokenList,
    TokenRequest,
    TokenView,
)
from tocsin.service import account_upkeep
from tocsin.service.identities import LoggedIn
from tocsin.service.problems import BadRequest
from tocsin.service.routes.events import Limit
from tocsin.service.routing import DEVICE_COOKIE, SESSION_COOKIE, Principal, Routes, json_response, service_of
from tocsin.service.service import Service
from tocsin.store.accounts import Account, Credential, Entry
from tocsin.store.store import instant

routes = Routes("accounts")
_YEAR_SECONDS = 366 * 86400
_ONLY_ADMIN = {409: "It is the only admin's"}


@routes.on(
    "POST", "/v1/accounts", "Register", status=201, answer=AccountView,
    responses={403: "The operator makes accounts here", 409: "The name is taken"},
)  # fmt: skip
async def register(request: Request, body: Registration, principal: Principal) -> object:
    """Make an account of a member."""
    by_admin = principal.role == "admin" and principal.way == "token"
    identities = service_of(request).identities
    return _account(await identities.register(body.name, body.password, _address(request), by_admin=by_admin))


@routes.on(
    "POST", "/v1/sessions", "Log in", status=201, answer=LoginResponse,
    responses={401: "The name or the password is not right"},
)  # fmt: skip
async def log_in(request: Request, body: Login) -> Response:
    """Begin a session: a cookie for browsers. Requests that change something carry csrf_token in X-CSRF-Token."""
    service = service_of(request)
    before = request.cookies.get(SESSION_COOKIE)
    device = request.cookies.get(DEVICE_COOKIE)
    found = await service.identities.log_in(body.name, body.password, _address(request), before, device)
    begun = LoginResponse(found.principal.name, found.principal.role, found.csrf, found.expires)
    response = json_response(begun, 201)
    set_cookies(service, response, found)
    return response


def set_cookies(service: Service, response: Response, found: LoggedIn) -> None:
    """Give a browser its session, and what lets it be wrong more often the next time."""
    device = service.identities.device_of(found.principal.name)
    for name, value, seconds in (
        (SESSION_COOKIE, found.secret, found.max_age_seconds),
        (DEVICE_COOKIE, device, _YEAR_SECONDS),
    ):
        response.set_cookie(
            name,
            value,
            max_age=seconds,
            httponly=True,
            samesite="lax",
            secure=service.settings.secure_cookies,
            path="/",
        )


@routes.on("DELETE", "/v1/sessions/current", "Log out", status=204, responses={400: "Not with a session"})
async def log_out(request: Request, principal: Principal) -> Response:
    """End the session by which this request came."""
    if principal.way != "session":
        raise BadRequest("this request came with a token, not with a session; revoke the token instead")
    await service_of(request).identities.log_out(principal)
    return _without_session()


def _without_session() -> Response:
    response = Response(status_code=204)
    response.delete_cookie(SESSION_COOKIE, path="/")
    return response


@routes.on("GET", "/v1/account", "Who am I?", answer=OwnAccount)
async def read(request: Request, principal: Principal) -> object:
    """Return the account by whose credential this request came, and what it uses; with a session, its CSRF token."""
    used = await asyncio.to_thread(service_of(request).broker.usage_of, principal.number)
    csrf = principal.csrf if principal.way == "session" else None
    return OwnAccount(principal.name, principal.role, dict(principal.quotas), used, csrf)


@routes.on("PUT", "/v1/account/password", "Set another password", status=204)
async def change_password(request: Request, body: PasswordChange, principal: Principal) -> None:
    """Set another password; all sessions and API tokens of the account end, or its sessions only (keep_tokens)."""
    identities = service_of(request).identities
    await identities.change_password(principal, body.old, body.new, keep_tokens=body.keep_tokens)


@routes.on("DELETE", "/v1/account", "Delete your account", status=204, responses=_ONLY_ADMIN)
async def leave(request: Request, body: AccountDeletion, principal: Principal) -> Response:
    """Delete the account with its subscriptions, webhooks, credentials and dead letters; needs the password."""
    service = service_of(request)
    await service.identities.check_own_password(principal, body.password)
    await account_upkeep.delete_account(service, principal.name, principal.actor)
    return _without_session()


@routes.on("GET", "/v1/account/audit", "What was done with your account", answer=AuditPage)
async def read_own_audit(
    request: Request, principal: Principal, cursor: StoredInt | None = None, limit: Limit = 100
) -> object:
    """Return who did what with the account and its credentials, the newest first."""
    return _audit(await service_of(request).identities.audit_of(principal.number, cursor, limit), limit)


@routes.on("GET", "/v1/audit", "What was done", answer=AuditPage)
async def read_audit(request: Request, cursor: StoredInt | None = None, limit: Limit = 100) -> object:
    """Return who did what with accounts, credentials, webhooks and the schema, the newest first."""
    return _audit(await service_of(request).identities.audit_of(None, cursor, limit), limit)


@routes.on("GET", "/v1/account/costs", "What your subscriptions cost", answer=CostList)
async def read_own_costs(request: Request, principal: Principal, limit: Limit = 100) -> object:
    """Return what your subscriptions cost within the last hour, the heaviest first; their sum counts against the quota."""
    return await asyncio.to_thread(service_of(request).broker.costs, principal.number, limit)


@routes.on("GET", "/v1/costs", "What subscriptions cost", answer=CostList)
async def read_costs(request: Request, limit: Limit = 100) -> object:
    """Return what the heaviest subscriptions of all accounts cost within the last hour."""
    return await asyncio.to_thread(service_of(request).broker.costs, None, limit)


@routes.on("GET", "/v1/sessions", "Your sessions", answer=SessionList)
async def read_sessions(request: Request, principal: Principal) -> object:
    """Return the browsers that are logged in."""
    found = await service_of(request).identities.sessions_of(principal)
    current = principal.credential_id
    return SessionList(
        [SessionView(**_credential(one), address=one.address, current=one.id == current) for one in found]
    )


@routes.on("DELETE", "/v1/sessions/{id}", "End a session", status=204)
async def end_session(request: Request, id: StoredInt, principal: Principal) -> None:
    """Log a browser out."""
    await service_of(request).identities.end_session(principal, id)


@routes.on("GET", "/v1/tokens", "Your API tokens", answer=TokenList)
async def read_tokens(request: Request, principal: Principal) -> object:
    """Return them, without their secrets."""
    return TokenList([_token(one) for one in await service_of(request).identities.tokens_of(principal)])


@routes.on(
    "POST", "/v1/tokens", "Make an API token", status=201, answer=TokenView, responses={409: "The account has too many"}
)
async def create_token(request: Request, body: TokenRequest, principal: Principal) -> object:
    """Make a token for a program; it is shown once. Made by another token, it lives no longer and may do no more."""
    made = await service_of(request).identities.new_token(principal, body.name, body.seconds, body.scopes)
    return _token(made.token, made.secret)


@routes.on("DELETE", "/v1/tokens/{id}", "Revoke an API token", status=204)
async def revoke(request: Request, id: StoredInt, principal: Principal) -> None:
    """Revoke a token; it is not good from now on, and neither are the sessions and tokens that were got by it."""
    await service_of(request).identities.revoke(principal, id)


@routes.on("GET", "/v1/accounts", "All accounts", answer=AccountPage)
async def read_all(request: Request, cursor: Annotated[str, Meta(max_length=200)] = "", limit: Limit = 100) -> object:
    """Return a page of accounts by name."""
    found = await service_of(request).identities.list_accounts(cursor, limit)
    return AccountPage([_account(one) for one in found], found[-1].name if len(found) == limit else None)


@routes.on("PATCH", "/v1/accounts/{name}", "Change an account", answer=AccountView, responses=_ONLY_ADMIN)
async def change(request: Request, name: str, body: AccountChange, principal: Principal) -> object:
    """Set the role, the quotas, or whether it is disabled."""
    quotas = None if body.quotas is None else msgspec.to_builtins(body.quotas)
    changed = await service_of(request).identities.change_account(
        name, role=body.role, disabled=body.disabled, quotas=quotas, actor=principal.actor
    )
    return _account(changed)


@routes.on("DELETE", "/v1/accounts/{name}", "Delete an account", status=204, responses=_ONLY_ADMIN)
async def remove(request: Request, name: str, principal: Principal) -> None:
    """Delete an account with its subscriptions, webhooks, credentials and dead letters."""
    await account_upkeep.delete_account(service_of(request), name, principal.actor)


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _account(account: Account) -> AccountView:
    created, disabled = instant(account.created_us), account.disabled_us is not None
    return AccountView(account.name, account.role, created, disabled, dict(account.quotas))


def _token(token: Credential, secret: str | None = None) -> TokenView:
    scopes = SCOPES if token.scopes is None else sorted(token.scopes)
    return TokenView(**_credential(token), name=token.name, scopes=list(scopes), token=secret)


def _credential(one: Credential) -> dict[str, Any]:
    return {"id": one.id, "created": instant(one.created_us), "expires": _instant(one.expires_us),
            "last_used": _instant(one.last_used_us), "parent": one.parent}  # fmt: skip


def _instant(time_us: int | None) -> datetime | None:
    return None if time_us is None else instant(time_us)


def _audit(found: list[Entry], limit: int) -> AuditPage:
    items = [
        AuditEntry(one.id, instant(one.at_us), one.who, one.credential, one.address, one.action, one.subject)
        for one in found
    ]
    return AuditPage(items, found[-1].id if len(found) == limit else None)
