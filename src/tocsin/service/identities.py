"""Identities: accounts, their passwords, sessions and API tokens; what the account routes and the pages call.

Secrets are 256 random bits; the store has their SHA-256 only. Who a credential belongs to is remembered for a moment,
so that a request does not cost a look into the store; what is revoked here is forgotten at once.

What a token gets, a session or another token, lives no longer than it, may do no more, and ends with it. What is got in
a session that the password began hangs on the password: it outlives the session, and ends when the password changes.

Passwords: argon2 in a few threads of their own, since each takes tens of milliseconds and 64 MiB.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from limits import RateLimitItemPerHour, RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher

from tocsin.errors import AccountExists
from tocsin.service.problems import (
    Conflict,
    Forbidden,
    NotFound,
    Throttled,
    Unauthenticated,
)
from tocsin.service.routing import Principal
from tocsin.service.settings import ServiceSettings
from tocsin.store import Store, Transaction, accounts
from tocsin.store.accounts import Account, Actor, Credential, Entry
from tocsin.store.store import SECOND, instant

R = TypeVar("R")


class Passwords:
    """Hashes and verifies; no more at a time than it has threads."""

    def __init__(self, threads: int, hasher: PasswordHash | None = None) -> None:
        self._hasher = hasher or PasswordHash((Argon2Hasher(),))
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="tocsin-password")
        self._nobody: str | None = None

    async def hash(self, password: str) -> str:
        """Return what is kept of a password."""
        return await self._run(self._hasher.hash, password)

    async def verify(self, password: str, kept: str | None) -> bool:
        """Return whether it is the password; where there is none, it takes as long and is not."""
        if kept is None:
            if self._nobody is None:
                self._nobody = await self.hash("nobody's password")
            await self._run(self._hasher.verify, password, self._nobody)
            return False
        return await self._run(self._hasher.verify, password, kept)

    async def _run(self, function: Callable[..., R], *args: str) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *args)

    def close(self) -> None:
        """Let go of the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)


TOKEN_PREFIX = "toc_"  # noqa: S105 - how tokens begin, so that scanners and our logs can tell them
ADMIN = "admin"
_REMEMBERED_SECONDS = 2.0
_REMEMBERED = 20_000
_LONGEST_SECRET = 200


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """A new session: its secret goes into the cookie, its CSRF token to the page."""

    principal: Principal
    secret: str = field(repr=False)
    csrf: str = field(repr=False)
    expires: datetime
    max_age_seconds: int


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new API token; the secret is shown once."""

    token: Credential
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
        self._forgotten = 0  # how often
        self._used: dict[int, int] = {}  # credential -> when, since it was stored
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
        forgotten = self._forgotten
        found = await asyncio.to_thread(find, kept)
        if len(self._remembered) >= _REMEMBERED:
            self._remembered.clear()
        if forgotten == self._forgotten:  # else it may have been revoked since it was read
            self._remembered[kept] = (now, found)
        return found

    def _find_token(self, kept: bytes) -> Principal | None:
        return self._find("token", kept)

    def _find_session(self, kept: bytes) -> Principal | None:
        return self._find("session", kept)

    def _find(self, kind: str, kept: bytes) -> Principal | None:
        now_us = self._store.now_us()
        with self._store.read() as connection:
            found = accounts.find_credential(connection, kind, kept, now_us)
            account = None if found is None else accounts.read_account_of(connection, found.account)
        if found is None or account is None:
            return None
        self._used[found.id] = now_us
        return _principal(account, found, kept)

    def keep_uses(self) -> None:
        """Store when credentials were last used: now and then, since a request must not cost a write."""
        used, self._used = self._used, {}
        if used:
            with self._store.write() as turn:
                accounts.use_credentials(turn, used)

    def forget(self) -> None:
        """Look everything up anew: something was revoked."""
        self._remembered.clear()
        self._forgotten += 1

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
            return await self._write(lambda turn: _register(turn, name, kept, address))
        except AccountExists:
            raise Conflict(f"the name {name} is taken; choose another") from None

    def device_of(self, name: str) -> str:
        """Return what a browser keeps that was logged in to an account, sealed: it may be wrong more often than others."""
        nonce = secrets.token_urlsafe(12)
        return f"{nonce}.{self._seal(name, nonce)}"

    def knows_device(self, name: str, device: str) -> bool:
        """Return whether a browser was logged in to the account of that name before."""
        nonce, _, seal = device.partition(".")
        return len(device) <= _LONGEST_SECRET and hmac.compare_digest(self._seal(name, nonce).encode(), seal.encode())

    def _seal(self, name: str, nonce: str) -> str:
        key = b"tocsin device " + self._store.incarnation.encode()
        return hmac.new(key, f"{name.casefold()} {nonce}".encode("utf-8", "surrogatepass"), "sha256").hexdigest()

    async def log_in(
        self, name: str, password: str, address: str, before: str | None = None, device: str | None = None
    ) -> LoggedIn:
        """Return a new session; the one before, if there was one, ends. Raises Unauthenticated, Throttled.

        Whether there is such an account cannot be told: neither by the answer, nor by the time it takes, nor by when
        it is throttled.
        """
        by_token = await self.by_token(password)
        if by_token is not None and by_token.name == name:
            return await self._new_session(by_token.number, before, address, by=by_token)
        account = await self.check_password(name, password, address, device)
        return await self._new_session(account.number, before, address)

    async def check_password(self, name: str, password: str, address: str, device: str | None = None) -> Account:
        """Return the account of a name and password; raises Unauthenticated, Throttled, as `log_in` does.

        Guesses are counted by name and address together, so that a stranger's do not lock the owner out, and more loosely
        by each alone. A browser that was logged in before (`device`) is counted by itself: it is not a stranger.
        """
        limit, detail = RateLimitItemPerMinute(self._settings.logins_per_minute), "too many attempts to log in"
        if device is not None and self.knows_device(name, device):
            own: tuple[str, ...] = ("login", "device", device)
            self._hit(limit, detail, *own)
        else:
            own = ("login", "both", name.casefold(), address)
            self._hit(limit, detail, *own)
            self._hit(_times(limit, 5), detail, "login", "address", address)
            self._hit(_times(limit, 100), detail, "login", "name", name.casefold())
        account = await self._verify(name, password)
        self._throttle.clear(limit, *own)
        return account

    async def _verify(self, name: str, password: str) -> Account:
        account = await self._read(lambda connection: accounts.read_account(connection, name))
        good = await self._passwords.verify(password, None if account is None else account.password_hash)
        if not good or account is None or account.disabled_us is not None:
            raise Unauthenticated("the name or the password is not right")
        return account

    async def _new_session(
        self, number: int, before: str | None, address: str, by: Principal | None = None
    ) -> LoggedIn:
        secret, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)

        def add(turn: Transaction) -> tuple[Account, Credential]:
            parent = None if by is None else self._still(turn, by)
            if parent is not None and parent.scopes is not None:
                raise Forbidden("a token that may do some things only begins no session")
            account = accounts.read_account_of(turn.connection, number)
            if account is None or account.disabled_us is not None:
                raise Unauthenticated("the name or the password is not right")
            if before is not None:
                accounts.remove_by_hash(turn, hashed(before))
            accounts.remove_expired_sessions(turn)
            expires_us = turn.now_us + round(self._settings.session_seconds * SECOND)
            made = accounts.add_credential(
                turn,
                number,
                "session",
                hashed(secret),
                csrf=csrf,
                parent=parent,
                expires_us=expires_us,
                address=address,
            )
            actor = Actor(number, account.name, None if parent is None else parent.id, address)
            accounts.note_action(turn, actor, "session.begun", f"session {made.id}", number)
            return account, made

        account, made = await self._write(add)
        self.forget()
        principal = _principal(account, made, hashed(secret))
        assert principal is not None
        assert made.expires_us is not None
        lasts = max(1, (made.expires_us - made.created_us) // SECOND)
        return LoggedIn(principal, secret, csrf, instant(made.expires_us), lasts)

    @staticmethod
    def _still(turn: Transaction, principal: Principal) -> Credential:
        """Return the credential by which somebody came, as it is now; raises Unauthenticated where it has ended."""
        found = accounts.find_credential(turn.connection, principal.way, principal.credential, turn.now_us)
        if found is None:
            raise Unauthenticated(f"the {principal.way} has ended")
        return found

    async def log_out(self, principal: Principal) -> None:
        """End the session by which somebody came."""

        def end(turn: Transaction) -> None:
            accounts.remove_by_hash(turn, principal.credential)
            accounts.note_action(
                turn, principal.actor, "session.ended", f"session {principal.credential_id}", principal.number
            )

        await self._write(end)
        self.forget()

    async def change_password(self, principal: Principal, old: str, new: str, *, keep_tokens: bool = False) -> None:
        """Set another password; all sessions and tokens of the account end, or its sessions only.

        Raises Forbidden where the old one is wrong.
        """
        await self.check_own_password(principal, old)
        kept = await self._passwords.hash(new)

        def change(turn: Transaction) -> None:
            accounts.change_account(turn, principal.number, password_hash=kept)
            accounts.remove_credentials_of(turn, principal.number, "session" if keep_tokens else None)
            what = "its sessions ended" if keep_tokens else "its sessions and tokens ended"
            accounts.note_action(
                turn, principal.actor, "password.changed", f"{principal.name}; {what}", principal.number
            )

        await self._write(change)
        self.forget()

    async def has_password(self, principal: Principal) -> bool:
        """Return whether an account has a password; the first admin has a token only, until one is set."""
        account = await self._read(lambda connection: accounts.read_account(connection, principal.name))
        return account is not None and account.password_hash is not None

    async def check_own_password(self, principal: Principal, password: str) -> None:
        """Raise Forbidden where it is not the asker's password; without one, a token of the account stands for it."""
        limit = RateLimitItemPerMinute(self._settings.logins_per_minute)
        self._hit(limit, "too many attempts", "password", principal.name)
        account = await self._read(lambda connection: accounts.read_account(connection, principal.name))
        if account is not None and account.password_hash is None:
            by_token = await self.by_token(password)
            if by_token is not None and by_token.number == principal.number and by_token.scopes is None:
                return
        if account is None or not await self._passwords.verify(password, account.password_hash):
            raise Forbidden("the password is not right")

    async def list_accounts(self, after: str, limit: int) -> list[Account]:
        """Return accounts by name."""
        return await self._read(lambda connection: accounts.list_accounts(connection, after, limit))

    async def change_account(
        self,
        name: str,
        *,
        role: str | None,
        disabled: bool | None,
        quotas: Mapping[str, int] | None,
        actor: Actor,
    ) -> Account:
        """Change what an admin may change of an account; raises NotFound, Conflict where it is the only admin."""

        def change(turn: Transaction) -> Account:
            account = accounts.read_account(turn.connection, name)
            if account is None or name.startswith("~"):
                raise NotFound(f"there is no account {name}")
            changes: dict[str, Any] = {}
            if role is not None:
                changes["role"] = role
            if disabled is not None:
                changes["disabled_us"] = turn.now_us if disabled else None
            if quotas is not None:
                changes["quotas"] = dict(quotas)
            if role in ("member", "publisher") or disabled:
                check_other_admin(turn, account)
            if changes:
                accounts.change_account(turn, account.number, **changes)
                accounts.note_action(
                    turn, actor, "account.changed", f"{name}: {_said(role, disabled, quotas)}", account.number
                )
            if disabled:
                accounts.remove_credentials_of(turn, account.number, "session")
            changed = accounts.read_account(turn.connection, name)
            assert changed is not None
            return changed

        changed = await self._write(change)
        self.forget()
        return changed

    async def note(self, principal: Principal, action: str, subject: str) -> None:
        """Write a line of the audit trail."""
        await self._write(lambda turn: accounts.note_action(turn, principal.actor, action, subject))

    async def audit_of(self, account: int | None, before: int | None, limit: int) -> list[Entry]:
        """Return the audit trail, the newest first; of one account, or of all."""
        return await self._read(lambda connection: accounts.read_audit(connection, before, limit, account))

    # --- credentials --------------------------------------------------------------------------------------------------

    async def new_token(
        self, principal: Principal, name: str, seconds: float | None, scopes: Collection[str] | None = None
    ) -> NewToken:
        """Make an API token for an account, by the credential that asks; raises Conflict where it has too many."""

        def make(turn: Transaction) -> NewToken:
            asking = self._still(turn, principal)
            made = self._add_token(turn, principal.number, name, seconds, by=_root(turn, asking), scopes=scopes)
            accounts.note_action(
                turn, principal.actor, "token.made", f"token {made.token.id}, {name}", principal.number
            )
            return made

        return await self._write(make)

    def _add_token(
        self,
        turn: Transaction,
        account: int,
        name: str,
        seconds: float | None,
        secret: str = "",
        by: Credential | None = None,
        scopes: Collection[str] | None = None,
    ) -> NewToken:
        if len(accounts.list_credentials(turn.connection, account, "token")) >= self._settings.tokens_per_account:
            raise Conflict(f"an account has {self._settings.tokens_per_account} tokens at most; revoke one first")
        secret = secret or TOKEN_PREFIX + secrets.token_urlsafe(32)
        expires_us = None if seconds is None else turn.now_us + round(seconds * SECOND)
        made = accounts.add_credential(
            turn, account, "token", hashed(secret), name=name, parent=by, scopes=scopes, expires_us=expires_us
        )
        return NewToken(made, secret)

    async def tokens_of(self, principal: Principal) -> list[Credential]:
        """Return an account's tokens."""
        return await self._list(principal, "token")

    async def sessions_of(self, principal: Principal) -> list[Credential]:
        """Return an account's sessions that are not over."""
        now_us = self._store.now_us()
        found = await self._list(principal, "session")
        return [one for one in found if one.expires_us is None or one.expires_us > now_us]

    async def _list(self, principal: Principal, kind: str) -> list[Credential]:
        listed = await self._read(lambda connection: accounts.list_credentials(connection, principal.number, kind))
        return [replace(one, last_used_us=self._used.get(one.id, one.last_used_us)) for one in listed]

    async def revoke(self, principal: Principal, id: int) -> None:
        """Remove a token of the account, and what was got by it; raises NotFound."""
        await self._end(principal, "token", id)

    async def end_session(self, principal: Principal, id: int) -> None:
        """End a session of the account; raises NotFound."""
        await self._end(principal, "session", id)

    async def _end(self, principal: Principal, kind: str, id: int) -> None:
        def end(turn: Transaction) -> None:
            count = accounts.remove_credential(turn, principal.number, kind, id)
            if not count:
                raise NotFound(f"there is no {kind} {id}")
            also = f" and {count - 1} got by it" if count > 1 else ""
            accounts.note_action(turn, principal.actor, f"{kind}.ended", f"{kind} {id}{also}", principal.number)

        await self._write(end)
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
                if accounts.find_credential(turn.connection, "token", hashed(given), turn.now_us) is None:
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


def check_other_admin(turn: Transaction, account: Account) -> None:
    """Raise Conflict where an account is the only admin: without one nobody could make another."""
    is_admin = account.role == "admin" and account.disabled_us is None
    if is_admin and not accounts.has_other_admin(turn.connection, account.number):
        raise Conflict(f"{account.name} is the only admin; make another account an admin first")


def _times(limit: RateLimitItemPerMinute, factor: int) -> RateLimitItemPerMinute:
    return RateLimitItemPerMinute(limit.amount * factor)


def _register(turn: Transaction, name: str, kept: str, address: str) -> Account:
    made = accounts.create_account(turn, name, password_hash=kept)
    accounts.note_action(turn, Actor(made.number, name, None, address), "account.registered", name, made.number)
    return made


def _root(turn: Transaction, asking: Credential) -> Credential | None:
    """Return the token on which what is made now depends: that which asks, or by which its session was begun."""
    if asking.kind == "token":
        return asking
    return None if asking.parent is None else accounts.find_by_id(turn.connection, asking.parent)


def _said(role: str | None, disabled: bool | None, quotas: Mapping[str, int] | None) -> str:
    """Return a change of an account in words."""
    words = [] if role is None else [f"role {role}"]
    words += [] if disabled is None else ["disabled" if disabled else "enabled"]
    words += [] if quotas is None else [f"quotas {dict(quotas)}"]
    return ", ".join(words)


def _principal(account: Account | None, found: Credential, kept: bytes) -> Principal | None:
    if account is None or account.disabled_us is not None:
        return None
    scopes = found.scopes
    role = account.role if scopes is None or "admin" in scopes else "member"
    if account.role == "publisher" and scopes is not None and "publish" in scopes:
        role = "publisher"
    return Principal(account.name, account.number, role, found.kind, account.quotas, found.csrf, kept, found.id, scopes)
