"""The index on disk: loaded at the start, caught up from its seq, rebuilt where it is of no use."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.broker.market import car, open_broker, seqs_of
from tests.clocks import ManualClock
from tocsin.broker import Broker, BrokerSettings
from tocsin.broker.expressions import Expression
from tocsin.broker.live_index import LiveMatcher
from tocsin.language import attributes
from tocsin.store.backup import backup, restore


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


def columnar(path: str, clock: ManualClock | None = None, settings: BrokerSettings | None = None) -> Broker:
    return open_broker(path, clock, settings, engine="columnar")


def fill(path: str, clock: ManualClock) -> None:
    with columnar(path, clock) as broker:
        receipts = broker.subscribe_all([f"car where price < {limit}" for limit in range(50)], owner="ada")
        broker.publish([car(price) for price in range(60)])
        broker.unsubscribe_all(receipts[:10])


def check_matching(broker: Broker) -> None:
    """Publish, and compare with the definition over the same store."""
    events = broker.publish([car(price) for price in range(0, 60, 7)])
    found = [one for one in seqs_of(broker, "ada") if one[0] >= events[0].seq]
    live = {view.id: int(view.text.rsplit(" ", 1)[1]) for view in broker.subscriptions("ada", limit=10_000)}
    assert found == [
        (event.seq, id)
        for event, price in zip(events, range(0, 60, 7), strict=True)
        for id, limit in sorted(live.items())
        if price < limit
    ]


def test_restart_loads_the_index_and_catches_up(path: str, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    fill(path, clock)
    broker = columnar(path, clock)
    broker.subscribe("car where price < 30", owner="ada", lease=5)
    broker.renew(broker.subscribe("car where price < 40", owner="ada"), lease=100)
    broker.unsubscribe(broker.subscriptions("ada")[0].id, owner="ada")
    broker.extend_schema(lambda schema: schema.extend_event_type("car", "colour"))
    broker.store.close()  # killed: nothing of this is in the index
    with columnar(path, clock) as broker:
        assert broker.index_stats()["seq"] == broker.store.meta().seq
        check_matching(broker)
        clock.advance(6)
        broker.sweep()
        check_matching(broker)
    assert "built anew" not in caplog.text


def test_restart_does_not_bind_what_the_index_has(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(path, ManualClock())
    bound: list[object] = []
    monkeypatch.setattr(LiveMatcher, "load", lambda self, stored, schema: bound.extend(stored))
    with columnar(path, ManualClock()) as broker:
        assert broker.index_stats()["live"] == 40
    assert bound == []


@pytest.mark.parametrize("damage", ["manifest", "segment", "leases", "cut", "gone"])
def test_lost_or_damaged_index_is_rebuilt_from_the_store_with_a_message(
    path: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    fill(path, clock)
    folder = Path(f"{path}.index")
    victims = {
        "manifest": [folder / "manifest.json"],
        "segment": list(folder.glob("*.segment")),
        "leases": list(folder.glob("*.leases")),
        "cut": list(folder.glob("*.segment")),
        "gone": list(folder.glob("*.segment")),
    }[damage]
    for victim in victims:
        content = bytearray(victim.read_bytes())
        if damage == "gone":
            victim.unlink()
        elif damage == "cut":
            victim.write_bytes(content[: len(content) // 2])
        else:
            content[len(content) // 2] ^= 0xFF
            victim.write_bytes(content)
    with caplog.at_level(logging.WARNING), columnar(path, clock) as broker:
        check_matching(broker)
    assert "built anew from the store" in caplog.text
    caplog.clear()
    with columnar(path, clock) as broker:
        check_matching(broker)
    assert "built anew" not in caplog.text


def test_index_that_is_too_old_or_of_another_store_is_rebuilt(
    path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    fill(path, clock)
    backup(path, tmp_path / "b")
    restored = str(tmp_path / "restored.db")
    restore(restored, tmp_path / "b")
    Path(f"{path}.index").rename(f"{restored}.index")
    with columnar(restored, clock) as broker:
        check_matching(broker)
    assert "another store" in caplog.text
    caplog.clear()
    with open_broker(restored, clock, BrokerSettings(retention_seconds=10), engine="definition") as broker:
        for _ in range(3):  # ended subscriptions leave the store for good
            clock.advance(100)
            broker.publish(car(1))
            broker.unsubscribe(broker.subscriptions("ada")[0].id, owner="ada")
            broker.sweep()
    with columnar(restored, clock) as broker:
        check_matching(broker)
    assert "is not kept" in caplog.text


def test_schema_that_makes_an_attribute_multiple_rebuilds_the_index(path: str) -> None:
    clock = ManualClock()
    fill(path, clock)
    with columnar(path, clock) as broker:
        broker.extend_schema(lambda schema: schema.add_attribute("tags", "name").extend_event_type("car", "tags"))
        broker.extend_schema(lambda schema: schema.extend_event_type("antique", "tags", multiple=True))
        check_matching(broker)
        mine = broker.subscribe("car where tags = 'b'", owner="bob")
        event = broker.publish({"event_type": ["car", "antique"], "price": 1, "tags": ["a", "b"]})
        assert seqs_of(broker, "bob") == [(event.seq, mine.id)]
        broker.store.close()
    with columnar(path, clock) as broker:
        check_matching(broker)


def test_only_one_process_writes_the_index_and_both_match(path: str) -> None:
    clock = ManualClock()
    fill(path, clock)
    with columnar(path, clock) as one, columnar(path, clock) as two:
        one.save_index()
        before = (Path(f"{path}.index") / "manifest.json").read_bytes()
        two.subscribe("car where price < 9", owner="ada")
        two.save_index()
        assert (Path(f"{path}.index") / "manifest.json").read_bytes() == before
        check_matching(one)
        check_matching(two)


def test_index_is_saved_after_enough_changes(path: str) -> None:
    with columnar(path, ManualClock(), BrokerSettings(save_changes=5)) as broker:
        for limit in range(6):
            broker.subscribe(f"car where price < {limit}", owner="ada")
        assert not (Path(f"{path}.index") / "manifest.json").exists()
        broker.sweep()
        assert (Path(f"{path}.index") / "manifest.json").exists()


def test_many_subscriptions_of_every_form_are_rebuilt_in_bulk(path: str) -> None:
    clock = ManualClock()
    forms: list[Expression] = [
        *(f"car where price < {limit}" for limit in range(600)),
        "car where price < 3 or brand = 'x'",
        "antique, car where not (price between 2 and 5)",
        "car where brand in ('x', 'y') and price is present",
        "car",
        "where brand like 'x%'",
        {"event_types": ["car"], "predicates": [["price", "<", 2], ["brand", "contains", "x"]]},
        (attributes.price > 1) & (attributes.brand == "x"),
    ]
    with columnar(path, clock) as broker:
        broker.subscribe_all(forms, owner="ada")
        broker.store.close()  # nothing is saved
    events = [car(1), car(4, brand="x"), car(6, brand="xy z"), {"event_type": "antique", "price": 1}]
    with columnar(path, clock) as broker:
        broker.publish(events)
        fast = seqs_of(broker, "ada")
    with open_broker(path, clock, engine="definition") as broker:
        receipts = broker.publish(events)
        slow = [(seq - 4, id) for seq, id in seqs_of(broker, "ada") if seq >= receipts[0].seq]
    assert fast == slow
