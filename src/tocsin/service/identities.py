"""Identities: accounts, their passwords, sessions and API tokens; what the account routes and the pages call.

Secrets are 256 random bits; the store has their SHA-256 only. Who a credential belongs to is remembered for a moment,
so that a request does not cost a look into the store; what is revoked here is forgotten at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from limits import RateLimitItemPerHour, RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from tocsin.broker.times import instant
from tocsin.errors import AccountExists
from tocsin.service.passwords import Passwords
from tocsin.service.principal import Principal
from tocsin.service.refusals import Conflict, Forbidden, NotFound, Throttled, Unauthenticated
from tocsin.service.settings import ServiceSettings
from tocsin.store import Store, accounts, sessions, tokens
from tocsin.store.accounts import Account
from tocsin.store.clock import SECOND
from tocsin.store.tokens import ApiToken

TOKEN_PREFIX = "toc_"  # noqa: S105 - how tokens begin, so that scanners and our logs can tell them
ADMIN = "admin"
_REMEMBERED_SECONDS = 2.0
_REMEMBERED = 20_000
_LONGEST_SECRET = 200
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """A new session: its secret goes into the cookie, its CSRF token to the page."""

    principal: Principal
    secret: str = field(repr=False)
    csrf: str = field(repr=False)
    expires: datetime


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new API token; the secret is shown once."""

    token: ApiToken
    secret: str = field(repr=False)


def hashed(secret: str) -> bytes:
    """Return what the store keeps of a secret. A plain hash does: there is nothing to guess in 256 random bits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


class Identities:
    """The accounts of a store, for one event loop."""

    def __init__(self, store: Store, settings: ServiceSettings, passwords: Passwords | None = None) -> None:
        self._store, self._settings = store, settings
        self._passwords = passwords or Passwords(settings.password_threads)
        self._remembered: dict[bytes, tuple[float, Principal | None]] = {}
        self._throttle = MovingWindowRateLimiter(MemoryStorage())

    def close(self) -> None:
        """Let go of threads."""
        self._passwords.close()

    # --- who is it ----------------------------------------------------------------------------------------------------

    async def by_token(self, secret: str) -> Principal | None:
        """Return the account that an API token acts for; None where the token is not good."""
        if not secret.startswith(TOKEN_PREFIX) or len(secret) > _LONGEST_SECRET:
            return None
        return await self._remember(hashed(secret), self._find_token)

    async def by_session(self, secret: str) -> Principal | None:
        """Return the account that a session belongs to; None where it is over."""
        if len(secret) > _LONGEST_SECRET:
            return None
        return await self._remember(hashed(secret), self._find_session)

    async def still_good(self, principal: Principal) -> bool:
        """Return whether the credential by which somebody came is still good; streams ask now and then."""
        find = self._find_token if principal.way == "token" else self._find_session
        return await self._remember(principal.credential, find) is not None

    async def _remember(self, kept: bytes, find: Callable[[bytes], Principal | None]) -> Principal | None:
        now = time.monotonic()
        known = self._remembered.get(kept)
        if known is not None and now - known[0] < _REMEMBERED_SECONDS:
            return known[1]
        found = await asyncio.to_thread(find, kept)
        if len(self._remembered) >= _REMEMBERED:
            self._remembered.clear()
        self._remembered[kept] = (now, found)
        return found

    def _find_token(self, kept: bytes) -> Principal | None:
        now_us = self._store.now_us()
        with self._store.read() as connection:
            token = tokens.find_token(connection, kept, now_us)
            account = None if token is None else accounts.read_account_of(connection, token.account)
        return _principal(account, "token", kept)

    def _find_session(self, kept: bytes) -> Principal | None:
        now_us = self._store.now_us()
        with self._store.read() as connection:
            session = sessions.find_session(connection, kept, now_us)
            account = None if session is None else accounts.read_account_of(connection, session.account)
        return _principal(account, "session", kept, "" if session is None else session.csrf)

    def forget(self) -> None:
        """Look everything up anew: something was revoked."""
        self._remembered.clear()

    # --- accounts -----------------------------------------------------------------------------------------------------

    async def register(self, name: str, password: str, address: str, *, by_admin: bool = False) -> Account:
        """Make an account of a member; raises Conflict, Forbidden, Throttled."""
        if not by_admin:
            if self._settings.registration == "closed":
                raise Forbidden("accounts are made by the operator here")
            limit = RateLimitItemPerHour(self._settings.registrations_per_hour)
            self._hit(limit, "too many accounts were made from there", "register", address)
        kept = await self._passwords.hash(password)
        try:
            return await self._write(lambda turn: accounts.create_account(turn, name, password_hash=kept))
        except AccountExists:
            raise Conflict(f"the name {name} is taken; choose another") from None

    async def log_in(self, name: str, password: str, address: str, before: str | None = None) -> LoggedIn:
        """Return a new session; the one before, if there was one, ends. Raises Unauthenticated, Throttled.

        Whether there is such an account cannot be told: neither by the answer, nor by the time it takes, nor by when
        it is throttled.
        """
        return await self._new_session(await self._check(name, password, address), before)

    async def _check(self, name: str, password: str, address: str) -> Account:
        """Return the account of a name and its password, or one of its API tokens: the first admin has nothing else."""
        by_token = await self.by_token(password)
        if by_token is not None and by_token.name == name:
            account = await self._read(lambda connection: accounts.read_account(connection, name))
            if account is not None:
                return account
        return await self.check_password(name, password, address)

    async def check_password(self, name: str, password: str, address: str) -> Account:
        """Return the account of a name and password; raises Unauthenticated, Throttled, as `log_in` does."""
        limit = RateLimitItemPerMinute(self._settings.logins_per_minute)
        self._hit(limit, "too many attempts to log in", "login", "name", name.casefold())
        self._hit(limit, "too many attempts to log in", "login", "address", address)
        account = await self._read(lambda connection: accounts.read_account(connection, name))
        good = await self._passwords.verify(password, None if account is None else account.password_hash)
        if not good or account is None or account.disabled_us is not None:
            raise Unauthenticated("the name or the password is not right")
        return account

    async def _new_session(self, account: Account, before: str | None) -> LoggedIn:
        secret, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)

        def add(turn: Any) -> int:
            if before is not None:
                sessions.remove_session(turn, hashed(before))
            expires_us: int = turn.now_us + round(self._settings.session_seconds * SECOND)
            sessions.add_session(turn, account.number, hashed(secret), csrf, expires_us)
            sessions.remove_expired(turn)
            return expires_us

        expires_us = await self._write(add)
        self.forget()
        principal = _principal(account, "session", hashed(secret), csrf)
        assert principal is not None
        return LoggedIn(principal, secret, csrf, instant(expires_us))

    async def log_out(self, principal: Principal) -> None:
        """End the session by which somebody came."""
        await self._write(lambda turn: sessions.remove_session(turn, principal.credential))
        self.forget()

    async def change_password(self, principal: Principal, old: str, new: str) -> None:
        """Set another password; all sessions of the account end. Raises Forbidden where the old one is wrong."""
        limit = RateLimitItemPerMinute(self._settings.logins_per_minute)
        self._hit(limit, "too many attempts", "password", principal.name)
        account = await self._read(lambda connection: accounts.read_account(connection, principal.name))
        if account is None or not await self._passwords.verify(old, account.password_hash):
            raise Forbidden("the present password is not right")
        kept = await self._passwords.hash(new)

        def change(turn: Any) -> None:
            accounts.change_account(turn, principal.number, password_hash=kept)
            sessions.remove_sessions_of(turn, principal.number)

        await self._write(change)
        self.forget()

    async def list_accounts(self, after: str, limit: int) -> list[Account]:
        """Return accounts by name."""
        return await self._read(lambda connection: accounts.list_accounts(connection, after, limit))

    async def change_account(
        self, name: str, *, role: str | None, disabled: bool | None, quotas: Mapping[str, int] | None
    ) -> Account:
        """Change what an admin may change of an account; raises NotFound."""

        def change(turn: Any) -> Account:
            account = accounts.read_account(turn.connection, name)
            if account is None:
                raise NotFound(f"there is no account {name}")
            changes: dict[str, Any] = {}
            if role is not None:
                changes["role"] = role
            if disabled is not None:
                changes["disabled_us"] = turn.now_us if disabled else None
            if quotas is not None:
                changes["quotas"] = dict(quotas)
            if changes:
                accounts.change_account(turn, account.number, **changes)
            if disabled:
                sessions.remove_sessions_of(turn, account.number)
            changed = accounts.read_account(turn.connection, name)
            assert changed is not None
            return changed

        changed = await self._write(change)
        self.forget()
        return changed

    # --- tokens -------------------------------------------------------------------------------------------------------

    async def new_token(self, principal: Principal, name: str, seconds: float | None) -> NewToken:
        """Make an API token for an account; raises Conflict where it has too many."""
        return await self._write(lambda turn: self._add_token(turn, principal.number, name, seconds))

    def _add_token(self, turn: Any, account: int, name: str, seconds: float | None, secret: str = "") -> NewToken:
        if len(tokens.list_tokens(turn.connection, account)) >= self._settings.tokens_per_account:
            raise Conflict(f"an account has {self._settings.tokens_per_account} tokens at most; revoke one first")
        secret = secret or TOKEN_PREFIX + secrets.token_urlsafe(32)
        expires_us = None if seconds is None else turn.now_us + round(seconds * SECOND)
        id = tokens.add_token(turn, account, hashed(secret), name, expires_us)
        return NewToken(ApiToken(id, account, name, turn.now_us, expires_us, None), secret)

    async def tokens_of(self, principal: Principal) -> list[ApiToken]:
        """Return an account's tokens."""
        return await self._read(lambda connection: tokens.list_tokens(connection, principal.number))

    async def revoke(self, principal: Principal, id: int) -> None:
        """Remove a token of the account; raises NotFound."""
        if not await self._write(lambda turn: tokens.remove_token(turn, principal.number, id)):
            raise NotFound(f"there is no token {id}")
        self.forget()

    def first_admin(self) -> str | None:
        """Return the secret of a new admin's token where the store has no admin; None where it has one.

        With the setting `admin_token` that is the secret, and nothing is returned: the operator has it.
        """
        given = self._settings.admin_token
        with self._store.write() as turn:
            account = accounts.read_account(turn.connection, ADMIN)
            is_new = account is None
            if account is None:
                account = accounts.create_account(turn, ADMIN, role="admin")
            if given is not None:
                if tokens.find_token(turn.connection, hashed(given), turn.now_us) is None:
                    self._add_token(turn, account.number, "TOCSIN_ADMIN_TOKEN", None, given)
                return None
            return self._add_token(turn, account.number, "first start", None).secret if is_new else None

    # --- the store ----------------------------------------------------------------------------------------------------

    async def _write(self, change: Callable[[Any], R]) -> R:
        def run() -> R:
            with self._store.write() as turn:
                return change(turn)

        return await asyncio.to_thread(run)

    async def _read(self, look: Callable[[Any], R]) -> R:
        def run() -> R:
            with self._store.read() as connection:
                return look(connection)

        return await asyncio.to_thread(run)

    def _hit(self, limit: Any, detail: str, *key: str) -> None:
        if not self._throttle.hit(limit, *key):
            again = self._throttle.get_window_stats(limit, *key).reset_time - time.time()
            raise Throttled(f"{detail}; try again later", max(1.0, again))


def _principal(account: Account | None, way: str, kept: bytes, csrf: str = "") -> Principal | None:
    if account is None or account.disabled_us is not None:
        return None
    return Principal(account.name, account.number, account.role, way, account.quotas, csrf, kept)
