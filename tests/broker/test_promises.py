"""What the broker promises, a test each; docs/promises.md names them. On SQLite and on PostgreSQL."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.broker.market import SCHEMA, car, open_broker, seqs_of
from tests.clocks import ManualClock
from tocsin.broker import Broker, BrokerSettings, Notification
from tocsin.errors import (
    BadCursor,
    BatchRejected,
    CursorExpired,
    EventRejected,
    IdempotencyConflict,
    LanguageError,
    LeaseEnded,
    LeaseOutOfBounds,
    Overloaded,
    QuotaExceeded,
    SchemaError,
    StaleRenewal,
    StoreFailed,
    UnknownSubscription,
    WrongTicket,
)
from tocsin.store import accounts, subscriptions
from tocsin.store.check import check
from tocsin.store.events import read_events

DAY = 86400.0


# --- snapshot ---------------------------------------------------------------------------------------------------------


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


# --- stored once ------------------------------------------------------------------------------------------------------


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

    from tocsin.store.notifications import BLOCK, BUCKETS, Matches, record_matches
    from tocsin.store.tables import notifications

    with open_broker(place) as broker, broker.store.write() as transaction:
        seq = transaction.draw()
        ids = range(1, 100_001)
        owners = [1 + id % 5000 for id in ids]
        record_matches(transaction, 0, seq, Matches.of([seq] * len(ids), ids, owners))
        rows = transaction.connection.execute(select(func.count()).select_from(notifications)).scalar_one()
        assert rows <= BUCKETS + len(ids) // BLOCK


# --- order and replay -------------------------------------------------------------------------------------------------


def test_notifications_come_in_order_of_seq_and_cursors_resume_without_gap_or_repeat(place: str) -> None:
    with open_broker(place) as broker:
        ids = [receipt.id for receipt in broker.subscribe_all(["car"] * 3, owner="ada")]
        broker.subscribe("car", owner="bob")
        events = [
            *broker.publish([car(price) for price in range(4)]),
            *(broker.publish(car(price)) for price in range(3)),
        ]
        expected = [(event.seq, id) for event in events for id in ids]
        for limit in (1, 2, 5, 100):
            found, cursor, more = [], broker.oldest_cursor(), True
            while more:
                page = broker.notifications("ada", cursor=cursor, limit=limit)
                found += [(one.seq, one.subscription) for one in page]
                cursor, more = page.cursor, page.more
            assert found == expected
        middle = broker.notifications("ada", limit=4).notifications[-1]
        rest = broker.notifications("ada", cursor=middle.cursor)
        assert [(one.seq, one.subscription) for one in rest] == expected[4:]
        new = broker.publish(car(1))
        assert [one.seq for one in broker.notifications("ada", cursor=rest.cursor)] == [new.seq] * 3


def test_acknowledged_notifications_do_not_come_again_and_acknowledging_never_goes_back(place: str) -> None:
    with open_broker(place) as broker:
        broker.subscribe("car", owner="ada")
        broker.publish([car(1), car(2), car(3)])
        page = broker.notifications("ada", limit=2)
        broker.acknowledge("ada", page.cursor)
        broker.acknowledge("ada", page.notifications[0].cursor)
    with open_broker(place) as broker:
        assert [one.event["price"] for one in broker.notifications("ada")] == [3]
        assert len(broker.notifications("ada", consumer="another device")) == 3


def test_cursor_older_than_the_retention_is_refused_by_name(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock, BrokerSettings(retention_seconds=100)) as broker:
        mine = broker.subscribe("car", owner="ada")
        gone = broker.subscribe("car", owner="ada", lease=5)
        start = broker.oldest_cursor()
        broker.publish([car(1), car(2)])
        first = broker.notifications("ada", limit=1)
        broker.acknowledge("ada", first.cursor)
        clock.advance(101)
        kept = broker.publish(car(3))
        clock.advance(1)
        assert broker.sweep() == [gone.id]
        clock.advance(60)
        broker.sweep()
        for cursor in (start, first.cursor, None):  # None: from what was acknowledged
            with pytest.raises(CursorExpired) as refused:
                broker.notifications("ada", cursor=cursor)
            page = broker.notifications("ada", cursor=refused.value.oldest)
            assert [(one.seq, one.subscription) for one in page] == [(kept.seq, mine.id)]
        clock.advance(200)
        broker.publish(car(4))
        broker.sweep()
        clock.advance(200)
        last = broker.publish(car(5))
        broker.sweep()
        with broker.store.read() as connection:
            assert subscriptions.find_subscription(connection, gone.id) is None
            assert [event.seq for event in read_events(connection, 0, 10)] == [last.seq]
        assert check(broker.store) == []


def test_altered_or_foreign_cursor_is_refused(place: str) -> None:
    with open_broker(place) as broker:
        cursor = broker.oldest_cursor()
        for wrong in ("", "x", cursor[:-1] + ("A" if cursor[-1] != "A" else "B"), cursor + "AAAA", "é", "=" * 9):
            with pytest.raises(BadCursor):
                broker.notifications("ada", cursor=wrong)


# --- leases and tickets -----------------------------------------------------------------------------------------------


def test_lease_is_half_open_and_defaults_to_a_day(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock) as broker:
        mine = broker.subscribe("car", owner="ada")
        assert (mine.lease_end - broker.now()).total_seconds() == DAY
        clock.advance(DAY - 0.000001)
        last = broker.publish(car(1))
        clock.advance(0.000001)
        broker.publish(car(2))  # not swept yet, and not matched either
        assert seqs_of(broker, "ada") == [(last.seq, mine.id)]
        assert broker.sweep() == [mine.id]
        assert broker.subscription(mine.id, owner="ada").ended == "lease ended"
        assert seqs_of(broker, "ada") == [(last.seq, mine.id)]  # what it had is still its owner's


def test_lease_outside_the_bounds_is_refused(place: str) -> None:
    with open_broker(place, settings=BrokerSettings(shortest_lease_seconds=10, longest_lease_seconds=20)) as broker:
        for lease in (9.9, 20.1, -1, float("nan"), float("inf")):
            with pytest.raises(LeaseOutOfBounds):
                broker.subscribe("car", owner="ada", lease=lease)
        broker.subscribe("car", owner="ada", lease=20)


def test_stale_renewal_is_refused(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock) as broker:
        first = broker.subscribe("car", owner="ada", lease=100)
        second = broker.renew(first, lease=1000)
        with pytest.raises(StaleRenewal) as stale:  # a renewal that was held up on its way
            broker.renew(first, lease=10)
        assert stale.value.current == second.generation == 2
        clock.advance(999)
        assert broker.renew(second, lease=5).generation == 3


def test_ended_lease_cannot_be_renewed(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock) as broker:
        expired = broker.subscribe("car", owner="ada", lease=10)
        dropped = broker.subscribe("car", owner="ada")
        broker.unsubscribe(dropped)
        clock.advance(10)
        for receipt in (expired, dropped):
            with pytest.raises(LeaseEnded):
                broker.renew(receipt)


@pytest.mark.parametrize("jump", [-DAY, -3600.0, 3600.0, DAY])
def test_wall_clock_that_jumps_neither_revives_nor_ends_a_lease(place: str, jump: float) -> None:
    clock = ManualClock()
    with open_broker(place, clock) as broker:
        ended = broker.subscribe("car", owner="ada", lease=10)
        lives = broker.subscribe("car", owner="ada", lease=7200)
        clock.advance(11)
        before = broker.publish(car(1))
        clock.jump(jump)
        after = broker.publish(car(2))
        with pytest.raises(LeaseEnded):
            broker.renew(ended)
        expected = [(before.seq, lives.id), (after.seq, lives.id)]
        assert seqs_of(broker, "ada") == expected
    with open_broker(place, clock) as broker:  # and not by a restart on the same boot either
        assert broker.sweep() == [ended.id]
        event = broker.publish(car(3))
        assert seqs_of(broker, "ada") == [*expected, (event.seq, lives.id)]


def test_clock_set_back_over_a_reboot_revives_nothing(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock) as broker:
        ended = broker.subscribe("car", owner="ada", lease=10)
        clock.advance(11)
        with pytest.raises(LeaseEnded):
            broker.renew(ended)  # said, so it must stay so, though nothing else was stored
        told = broker.now()
    clock.reboot(wall_jump_seconds=-DAY)
    with open_broker(place, clock) as broker:
        assert broker.now() >= told
        broker.publish(car(1))
        assert seqs_of(broker, "ada") == []
        with pytest.raises(LeaseEnded):
            broker.renew(ended)


def test_notice_is_given_once_before_a_lease_ends(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock) as broker:
        told: list[int] = []
        broker.on_lease_ending(lambda notice: told.append(notice.subscription))
        mine = broker.subscribe("car", owner="ada", lease=1000)
        broker.subscribe("car", owner="bob", lease=DAY)
        broker.sweep()
        assert broker.leases_ending("ada") == []
        clock.advance(900)
        broker.sweep()
        broker.sweep()
        assert told == [mine.id]
        (notice,) = broker.leases_ending("ada")
        assert (notice.subscription, notice.generation) == (mine.id, 1)
        assert broker.leases_ending("bob") == broker.leases_ending("nobody") == []


def test_background_sweeper_ends_leases_by_itself(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock, BrokerSettings(sweep_seconds=0.01), sweep=True) as broker:
        told = threading.Event()
        broker.on_lease_ending(lambda notice: told.set())
        mine = broker.subscribe("car", owner="ada", lease=100)
        clock.advance(95)
        assert told.wait(30)
        clock.advance(5)
        wait_until(lambda: broker.subscription(mine.id, owner="ada").ended is not None)


def test_ticket_is_random_stored_hashed_and_the_only_one_that_opens(place: str) -> None:
    with open_broker(place) as broker:
        mine, other = broker.subscribe_all(["car", "car"], owner="ada")
        assert mine.ticket
        assert mine.ticket != other.ticket
        with broker.store.read() as connection:
            kept = subscriptions.find_subscription(connection, mine.id)
        assert kept is not None
        assert mine.ticket.encode() not in kept.ticket_hash
        assert len(kept.ticket_hash) == 32
        for wrong in (other.ticket, "", mine.ticket[:-1], "é\ud800"):
            with pytest.raises(WrongTicket):
                broker.unsubscribe(mine.id, ticket=wrong)
            with pytest.raises(WrongTicket):
                broker.renew(mine.id, ticket=wrong, generation=1)
        with pytest.raises(WrongTicket):  # absent looks the same
            broker.unsubscribe(999_999, ticket=mine.ticket)
        broker.unsubscribe(mine.id, ticket=mine.ticket)


def test_another_owners_subscription_looks_absent(place: str) -> None:
    with open_broker(place) as broker:
        mine = broker.subscribe("car", owner="ada")
        broker.subscribe("car", owner="eve")
        for attempt in (
            lambda: broker.subscription(mine.id, owner="eve"),
            lambda: broker.unsubscribe(mine.id, owner="eve"),
            lambda: broker.renew(mine.id, owner="eve", generation=1),
            lambda: broker.subscription(999_999, owner="eve"),
        ):
            with pytest.raises(UnknownSubscription):
                attempt()
        assert [one.owner for one in broker.subscriptions("eve")] == ["eve"]


# --- unsubscribe ------------------------------------------------------------------------------------------------------


def test_unsubscribe_acknowledged_means_nothing_more_is_delivered(place: str) -> None:
    with open_broker(place) as broker:
        mine, other = broker.subscribe_all(["car", "car"], owner="ada")
        event = broker.publish(car(1))
        with broker.listen("ada") as listener:
            first = listener.get(30)
            assert first is not None
            assert first.subscription == mine.id  # the second is at hand already
            ended = broker.unsubscribe(other)
            later = broker.publish(car(2))
            rest = [listener.get(30)]
            assert [(one.seq, one.subscription) for one in rest if one] == [(later.seq, mine.id)]
        assert seqs_of(broker, "ada") == [(event.seq, mine.id), (later.seq, mine.id)]
        assert broker.unsubscribe(other) == ended  # asking again, as after a lost answer, does no harm


def test_unsubscribe_waits_for_the_callback_at_hand_and_no_other_follows(place: str) -> None:
    with open_broker(place) as broker:
        mine = broker.subscribe("car", owner="ada")
        inside, go_on, calls = threading.Event(), threading.Event(), []

        def slow(notification: Notification) -> None:
            calls.append(notification.seq)
            inside.set()
            assert go_on.wait(30)

        broker.on_match("ada", slow)
        events = broker.publish([car(1), car(2), car(3)])
        assert inside.wait(30)
        with ThreadPoolExecutor() as pool:
            ending = pool.submit(broker.unsubscribe, mine)
            wait_until(lambda: broker.subscription(mine.id, owner="ada").ended is not None)
            assert not ending.done()
            go_on.set()
            ending.result(30)
            assert calls == [events[0].seq]
        after = len(calls)
        broker.publish(car(4))
        assert len(calls) == after


# --- pushed at least once ---------------------------------------------------------------------------------------------


def test_listener_hears_backlog_then_live_without_gap(place: str) -> None:
    with open_broker(place, settings=BrokerSettings(poll_seconds=30)) as broker, ThreadPoolExecutor() as pool:
        broker.subscribe("car", owner="ada")
        events = broker.publish([car(1), car(2)])
        with broker.listen("ada") as listener:
            heard = pool.submit(lambda: [one.seq for _, one in zip(range(5), listener, strict=False)])
            events += [broker.publish(car(price)) for price in (3, 4, 5)]
            assert heard.result(60) == [event.seq for event in events]
        assert listener.get(1) is None


def test_callback_that_fails_is_tried_again_with_the_same_id_then_becomes_a_dead_letter(place: str) -> None:
    with open_broker(place) as broker:
        broker.subscribe("car", owner="ada")
        seen: list[tuple[str, object]] = []
        done = threading.Event()

        def fussy(notification: Notification) -> None:
            seen.append((notification.id, notification.event["price"]))
            if notification.event["price"] == 1:
                raise ValueError("no ones")
            done.set()

        broker.on_match("ada", fussy)
        broker.publish([car(1), car(2)])
        assert done.wait(30)
        assert [price for _, price in seen] == [1, 1, 1, 2]
        assert len({id for id, _ in seen}) == 2
        (letter,) = broker.dead_letters()
        assert (letter.kind, "no ones" in letter.reason) == ("delivery", True)
        wait_until(lambda: not broker.notifications("ada").notifications)  # acknowledged


# --- schema -----------------------------------------------------------------------------------------------------------


def test_event_is_judged_by_the_version_as_of_its_seq(place: str) -> None:
    with open_broker(place) as broker:
        with pytest.raises(EventRejected):
            broker.publish(car(1, colour="red"))
        broker.extend_schema(lambda schema: schema.extend_event_type("car", "colour"), words="colours")
        mine = broker.subscribe("car where colour = 'red'", owner="ada")
        event = broker.publish(car(1, colour="red"))
        assert seqs_of(broker, "ada") == [(event.seq, mine.id)]
        assert [(entry.version, entry.change) for entry in broker.schema_history()] == [
            (1, "the first"),
            (2, "colours"),
        ]
        with broker.store.read() as connection:
            assert [stored.schema_version for stored in read_events(connection, 0, 10)] == [2]


def test_schema_change_that_would_invalidate_anything_is_refused(place: str) -> None:
    from dataclasses import replace

    with open_broker(place) as broker:
        for change in (
            lambda schema: replace(schema, attributes={}, event_types={}),
            lambda schema: replace(schema, event_types={}),
            lambda schema: replace(schema, event_types=dict(reversed(schema.event_types.items()))),
        ):
            with pytest.raises(SchemaError):
                broker.extend_schema(change)
        assert broker.schema == SCHEMA


def test_store_is_not_opened_with_another_schema(place: str) -> None:
    with open_broker(place) as broker:
        broker.extend_schema(lambda schema: schema.extend_event_type("car", "colour"))
    with open_broker(place) as broker:  # a program may go on with the one it knew
        assert broker.schema.version == 2
    with pytest.raises(SchemaError):
        open_broker(place, schema=SCHEMA.add_attribute("size", "money"))


# --- poison, overload, limits -----------------------------------------------------------------------------------------


def test_bad_event_becomes_a_dead_letter_with_all_reasons_and_the_batch_goes_on(place: str) -> None:
    with open_broker(place) as broker:
        broker.subscribe("car", owner="ada")
        raws: list[Any] = [
            car(1),
            {"event_type": "car", "price": "x", "size": 2},
            b"{not json",
            car(2),
            b'{"event_type":"car","price":3}',
        ]
        receipts = broker.publish(raws, atomic=False, publisher="pam")
        assert [receipt.accepted for receipt in receipts] == [True, False, False, True, True]
        assert [receipt.seq for receipt in receipts] == list(range(receipts[0].seq, receipts[0].seq + 5))
        assert len(receipts[1].violations) == 2
        letters = broker.dead_letters(publisher="pam")
        assert [letter.seq for letter in letters] == [receipts[1].seq, receipts[2].seq]
        assert letters[0].violations == receipts[1].violations
        assert letters[1].body == b"{not json"
        assert broker.dead_letters(publisher="quentin") == []
        assert len(seqs_of(broker, "ada")) == 3


def test_all_or_nothing_batch_stores_nothing_when_one_event_is_bad(place: str) -> None:
    with open_broker(place) as broker:
        broker.subscribe("car", owner="ada")
        with pytest.raises(BatchRejected) as refused:
            broker.publish([car(1), car("x"), {"event_type": "boat"}])  # type: ignore[arg-type]
        assert sorted(refused.value.violations) == [1, 2]
        assert seqs_of(broker, "ada") == []
        assert broker.dead_letters() == []


def test_limits_refuse_before_acknowledging(place: str) -> None:
    settings = BrokerSettings(event_bytes=200, subscriptions_per_owner=2, batch_events=3, expression_bytes=100)
    with open_broker(place, settings=settings) as broker:
        with pytest.raises(EventRejected):
            broker.publish(car(1, brand="x" * 200))
        with pytest.raises(EventRejected):
            broker.publish(b'{"event_type": "car", "price": 1, "brand": "' + b"x" * 200 + b'"}')
        with pytest.raises(QuotaExceeded):
            broker.publish([car(1)] * 4)
        broker.subscribe_all(["car", "car"], owner="ada")
        with pytest.raises(QuotaExceeded):
            broker.subscribe("car", owner="ada")
        broker.subscribe("car", owner="bob")
        broker.unsubscribe(broker.subscriptions("ada")[0].id, owner="ada")
        broker.subscribe("car", owner="ada")
        with pytest.raises(QuotaExceeded):
            broker.subscribe_all(["car"] * 2, owner="bob")
        assert len(broker.subscriptions("bob")) == 1


def test_subscription_that_no_engine_could_hold_is_refused_and_nothing_of_it_is_stored(place: str) -> None:
    clauses = " and ".join(f"(price = {number} or brand = 'b{number}')" for number in range(8))  # 256 conjunctions
    with open_broker(place, engine="columnar") as broker:
        with pytest.raises(LanguageError):
            broker.subscribe(f"car where {clauses}", owner="ada")
        mine = broker.subscribe("car", owner="ada")
        event = broker.publish(car(1))
        assert seqs_of(broker, "ada") == [(event.seq, mine.id)]
        assert [view.id for view in broker.subscriptions("ada")] == [mine.id]


def test_callback_goes_on_after_the_store_failed_for_a_while(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_broker(place, settings=BrokerSettings(poll_seconds=0.01)) as broker:
        broker.subscribe("car", owner="ada")
        heard = threading.Event()
        read, failures = broker.store.read, iter(range(3))

        def failing() -> Any:
            if threading.current_thread().name.startswith("tocsin-callback") and next(failures, None) is not None:
                raise StoreFailed("the disk is away")
            return read()

        monkeypatch.setattr(broker.store, "read", failing)
        broker.on_match("ada", lambda notification: heard.set())
        broker.publish(car(1))
        assert heard.wait(30)


def test_full_line_refuses_and_those_in_it_are_served(place: str) -> None:
    with open_broker(place, settings=BrokerSettings(waiting_requests=5)) as broker:
        broker.subscribe("car", owner="ada")
        with ThreadPoolExecutor(12) as pool:
            with broker.store.write():  # somebody else's turn
                asked = [pool.submit(broker.publish, car(price)) for price in range(12)]
                wait_until(lambda: any(one.done() for one in asked))
            served = [one.result(60).seq for one in asked if one.exception(60) is None]
        assert all(isinstance(one.exception(), Overloaded) for one in asked if one.exception())
        assert 1 <= len(served) < 12
        assert [seq for seq, _ in seqs_of(broker, "ada")] == sorted(served)


def test_requests_of_many_threads_are_all_answered_and_all_matched(place: str) -> None:
    with open_broker(place) as broker, ThreadPoolExecutor(8) as pool:
        broker.subscribe("car", owner="ada")
        published = list(pool.map(lambda price: broker.publish(car(price)), range(60)))
        list(pool.map(lambda price: broker.subscribe(f"car where price < {price}", owner=f"o{price % 7}"), range(30)))
        assert [seq for seq, _ in seqs_of(broker, "ada")] == sorted(receipt.seq for receipt in published)
        assert check(broker.store) == []
        with broker.store.read() as connection:
            assert accounts.find_account(connection, "o3") is not None


def wait_until(condition: object, seconds: float = 30.0) -> None:
    """Return when the condition holds; fails where it does not within a bound."""
    import time

    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        threading.Event().wait(0.005)


def test_broker_is_used_in_ten_lines(place: str) -> None:
    with Broker.open(place, schema=SCHEMA) as broker:
        mini = broker.subscribe("car where price < 1300 and brand = 'mini'", owner="ada")
        broker.publish(car(900, brand="mini"))
        assert [one.event["price"] for one in broker.notifications("ada")] == [900]
        broker.unsubscribe(mini)
