"""Accounts, their passwords, sessions and API tokens, and the audit trail."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from tocsin.documents import AccountName, Instant, Label, Password, RequestDocument, ResponseDocument

Scope = Literal["read", "publish", "subscribe", "account", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "publish", "subscribe", "account", "admin")
Quota = Annotated[int, Meta(ge=1, le=10**9)]


class Registration(RequestDocument, frozen=True):
    """Make an account."""

    name: AccountName
    password: Password


class Login(RequestDocument, frozen=True):
    """Begin a session."""

    name: Annotated[str, Meta(max_length=200)]
    password: Annotated[str, Meta(max_length=200)]


class PasswordChange(RequestDocument, frozen=True):
    """Set another password."""

    old: Annotated[str, Meta(max_length=200)]
    new: Password
    keep_tokens: bool = False  # otherwise the account's API tokens end with its sessions


class AccountDeletion(RequestDocument, frozen=True):
    """Delete one's own account."""

    password: Annotated[str, Meta(max_length=200)]


class Quotas(RequestDocument, frozen=True, omit_defaults=True):
    """What an account may do that others may not, or the other way round."""

    requests_per_minute: Quota | None = None
    events_per_minute: Quota | None = None
    subscriptions: Annotated[int, Meta(ge=0, le=10**9)] | None = None
    subscription_bytes: Annotated[int, Meta(ge=0, le=10**15)] | None = None
    processor_seconds: Annotated[int, Meta(ge=0, le=10**9)] | None = None  # an hour, of matching its subscriptions


class AccountChange(RequestDocument, frozen=True):
    """What an admin changes of an account."""

    role: Literal["member", "publisher", "admin"] | None = None
    disabled: bool | None = None
    quotas: Quotas | None = None


class TokenRequest(RequestDocument, frozen=True):
    """Make an API token."""

    name: Label
    seconds: Annotated[float, Meta(gt=0, le=10 * 366 * 86400)] | None = None
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=len(SCOPES))] | None = None  # none: all


class AccountView(ResponseDocument, frozen=True):
    """An account as an admin sees it."""

    name: str
    role: str
    created: Instant
    disabled: bool
    quotas: dict[str, int]


class AccountPage(ResponseDocument, frozen=True):
    """Some accounts by name; `cursor` leads to the next, None at the end."""

    items: list[AccountView]
    cursor: str | None


class OwnAccount(ResponseDocument, frozen=True, omit_defaults=True):
    """The account by whose credential a request came, and what it uses; with a session, its CSRF token."""

    name: str
    role: str
    quotas: dict[str, int]
    used: dict[
        str, int
    ]  # subscriptions, what they take in bytes, and in microseconds of processor time within the last hour
    csrf_token: str | None = None


class CostView(ResponseDocument, frozen=True):
    """What a subscription cost within the last hour: its matches, and the processor time that they took."""

    subscription: int
    owner: str
    matches: int
    processor_us: int


class CostList(ResponseDocument, frozen=True):
    """What subscriptions cost, the heaviest first; `match_us` is what one match costs on this machine."""

    match_us: float
    items: list[CostView]


class LoginResponse(ResponseDocument, frozen=True):
    """A session has begun."""

    name: str
    role: str
    csrf_token: str
    expires: Instant


class CredentialView(ResponseDocument, frozen=True, kw_only=True, omit_defaults=True):
    """A token or a session, without its secret."""

    id: int
    created: Instant
    expires: Instant | None
    last_used: Instant | None
    parent: int | None  # the token by which it was got, and with which it ends; none: the password


class TokenView(CredentialView, frozen=True, kw_only=True):
    """An API token; the secret only where it was just made."""

    name: str
    scopes: list[str]
    token: str | None = None


class TokenList(ResponseDocument, frozen=True):
    """An account's API tokens."""

    items: list[TokenView]


class SessionView(CredentialView, frozen=True, kw_only=True):
    """A browser that is logged in."""

    address: str
    current: bool


class SessionList(ResponseDocument, frozen=True):
    """An account's sessions."""

    items: list[SessionView]


class AuditEntry(ResponseDocument, frozen=True):
    """One line of the audit trail."""

    id: int
    at: Instant
    who: str
    credential: int | None
    address: str
    action: str
    subject: str


class AuditPage(ResponseDocument, frozen=True):
    """Some of the audit trail, the newest first; `cursor` leads to the next."""

    items: list[AuditEntry]
    cursor: int | None
