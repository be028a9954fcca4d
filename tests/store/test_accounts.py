"""Accounts, and the secrets by which programs and browsers act for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.market import open_broker
from tests.clocks import ManualClock
from tocsin.errors import AccountExists
from tocsin.store import Store, accounts, sessions, tokens

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
        brief = tokens.add_token(transaction, numbers["ada"], b"1" * 32, "brief", transaction.now_us + HOUR)
        lasting = tokens.add_token(transaction, numbers["ada"], b"2" * 32, "lasting", None)
    clock.advance(3600)
    with store.write() as transaction:
        assert tokens.find_token(transaction.connection, b"1" * 32, transaction.now_us) is None
        found = tokens.find_token(transaction.connection, b"2" * 32, transaction.now_us)
        assert found is not None
        assert (found.id, found.account, found.last_used_us) == (lasting, numbers["ada"], None)
        tokens.use_token(transaction, lasting)
        assert not tokens.remove_token(transaction, numbers["bob"], brief)
        assert tokens.remove_token(transaction, numbers["ada"], brief)
        assert [one.last_used_us for one in tokens.list_tokens(transaction.connection, numbers["ada"])] == [
            transaction.now_us
        ]


def test_session_lasts_until_it_expires_or_ends(store: Store, clock: ManualClock) -> None:
    with store.write() as transaction:
        number = accounts.ensure_accounts(transaction, ["ada"])["ada"]
        for name in (b"a", b"b", b"c", b"d"):
            sessions.add_session(transaction, number, name * 32, "csrf", transaction.now_us + HOUR)
        sessions.extend_session(transaction, b"b" * 32, transaction.now_us + 2 * HOUR)
        sessions.remove_session(transaction, b"c" * 32)

    def found() -> list[bool]:
        with store.read() as connection:
            return [
                sessions.find_session(connection, name * 32, store.now_us()) is not None for name in (b"a", b"b", b"c")
            ]

    assert found() == [True, True, False]
    clock.advance(3600)
    assert found() == [False, True, False]
    with store.write() as transaction:
        assert sessions.remove_expired(transaction) == 2
        assert sessions.remove_sessions_of(transaction, number) == 1
    assert found() == [False, False, False]
