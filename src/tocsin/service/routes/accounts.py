"""Accounts: register, log in and out, passwords, API tokens; and what an admin does with accounts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Request
from starlette.responses import Response

from tocsin.broker.times import instant
from tocsin.service.documents import json_response
from tocsin.service.models.accounts import (
    AccountChange,
    AccountsTold,
    AccountTold,
    AskerTold,
    Login,
    PasswordChange,
    Registration,
    SessionTold,
    TokenRequest,
    TokensTold,
    TokenTold,
)
from tocsin.service.principal import SESSION_COOKIE, Someone, service_of
from tocsin.service.refusals import BadRequest
from tocsin.service.routes.router import guarded
from tocsin.store.accounts import Account
from tocsin.store.tokens import ApiToken

router = guarded("accounts")


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
    found = await service.identities.log_in(body.name, body.password, _address(request), before)
    document = {"name": found.principal.name, "role": found.principal.role, "csrf_token": found.csrf,
                "expires": found.expires}  # fmt: skip
    response = json_response(document, 201)
    response.set_cookie(
        SESSION_COOKIE, found.secret, max_age=int(service.settings.session_seconds), httponly=True, samesite="lax",
        secure=service.settings.secure_cookies, path="/",
    )  # fmt: skip
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
async def read(principal: Someone) -> Response:
    """Return the account by whose credential this request came; with a session, its CSRF token."""
    document: dict[str, Any] = {"name": principal.name, "role": principal.role, "quotas": dict(principal.quotas)}
    return json_response(document | {"csrf_token": principal.csrf} if principal.way == "session" else document)


@router.put("/v1/account/password", summary="Set another password", status_code=204)
async def change_password(request: Request, body: PasswordChange, principal: Someone) -> Response:
    """Set another password; all sessions of the account end."""
    await service_of(request).identities.change_password(principal, body.old, body.new)
    return Response(status_code=204)


@router.get("/v1/tokens", summary="Your API tokens", response_model=TokensTold)
async def read_tokens(request: Request, principal: Someone) -> Response:
    """Return them, without their secrets."""
    found = await service_of(request).identities.tokens_of(principal)
    return json_response({"items": [_token(one) for one in found]})


@router.post("/v1/tokens", summary="Make an API token", status_code=201, response_model=TokenTold,
             responses={409: {"description": "The account has too many"}})  # fmt: skip
async def create_token(request: Request, body: TokenRequest, principal: Someone) -> Response:
    """Make a token for a program; it is shown once."""
    made = await service_of(request).identities.new_token(principal, body.name, body.seconds)
    return json_response(_token(made.token) | {"token": made.secret}, 201)


@router.delete("/v1/tokens/{id}", summary="Revoke an API token", status_code=204)
async def revoke(request: Request, id: Annotated[int, Path(ge=0, lt=2**63)], principal: Someone) -> Response:
    """Revoke a token; it is not good from now on."""
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


@router.patch("/v1/accounts/{name}", summary="Change an account", response_model=AccountTold)
async def change(request: Request, name: str, body: AccountChange) -> Response:
    """Set the role, the quotas, or whether it is disabled."""
    quotas = None if body.quotas is None else body.quotas.model_dump(exclude_none=True)
    changed = await service_of(request).identities.change_account(
        name, role=body.role, disabled=body.disabled, quotas=quotas
    )
    return json_response(_account(changed))


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _account(account: Account) -> dict[str, Any]:
    return {"name": account.name, "role": account.role, "created": instant(account.created_us),
            "disabled": account.disabled_us is not None, "quotas": dict(account.quotas)}  # fmt: skip


def _token(token: ApiToken) -> dict[str, Any]:
    expires = None if token.expires_us is None else instant(token.expires_us)
    return {"id": token.id, "name": token.name, "created": instant(token.created_us), "expires": expires}
