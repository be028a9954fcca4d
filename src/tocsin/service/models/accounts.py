"""Documents about accounts, their passwords, sessions and API tokens."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from tocsin.service.access import SCOPES, Scope
from tocsin.service.models.base import AccountName, Asked, Label, Password, Told


class Registration(Asked):
    name: AccountName
    password: Password


class Login(Asked):
    name: Annotated[str, StringConstraints(max_length=200)]
    password: Annotated[str, StringConstraints(max_length=200)]


class PasswordChange(Asked):
    old: Annotated[str, StringConstraints(max_length=200)]
    new: Password
    keep_tokens: bool = False  # otherwise the account's API tokens end with its sessions


class Farewell(Asked):
    password: Annotated[str, StringConstraints(max_length=200)]


class Quotas(Asked):
    requests_per_minute: Annotated[int, Field(ge=1, le=10**9)] | None = None
    events_per_minute: Annotated[int, Field(ge=1, le=10**9)] | None = None
    subscriptions: Annotated[int, Field(ge=0, le=10**9)] | None = None
    subscription_bytes: Annotated[int, Field(ge=0, le=10**15)] | None = None


class AccountChange(Asked):
    role: Literal["member", "admin"] | None = None
    disabled: bool | None = None
    quotas: Quotas | None = None


class TokenRequest(Asked):
    name: Label
    seconds: Annotated[float, Field(gt=0, le=10 * 366 * 86400)] | None = None
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(SCOPES))] | None = None  # none: all


class AccountTold(Told):
    name: str
    role: str
    created: datetime
    disabled: bool
    quotas: dict[str, int]


class AskerTold(Told):
    name: str
    role: str
    quotas: dict[str, int]
    used: dict[str, int]  # subscriptions, and what they take in bytes
    csrf_token: str | None = None


class AccountsTold(Told):
    items: list[AccountTold]
    cursor: str | None


class SessionTold(Told):
    name: str
    role: str
    csrf_token: str
    expires: datetime


class CredentialTold(Told):
    id: int
    created: datetime
    expires: datetime | None
    last_used: datetime | None
    parent: int | None  # the token by which it was got, and with which it ends; none: the password


class TokenTold(CredentialTold):
    name: str
    scopes: list[str]
    token: str | None = None


class SessionListed(CredentialTold):
    address: str
    current: bool


class SessionsTold(Told):
    items: list[SessionListed]


class AuditEntryTold(Told):
    id: int
    at: datetime
    who: str
    credential: int | None
    address: str
    action: str
    subject: str


class AuditTold(Told):
    items: list[AuditEntryTold]
    cursor: int | None


class TokensTold(Told):
    items: list[TokenTold]
