"""What is stored is stored once."""

from __future__ import annotations

import pytest

from tests.broker.market import car, open_broker, seqs_of
from tocsin.errors import (
    IdempotencyConflict,
)


def test_same_idempotency_key_and_events_give_the_same_receipts_and_store_nothing_twice(place: str) -> None:
    with open_broker(place) as broker:
        broker.subscribe("car", owner="ada")
        first = broker.publish([car(1), {"event_type": "boat"}], idempotency_key="k", atomic=False)
        again = broker.publish([car(1), {"event_type": "boat"}], idempotency_key="k", atomic=False)
        assert first == again
        assert len(seqs_of(broker, "ada")) == 1
        assert len(broker.dead_letters()) == 1
        other = broker.publish([car(1)], idempotency_key="k", publisher="another")
        assert other[0].seq > first[-1].seq


def test_same_idempotency_key_with_other_events_is_a_conflict(place: str) -> None:
    with open_broker(place) as broker:
        broker.publish(car(1), idempotency_key="k")
        with pytest.raises(IdempotencyConflict):
            broker.publish(car(2), idempotency_key="k")
        with pytest.raises(IdempotencyConflict):
            broker.publish(car(1), idempotency_key="k", atomic=False)


def test_idempotency_key_holds_after_a_restart_and_a_schema_change(place: str) -> None:
    with open_broker(place) as broker:
        first = broker.publish([car(1), car(2, colour="red")], idempotency_key="k", atomic=False)
        assert not first[1].accepted
        broker.extend_schema(lambda schema: schema.extend_event_type("car", "colour"))
    with open_broker(place) as broker:
        assert broker.publish([car(1), car(2, colour="red")], idempotency_key="k", atomic=False) == first


def test_notification_id_is_the_same_on_every_delivery_and_unique(place: str) -> None:
    with open_broker(place) as broker:
        broker.subscribe_all(["car", "car where price < 10"], owner="ada")
        broker.publish([car(price) for price in range(20)])
        ids = [one.id for one in broker.notifications("ada")]
    with open_broker(place) as broker:
        assert [one.id for one in broker.notifications("ada")] == ids
        assert len(set(ids)) == len(ids) == 30


def test_a_hundred_thousand_matches_of_one_event_take_few_rows(place: str) -> None:
    from sqlalchemy import func, select

    from tocsin.store.notifications import BLOCK, BUCKETS, StoredMatches, record_matches
    from tocsin.store.tables import notifications

    with open_broker(place) as broker, broker.store.write() as transaction:
        seq = transaction.draw()
        ids = range(1, 100_001)
        owners = [1 + id % 5000 for id in ids]
        record_matches(transaction, 0, seq, StoredMatches.of([seq] * len(ids), ids, owners))
        rows = transaction.connection.execute(select(func.count()).select_from(notifications)).scalar_one()
        assert rows <= BUCKETS + len(ids) // BLOCK
