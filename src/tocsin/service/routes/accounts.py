"""Accounts: register, log in and out, passwords, API tokens; and what an admin does with accounts."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Query, Request
from starlette.responses import Response

from tocsin.broker.cursors import instant
from tocsin.service import account_upkeep
from tocsin.service.access import SCOPES
from tocsin.service.documents import json_response
from tocsin.service.models.accounts import (
    AccountChange,
    AccountsTold,
    AccountTold,
    AskerTold,
    AuditTold,
    Farewell,
    Login,
    PasswordChange,
    Registration,
    SessionsTold,
    SessionTold,
    TokenRequest,
    TokensTold,
    TokenTold,
)
from tocsin.service.principal import DEVICE_COOKIE, SESSION_COOKIE, Someone, service_of
from tocsin.service.problems import BadRequest
from tocsin.service.routes.router import guarded, set_cookies
from tocsin.store.accounts import Account
from tocsin.store.audit import Entry
from tocsin.store.credentials import Credential

router = guarded("accounts")
Before = Annotated[int | None, Query(ge=0, lt=2**63)]
Limit = Annotated[int, Query(ge=1, le=1000)]


@router.post(
    "/v1/accounts", summary="Register", status_code=201, response_model=AccountTold,
    responses={403: {"description": "The operator makes accounts here"}, 409: {"description": "The name is taken"}},
)  # fmt: skip
async def register(request: Request, body: Registration, principal: Someone) -> Response:
    """Make an account of a member."""
    by_admin = principal.role == "admin" and principal.way == "token"
    identities = service_of(request).identities
    account = await identities.register(body.name, body.password, _address(request), by_admin=by_admin)
    return json_response(_account(account), 201)


@router.post("/v1/sessions", summary="Log in", status_code=201, response_model=SessionTold,
             responses={401: {"description": "The name or the password is not right"}})  # fmt: skip
async def log_in(request: Request, body: Login) -> Response:
    """Begin a session: a cookie for browsers. Requests that change something carry csrf_token in X-CSRF-Token."""
    service = service_of(request)
    before = request.cookies.get(SESSION_COOKIE)
    device = request.cookies.get(DEVICE_COOKIE)
    found = await service.identities.log_in(body.name, body.password, _address(request), before, device)
    document = {"name": found.principal.name, "role": found.principal.role, "csrf_token": found.csrf,
                "expires": found.expires}  # fmt: skip
    response = json_response(document, 201)
    set_cookies(service, response, found)
    return response


@router.delete("/v1/sessions/current", summary="Log out", status_code=204,
               responses={400: {"description": "Not with a session"}})  # fmt: skip
async def log_out(request: Request, principal: Someone) -> Response:
    """End the session by which this request came."""
    if principal.way != "session":
        raise BadRequest("this request came with a token, not with a session; revoke the token instead")
    await service_of(request).identities.log_out(principal)
    response = Response(status_code=204)
    response.delete_cookie(SESSION_COOKIE, path="/")
    return response


@router.get("/v1/account", summary="Who am I?", response_model=AskerTold)
async def read(request: Request, principal: Someone) -> Response:
    """Return the account by whose credential this request came, and what it uses; with a session, its CSRF token."""
    used = await asyncio.to_thread(service_of(request).push.usage_of, principal.number)
    document: dict[str, Any] = {"name": principal.name, "role": principal.role, "quotas": dict(principal.quotas),
                                "used": used}  # fmt: skip
    return json_response(document | {"csrf_token": principal.csrf} if principal.way == "session" else document)


@router.put("/v1/account/password", summary="Set another password", status_code=204)
async def change_password(request: Request, body: PasswordChange, principal: Someone) -> Response:
    """Set another password; all sessions and API tokens of the account end, or its sessions only (keep_tokens)."""
    identities = service_of(request).identities
    await identities.change_password(principal, body.old, body.new, keep_tokens=body.keep_tokens)
    return Response(status_code=204)


@router.delete("/v1/account", summary="Delete your account", status_code=204,
               responses={409: {"description": "It is the only admin's"}})  # fmt: skip
async def leave(request: Request, body: Farewell, principal: Someone) -> Response:
    """Delete the account with its subscriptions, webhooks, credentials and dead letters; needs the password."""
    service = service_of(request)
    await service.identities.check_own_password(principal, body.password)
    await account_upkeep.delete_account(service, principal.name, principal.actor)
    response = Response(status_code=204)
    response.delete_cookie(SESSION_COOKIE, path="/")
    return response


@router.get("/v1/account/audit", summary="What was done with your account", response_model=AuditTold)
async def read_own_audit(request: Request, principal: Someone, cursor: Before = None, limit: Limit = 100) -> Response:
    """Return who did what with the account and its credentials, the newest first."""
    return json_response(_audit(await service_of(request).identities.audit_of(principal.number, cursor, limit), limit))


@router.get("/v1/audit", summary="What was done", response_model=AuditTold)
async def read_audit(request: Request, cursor: Before = None, limit: Limit = 100) -> Response:
    """Return who did what with accounts, credentials, webhooks and the schema, the newest first."""
    return json_response(_audit(await service_of(request).identities.audit_of(None, cursor, limit), limit))


@router.get("/v1/sessions", summary="Your sessions", response_model=SessionsTold)
async def read_sessions(request: Request, principal: Someone) -> Response:
    """Return the browsers that are logged in."""
    found = await service_of(request).identities.sessions_of(principal)
    items = [_credential(one) | {"address": one.address, "current": one.id == principal.credential_id} for one in found]
    return json_response({"items": items})


@router.delete("/v1/sessions/{id}", summary="End a session", status_code=204)
async def end_session(request: Request, id: Annotated[int, Path(ge=0, lt=2**63)], principal: Someone) -> Response:
    """Log a browser out."""
    await service_of(request).identities.end_session(principal, id)
    return Response(status_code=204)


@router.get("/v1/tokens", summary="Your API tokens", response_model=TokensTold)
async def read_tokens(request: Request, principal: Someone) -> Response:
    """Return them, without their secrets."""
    found = await service_of(request).identities.tokens_of(principal)
    return json_response({"items": [_token(one) for one in found]})


@router.post("/v1/tokens", summary="Make an API token", status_code=201, response_model=TokenTold,
             responses={409: {"description": "The account has too many"}})  # fmt: skip
async def create_token(request: Request, body: TokenRequest, principal: Someone) -> Response:
    """Make a token for a program; it is shown once. Made by another token, it lives no longer and may do no more."""
    made = await service_of(request).identities.new_token(principal, body.name, body.seconds, body.scopes)
    return json_response(_token(made.token) | {"token": made.secret}, 201)


@router.delete("/v1/tokens/{id}", summary="Revoke an API token", status_code=204)
async def revoke(request: Request, id: Annotated[int, Path(ge=0, lt=2**63)], principal: Someone) -> Response:
    """Revoke a token; it is not good from now on, and neither are the sessions and tokens that were got by it."""
    await service_of(request).identities.revoke(principal, id)
    return Response(status_code=204)


@router.get("/v1/accounts", summary="All accounts", response_model=AccountsTold)
async def read_all(
    request: Request,
    cursor: Annotated[str, Query(max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Return a page of accounts by name."""
    found = await service_of(request).identities.list_accounts(cursor, limit)
    following = found[-1].name if len(found) == limit else None
    return json_response({"items": [_account(one) for one in found], "cursor": following})


@router.patch("/v1/accounts/{name}", summary="Change an account", response_model=AccountTold,
              responses={409: {"description": "It is the only admin's"}})  # fmt: skip
async def change(request: Request, name: str, body: AccountChange, principal: Someone) -> Response:
    """Set the role, the quotas, or whether it is disabled."""
    quotas = None if body.quotas is None else body.quotas.model_dump(exclude_none=True)
    changed = await service_of(request).identities.change_account(
        name, role=body.role, disabled=body.disabled, quotas=quotas, actor=principal.actor
    )
    return json_response(_account(changed))


@router.delete("/v1/accounts/{name}", summary="Delete an account", status_code=204,
               responses={409: {"description": "It is the only admin's"}})  # fmt: skip
async def remove(request: Request, name: str, principal: Someone) -> Response:
    """Delete an account with its subscriptions, webhooks, credentials and dead letters."""
    await account_upkeep.delete_account(service_of(request), name, principal.actor)
    return Response(status_code=204)


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _account(account: Account) -> dict[str, Any]:
    return {"name": account.name, "role": account.role, "created": instant(account.created_us),
            "disabled": account.disabled_us is not None, "quotas": dict(account.quotas)}  # fmt: skip


def _token(token: Credential) -> dict[str, Any]:
    scopes = SCOPES if token.scopes is None else sorted(token.scopes)
    return _credential(token) | {"name": token.name, "scopes": list(scopes)}


def _credential(one: Credential) -> dict[str, Any]:
    return {"id": one.id, "created": instant(one.created_us), "expires": _instant(one.expires_us),
            "last_used": _instant(one.last_used_us), "parent": one.parent}  # fmt: skip


def _instant(time_us: int | None) -> datetime | None:
    return None if time_us is None else instant(time_us)


def _audit(found: list[Entry], limit: int) -> dict[str, Any]:
    items = [
        {"id": one.id, "at": instant(one.at_us), "who": one.who, "credential": one.credential, "address": one.address,
         "action": one.action, "subject": one.subject}
        for one in found
    ]  # fmt: skip
    return {"items": items, "cursor": found[-1].id if len(found) == limit else None}
