"""The snapshot rule: which events reach which subscriptions."""

from __future__ import annotations

from tests.broker.market import car, open_broker, seqs_of
from tests.clocks import ManualClock
from tocsin.store.seals import check

DAY = 86400.0


def test_subscribe_acknowledged_means_every_later_event_is_matched(place: str) -> None:
    with open_broker(place) as broker:
        before = broker.publish(car(900))
        first = broker.subscribe("car where price < 1000", owner="ada")
        after = broker.publish(car(900))
        assert before.seq < first.seq < after.seq
        assert seqs_of(broker, "ada") == [(after.seq, first.id)]


def test_event_is_matched_by_what_was_acknowledged_in_another_broker_over_the_same_store(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock) as one, open_broker(place, clock) as two:
        here = one.subscribe("car where price < 1000", owner="ada")
        there = two.subscribe("car where price < 500", owner="ada")
        event = one.publish(car(100))
        assert seqs_of(two, "ada") == [(event.seq, here.id), (event.seq, there.id)]
        two.unsubscribe(here)
        two.renew(there, lease=2 * DAY)
        event = one.publish(car(100))
        assert seqs_of(one, "ada")[-1] == (event.seq, there.id)
        clock.advance(1.5 * DAY)
        event = one.publish(car(100))
        assert seqs_of(two, "ada")[-1] == (event.seq, there.id)
        one.extend_schema(lambda schema: schema.extend_event_type("car", "colour"))
        assert two.publish(car(1, colour="red")).accepted


def test_pipeline_matches_as_of_the_events_seq_and_arrival(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock, matching="pipeline") as broker:
        early = broker.subscribe("car where price < 1000", owner="ada")
        brief = broker.subscribe("car where price < 1000", owner="ada", lease=10)
        first = broker.publish(car(1))
        clock.advance(20)
        broker.sweep()
        broker.unsubscribe(early, owner="ada")
        late = broker.subscribe("car where price < 1000", owner="ada")
        second = broker.publish(car(2))
        assert seqs_of(broker, "ada") == []
    with open_broker(place, clock) as broker:
        assert broker.match_backlog() == 2
        assert broker.match_backlog() == 0
        # What was unsubscribed is not delivered any more, though it was matched.
        assert seqs_of(broker, "ada") == [(first.seq, brief.id), (second.seq, late.id)]
        assert check(broker.store) == []


def test_matching_taken_over_from_the_pipeline_leaves_no_event_out(place: str) -> None:
    with open_broker(place, matching="pipeline") as broker:
        mine = broker.subscribe("car", owner="ada")
        events = broker.publish([car(price) for price in range(5)])
    with open_broker(place, matching="inline") as broker:
        events += [broker.publish(car(9))]
        assert seqs_of(broker, "ada") == [(event.seq, mine.id) for event in events]
