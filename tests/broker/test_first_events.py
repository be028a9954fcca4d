"""A broker whose kernels are not compiled yet: the definition answers for its first subscriptions, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.market import car, open_broker, seqs_of
from tests.clocks import ManualClock
from tocsin.broker import Broker
from tocsin.matching import matcher as module
from tocsin.matching import young as bounds


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(module, "kernels_kept", lambda: False)
    monkeypatch.setattr(bounds, "MOST_YOUNG", 10)
    return str(tmp_path / "store.db")


def columnar(path: str, clock: ManualClock) -> Broker:
    return open_broker(path, clock, engine="columnar")


def reached(broker: Broker, *prices: float) -> list[list[int]]:
    """Return the subscriptions that each of these cars reaches."""
    receipts = broker.publish([car(price) for price in prices])
    told = seqs_of(broker, "ada")
    return [[id for seq, id in told if seq == receipt.seq] for receipt in receipts]


def test_the_first_events_need_no_kernels_whatever_is_done_with_subscriptions(path: str) -> None:
    clock = ManualClock()
    with columnar(path, clock) as broker:
        cheap, dear = broker.subscribe_all(["car where price < 30", "car where price > 20"], owner="ada")
        assert reached(broker, 10, 25, 40) == [[cheap.id], [cheap.id, dear.id], [dear.id]]
        broker.unsubscribe(dear)
        short = broker.subscribe("car where price < 30", owner="ada", lease=5)
        assert reached(broker, 10) == [[cheap.id, short.id]]
        clock.advance(6)
        assert reached(broker, 10) == [[cheap.id]]
        broker.extend_schema(lambda schema: schema.extend_event_type("car", "colour"))
        assert reached(broker, 10) == [[cheap.id]]
        stats = broker.index_stats()
        assert (stats["subscriptions"], stats["tiers"], stats["live"]) == (2, [], 2)
        broker.save_index(merge=True)
        assert not broker.needs_kernels
    assert not Path(f"{path}.index", "manifest.json").exists()
    with columnar(path, clock) as broker:  # it is read from the store again
        assert reached(broker, 10) == [[cheap.id]]
        assert not broker.needs_kernels


@pytest.mark.parametrize("at_once", [True, False])
def test_more_subscriptions_than_it_answers_for_move_into_the_index_and_match_the_same(
    path: str, at_once: bool
) -> None:
    clock = ManualClock()
    with columnar(path, clock) as broker:
        first = broker.subscribe("car where price < 30", owner="ada")
        assert reached(broker, 10) == [[first.id]]
        texts = [f"car where price < {limit}" for limit in range(600 if at_once else 12)]
        receipts = (
            broker.subscribe_all(texts, owner="ada") if at_once else [broker.subscribe(t, owner="ada") for t in texts]
        )
        assert broker.needs_kernels
        (found,) = reached(broker, 5.5)
        assert sorted(found) == [first.id, *(one.id for one in receipts[6:])]
    with columnar(path, clock) as broker:
        assert broker.needs_kernels  # it was saved
        assert len(reached(broker, 5.5)[0]) == len(found)
