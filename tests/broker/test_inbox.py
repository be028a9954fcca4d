"""The inbox: newest first whatever is in the log, one entry an event, both ways, by what is asked for."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.market import SCHEMA
from tocsin.broker import Broker, InboxEntry, InboxPage, InboxQuery
from tocsin.store.notifications import BUCKETS, StoredMatches, encode_blocks, read_newest, read_notifications
from tocsin.store.tables import notifications


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker.open(tmp_path / "t.db", schema=SCHEMA, engine="definition") as opened:
        yield opened


def car(price: int, brand: str = "mini") -> dict[str, object]:
    return {"event_type": "car", "price": price, "brand": brand}


def prices(entries: tuple[InboxEntry, ...]) -> list[object]:
    return [one.event["price"] for one in entries]


def walk(broker: Broker, limit: int) -> tuple[list[object], list[object]]:
    """Return the prices of all pages, going to the older ones and back to the newest."""
    page = broker.inbox("ada", InboxQuery(limit=limit))
    down = prices(page.items)
    while page.older is not None:
        page = broker.inbox("ada", InboxQuery(before=int(page.older[1:]), limit=limit))
        down += prices(page.items)
    up = prices(page.items)[::-1]
    while page.newer is not None:
        page = broker.inbox("ada", InboxQuery(after=int(page.newer[1:]), limit=limit))
        up += prices(page.items)[::-1]
    return down, up


def test_an_event_is_one_entry_with_the_subscriptions_that_it_matched(broker: Broker) -> None:
    wide = broker.subscribe("car where price < 100", owner="ada").id
    narrow = broker.subscribe("car where price < 10", owner="ada").id
    broker.subscribe("car", owner="bob")
    broker.publish([car(5), car(50), car(500)])
    page = broker.inbox("ada")
    assert prices(page.items) == [50, 5]
    assert [[one.subscription for one in entry.matches] for entry in page.items] == [[wide], [wide, narrow]]
    assert [entry.count for entry in page.items] == [1, 2]


def test_the_newest_come_first_however_many_lie_before(broker: Broker) -> None:
    for number in range(60):
        broker.subscribe(f"car where price < {1000 + number}", owner="ada")
    for price in range(60):
        broker.publish(car(price))
    assert prices(broker.inbox("ada", InboxQuery(limit=16)).items) == list(range(59, 43, -1))
    assert walk(broker, 7) == (list(range(59, -1, -1)), list(range(60)))


def test_filters_choose_by_subscription_type_word_and_time(broker: Broker) -> None:
    cheap = broker.subscribe("car where price < 10", owner="ada").id
    broker.subscribe("car", owner="ada")
    broker.publish(car(1, "Mini"))
    middle = broker.now()
    broker.publish([car(2, "rover"), car(30, "rover")])

    def asked(**query: object) -> list[object]:
        return prices(broker.inbox("ada", InboxQuery(**query)).items)  # type: ignore[arg-type]

    assert asked(subscriptions=[cheap]) == [2, 1]
    assert asked(search="ROVER") == [30, 2]
    assert asked(event_type="boat") == []
    assert asked(event_type="car") == [30, 2, 1]
    assert asked(since=middle) == [30, 2]
    assert asked(until=middle) == [1]


def test_a_replaced_subscription_keeps_its_history_and_an_ended_one_is_gone(broker: Broker) -> None:
    mine = broker.subscribe("car where price < 10", owner="ada")
    broker.publish(car(1))
    broker.replace(mine.id, "car where price > 10", owner="ada")
    broker.publish(car(20))
    page = broker.inbox("ada", InboxQuery(subscriptions=[mine.id]))
    assert prices(page.items) == [20, 1]
    assert {one.subscription for entry in page.items for one in entry.matches} == {mine.id}
    assert len(broker.match_times("ada", mine.id, 10)) == 2
    broker.unsubscribe(mine.id, owner="ada")
    assert broker.inbox("ada") == InboxPage((), None, None, 0)


def test_what_was_read_is_remembered_and_never_goes_back(broker: Broker) -> None:
    broker.subscribe("car", owner="ada")
    first, second = broker.publish([car(1), car(2)])
    assert broker.inbox("ada").unread == 2
    broker.mark_inbox_read("ada", first.seq)
    page = broker.inbox("ada")
    assert (page.unread, [one.unread for one in page.items]) == (1, [True, False])
    broker.mark_inbox_read("ada", second.seq)
    broker.mark_inbox_read("ada", first.seq)
    assert broker.inbox("ada").unread == 0


def test_backwards_is_forwards_turned_round(broker: Broker) -> None:
    """Blocks of any sizes, of two owners of one bucket; an event may lie in several."""
    rng = random.Random(7)
    for owner in range(100, 150):
        with broker.store.write() as transaction:
            for commit in range(rng.randrange(8)):
                chosen = [(10 * commit + rng.randrange(1, 6), owner + BUCKETS * rng.randrange(2)) for _ in range(9)]
                seqs, owners = zip(*sorted(set(chosen)), strict=True)
                blocks = encode_blocks(StoredMatches.of(seqs, [7] * len(seqs), owners))
                transaction.insert_rows(notifications, blocks)
        with broker.store.read() as connection:
            forwards = [seq for block in read_notifications(connection, owner, 0) for seq in block.seq.tolist()]
            for before in (0, 3, 23, 10**6):
                newest = read_newest(connection, owner, before)
                found = [seq for block in newest for seq in block.seq.tolist()[::-1]]
                assert found == [seq for seq in forwards[::-1] if seq < before]
