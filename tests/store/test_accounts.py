"""Accounts, and the secrets by which programs and browsers act for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.market import open_broker
from tests.clocks import ManualClock
from tocsin.errors import AccountExists
from tocsin.store import Store, accounts
from tocsin.store.accounts import Actor, add_credential, find_credential, list_credentials

HOUR = 3_600_000_000
HASHED, OTHER = "$argon2$one", "$argon2$other"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(place: str, clock: ManualClock) -> Iterator[Store]:
    opened = Store.open(place, machine=clock)
    yield opened
    opened.close()


def test_owners_are_accounts_to_which_nobody_can_log_in(place: str) -> None:
    with open_broker(place) as broker:
        broker.subscribe("car", owner="ada")
        with broker.store.read() as connection:
            ada = accounts.read_account(connection, "ada")
            assert ada is not None
            assert (ada.name, ada.role, ada.password_hash, ada.quotas) == ("ada", "member", None, {})
            assert accounts.read_account_of(connection, ada.number) == ada
            assert accounts.read_account(connection, "eve") is None


def test_account_is_created_once_and_changed(store: Store) -> None:
    with store.write() as transaction:
        ada = accounts.create_account(
            transaction, "ada", role="admin", password_hash=HASHED, quotas={"subscriptions": 5}
        )
    assert "argon2" not in repr(ada)
    with pytest.raises(AccountExists, match="ada"), store.write() as transaction:
        accounts.create_account(transaction, "ada")
    with store.write() as transaction:
        accounts.change_account(transaction, ada.number, role="member", password_hash=OTHER, quotas=None)
        accounts.create_account(transaction, "bob")
        with pytest.raises(TypeError, match="name"):
            accounts.change_account(transaction, ada.number, name="eve")
    with store.read() as connection:
        found = accounts.list_accounts(connection)
        assert [(one.name, one.role, one.password_hash, one.quotas) for one in found] == [
            ("ada", "member", OTHER, {}),
            ("bob", "member", None, {}),
        ]
        assert [one.name for one in accounts.list_accounts(connection, after="ada")] == ["bob"]


def test_token_is_found_by_its_hash_until_it_expires_or_is_removed(store: Store, clock: ManualClock) -> None:
    with store.write() as transaction:
        numbers = accounts.ensure_accounts(transaction, ["ada", "bob"])
        ends = transaction.now_us + HOUR
        brief = add_credential(transaction, numbers["ada"], "token", b"1" * 32, name="brief", expires_us=ends).id
        lasting = add_credential(transaction, numbers["ada"], "token", b"2" * 32, name="lasting").id
    clock.advance(3600)
    with store.write() as transaction:
        connection, now = transaction.connection, transaction.now_us
        assert find_credential(connection, "token", b"1" * 32, now) is None
        assert find_credential(connection, "session", b"2" * 32, now) is None
        found = find_credential(connection, "token", b"2" * 32, now)
        assert found is not None
        assert (found.id, found.account, found.last_used_us) == (lasting, numbers["ada"], None)
        accounts.use_credentials(transaction, {lasting: now})
        assert not accounts.remove_credential(transaction, numbers["bob"], "token", brief)
        assert accounts.remove_credential(transaction, numbers["ada"], "token", brief) == 1
        assert [one.last_used_us for one in list_credentials(connection, numbers["ada"], "token")] == [now]


def test_what_a_token_got_ends_with_it_and_is_bounded_by_it(store: Store) -> None:
    with store.write() as transaction:
        number = accounts.ensure_accounts(transaction, ["ada"])["ada"]
        ends = transaction.now_us + HOUR
        root = add_credential(
            transaction, number, "token", b"1" * 32, expires_us=ends, scopes={"read", "publish", "account"}
        )
        session = add_credential(
            transaction, number, "session", b"2" * 32, csrf="csrf", parent=root, expires_us=ends + HOUR
        )
        token = add_credential(transaction, number, "token", b"3" * 32, parent=root, scopes={"read", "admin"})
        last = add_credential(transaction, number, "token", b"4" * 32, parent=token)
        other = add_credential(transaction, number, "token", b"5" * 32)
    assert [one.expires_us for one in (session, token, last, other)] == [ends, ends, ends, None]
    assert [session.scopes, token.scopes, last.scopes] == [root.scopes, {"read"}, {"read"}]
    with store.write() as transaction:
        assert accounts.remove_credential(transaction, number, "token", root.id) == 4
        assert list_credentials(transaction.connection, number, "token") == [other]


def test_session_lasts_until_it_expires_or_ends(store: Store, clock: ManualClock) -> None:
    with store.write() as transaction:
        number = accounts.ensure_accounts(transaction, ["ada"])["ada"]
        for name, hours in ((b"a", 1), (b"b", 2), (b"c", 1), (b"d", 1)):
            ends = transaction.now_us + hours * HOUR
            add_credential(transaction, number, "session", name * 32, csrf="csrf", expires_us=ends)
        accounts.remove_by_hash(transaction, b"c" * 32)

    def found() -> list[bool]:
        with store.read() as connection:
            now = store.now_us()
            return [find_credential(connection, "session", name * 32, now) is not None for name in (b"a", b"b", b"c")]

    assert found() == [True, True, False]
    clock.advance(3600)
    assert found() == [False, True, False]
    with store.write() as transaction:
        assert accounts.remove_expired_sessions(transaction) == 2
        assert accounts.remove_credentials_of(transaction, number, "session") == 1
    assert found() == [False, False, False]


def test_audit_trail_has_what_an_account_did_and_what_was_done_to_it(store: Store, clock: ManualClock) -> None:
    with store.write() as transaction:
        accounts.note_action(transaction, Actor(1, "ada"), "token.made", "token 5", 1)
        accounts.note_action(transaction, Actor(), "password.reset", "bob", 2)
        accounts.note_action(transaction, Actor(1, "ada"), "account.changed", "bob", 2)
    with store.read() as connection:
        assert [one.subject for one in accounts.read_audit(connection, None, 2)] == ["bob", "bob"]
        assert [one.action for one in accounts.read_audit(connection, None, 9, 2)] == [
            "account.changed",
            "password.reset",
        ]
        newest = accounts.read_audit(connection, None, 9, 1)
        assert [one.action for one in newest] == ["account.changed", "token.made"]
        assert [one.action for one in accounts.read_audit(connection, newest[0].id, 9, 1)] == ["token.made"]
    clock.advance(10)
    with store.write() as transaction:
        assert accounts.remove_audit_before(transaction, transaction.now_us) == 3
