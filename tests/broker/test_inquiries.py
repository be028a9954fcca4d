"""What an event would reach, why a notification came, and dead letters once more."""

from __future__ import annotations

import pytest

from tests.broker.market import car, open_broker, seqs_of
from tests.clocks import ManualClock
from tocsin.broker import Reached
from tocsin.errors import EventRejected, UnknownDeadLetter, UnknownNotification


def test_dry_run_says_what_publishing_would_reach_and_stores_nothing(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock) as broker:
        low = broker.subscribe("car where price < 5", owner="ada")
        every = broker.subscribe("car", owner="bob")
        over = broker.subscribe("car", owner="bob", lease=10)
        clock.advance(10)
        before = broker.store.meta().seq
        cheap, wrong, dear = broker.dry_run([car(3), car("x"), car(7)])  # type: ignore[arg-type]
        assert cheap.reached == (Reached(low.id, "ada"), Reached(every.id, "bob"))
        assert dear.reached == (Reached(every.id, "bob"),)
        assert not wrong.accepted
        assert wrong.reached == ()
        assert broker.dry_run([car(3)], owner="ada")[0].reached == (Reached(low.id, "ada"),)
        assert broker.store.meta().seq == before
        assert seqs_of(broker, "bob") == []
        assert broker.sweep() == [over.id]


def test_explanation_of_a_stored_notification_is_its_owners(place: str) -> None:
    with open_broker(place) as broker:
        mine = broker.subscribe("car where price < 5", owner="ada")
        event, other = broker.publish([car(3), car(9)])
        explanation = broker.explain(event.seq, mine.id, owner="ada")
        assert explanation.matched
        assert "price < 5" in str(explanation.as_json())
        for seq, subscription, owner in [
            (other.seq, mine.id, "ada"),
            (event.seq, mine.id, "eve"),
            (event.seq, 999, "ada"),
            (999, mine.id, "ada"),
        ]:
            with pytest.raises(UnknownNotification):
                broker.explain(seq, subscription, owner=owner)


def test_dead_letter_is_published_again_once_the_schema_takes_it(place: str) -> None:
    with open_broker(place) as broker:
        broker.subscribe("car", owner="ada")
        (refused,) = broker.publish([car(1, colour="red")], atomic=False, publisher="pub")
        with pytest.raises(EventRejected):
            broker.replay_dead_letter(refused.seq)
        broker.extend_schema(lambda schema: schema.extend_event_type("car", "colour"))
        again = broker.replay_dead_letter(refused.seq, publisher="pub")
        assert broker.replay_dead_letter(refused.seq) == again
        assert [seq for seq, _ in seqs_of(broker, "ada")] == [again.seq]
        for seq, publisher in [(refused.seq, "other"), (again.seq, None), (999, None)]:
            with pytest.raises(UnknownDeadLetter):
                broker.replay_dead_letter(seq, publisher=publisher)
