"""Documents about accounts, their passwords, sessions and API tokens."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

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


class Quotas(Asked):
    requests_per_minute: Annotated[int, Field(ge=1, le=10**9)] | None = None
    events_per_minute: Annotated[int, Field(ge=1, le=10**9)] | None = None
    subscriptions: Annotated[int, Field(ge=0, le=10**9)] | None = None


class AccountChange(Asked):
    role: Literal["member", "admin"] | None = None
    disabled: bool | None = None
    quotas: Quotas | None = None


class TokenRequest(Asked):
    name: Label
    seconds: Annotated[float, Field(gt=0, le=10 * 366 * 86400)] | None = None


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
    csrf_token: str | None = None


class AccountsTold(Told):
    items: list[AccountTold]
    cursor: str | None


class SessionTold(Told):
    name: str
    role: str
    csrf_token: str
    expires: datetime


class TokenTold(Told):
    id: int
    name: str
    created: datetime
    expires: datetime | None
    token: str | None = None


class TokensTold(Told):
    items: list[TokenTold]
