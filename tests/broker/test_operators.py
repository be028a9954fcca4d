"""Stored subscriptions that call operators: matched, kept, explained; and what happens where an operator is gone."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.broker.market import car, open_broker, seqs_of
from tests.broker.waiting import wait_until
from tests.clocks import ManualClock
from tocsin.broker import Broker, inquiries
from tocsin.broker.inquiries import EventSample
from tocsin.broker.upkeep import check_index
from tocsin.errors import BindError, TooLarge
from tocsin.operators.operator import Operator, operator
from tocsin.operators.registry import Registry
from tocsin.schema import Event


@operator(outputs={"doors": int})
def doors(event: Event) -> int | None:
    """How many doors the car has: its price tells."""
    price = int(str(event.values["price"][0]))
    return None if price > 100 else price % 6


@operator(name="madeIn")
def made_in(event: Event, country: str) -> bool:
    """Where it was made."""
    return str(event.values.get("brand", ("",))[0]).startswith(country[0])


@operator(pure=False)
def lottery(event: Event) -> bool:
    """What nobody knows before."""
    return False


def registry(*more: Operator) -> Registry:
    return Registry([doors, made_in, lottery, *more])


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


def opened(path: str, clock: ManualClock | None = None, engine: str = "columnar", **more: Any) -> Broker:
    options: dict[str, Any] = {"operators": registry(), **more}
    return open_broker(path, clock, engine=engine, **options)


@pytest.mark.parametrize("engine", ["columnar", "definition"])
def test_operators_and_cheap_predicates_are_matched_side_by_side(path: str, engine: str) -> None:
    with opened(path, engine=engine) as broker:
        cheap = broker.subscribe("car where price < 10", owner="ada").id
        mixed = broker.subscribe("car where price < 50 and doors(?d) and ?d > 3", owner="ada").id
        either = broker.subscribe("car where price > 60 or madeIn('Italy') and not doors(2)", owner="ada").id
        events = broker.publish([car(4), car(5, brand="I"), car(16, brand="I"), car(70), car(8, brand="I")])
        first = events[0].seq
        assert [(seq - first, id) for seq, id in seqs_of(broker, "ada")] == [
            (0, cheap),
            (0, mixed),
            (1, cheap),
            (1, mixed),
            (1, either),
            (2, mixed),
            (2, either),
            (3, either),
            (4, cheap),
        ]
        tried = broker.dry_run([car(5, brand="I")])[0]
        assert [one.subscription for one in tried.reached] == [cheap, mixed, either]


def test_wrong_calls_are_refused_at_their_place_and_nothing_is_stored(path: str) -> None:
    with opened(path) as broker:
        for text, said in (
            ("car where door(?d) and ?d > 3", "there is no operator 'door'; did you mean doors?"),
            ("car where doors('many')", "doors"),
            ("car where lottery()", "not pure"),
            ("car where madeIn(?x)", "must be a constant"),
        ):
            with pytest.raises(BindError) as error:
                broker.subscribe(text, owner="ada")
            assert said in str(error.value)
        many = " and ".join(f"(madeIn('a{n}') or madeIn('b{n}'))" for n in range(4000))
        with pytest.raises(TooLarge):
            broker.subscribe(f"car where {many}", owner="ada")
        assert broker.subscriptions("ada") == []


def test_a_broker_without_operators_refuses_calls(path: str) -> None:
    with open_broker(path) as broker, pytest.raises(BindError, match="there is no operator 'doors'"):
        broker.subscribe("car where doors(?d)", owner="ada")


@pytest.mark.parametrize("saved", [True, False])
def test_operator_subscriptions_survive_a_restart(path: str, saved: bool) -> None:
    with opened(path) as broker:
        receipt = broker.subscribe("car where doors(?d) and ?d > 3", owner="ada")
        broker.subscribe("car where doors(?d) and ?d > 4", owner="ada")
        if saved:
            broker.save_index()
        late = broker.subscribe("car where madeIn('Italy')", owner="ada")
        broker.unsubscribe(receipt)
        broker.store.close()  # killed
    with opened(path) as broker:
        assert broker.index_stats()["subscriptions"] == 2
        seq = broker.publish(car(5, brand="I")).seq
        assert seqs_of(broker, "ada") == [(seq, receipt.id + 1), (seq, late.id)]
    assert check_index(path) == []


def test_operator_subscriptions_are_paused_replaced_and_end_as_all_others(path: str) -> None:
    clock = ManualClock()
    with opened(path, clock) as broker:
        receipt = broker.subscribe("car where doors(3)", owner="ada", lease=100)

        def told(price: int) -> bool:
            seq = broker.publish(car(price)).seq
            return (seq, receipt.id) in seqs_of(broker, "ada")

        assert told(3)
        broker.pause(receipt)
        assert not told(3)
        broker.resume(receipt)
        assert told(3)
        broker.replace(receipt, "car where doors(4)")
        assert not told(3)
        assert told(4)
        broker.replace(receipt, "car where price = 3")
        assert told(3)
        broker.replace(receipt, "car where doors(5)")
        assert told(5)
        clock.advance(101)
        assert not told(5)
        broker.sweep()
        assert broker.index_stats()["subscriptions"] == 0


def test_a_schema_extension_leaves_operator_subscriptions_as_they_are(path: str) -> None:
    with opened(path) as broker:
        receipt = broker.subscribe("car where doors(3)", owner="ada")
        broker.extend_schema(lambda schema: schema.extend_event_type("car", "colour"))
        later = broker.subscribe("car where doors(3) and colour = 'red'", owner="ada")
        seq = broker.publish(car(3, colour="red")).seq
        assert seqs_of(broker, "ada") == [(seq, receipt.id), (seq, later.id)]


@pytest.mark.parametrize("engine", ["columnar", "definition"])
def test_a_subscription_whose_operator_is_gone_is_kept_and_says_so(
    path: str, caplog: pytest.LogCaptureFixture, engine: str
) -> None:
    with opened(path, engine=engine) as broker:
        receipt = broker.subscribe("car where doors(3)", owner="ada")
    with caplog.at_level(logging.WARNING), opened(path, operators=None, engine=engine) as broker:
        broker.publish(car(3))
        assert seqs_of(broker, "ada") == []
        assert "there is no operator 'doors'" in caplog.text
        assert broker.index_stats()["failures"] == 1
        told = broker.explain_event(car(3), receipt.id, owner="ada")
        assert (told.matched, told.failure) == (False, "there is no operator 'doors'")
        assert [one.id for one in broker.subscriptions("ada")] == [receipt.id]
        broker.save_index()
    with opened(path, engine=engine) as broker:
        seq = broker.publish(car(3)).seq
        assert seqs_of(broker, "ada") == [(seq, receipt.id)]


def test_failures_and_timeouts_are_counted_and_the_rest_goes_on(path: str) -> None:
    hold = threading.Event()

    @operator
    def broken(event: Event) -> bool:
        raise ValueError("no")

    @operator(timeout=0.05)
    def slow(event: Event) -> bool:
        return hold.wait(60)

    with opened(path, operators=registry(broken, slow)) as broker:
        for text in ("car where broken()", "car where not broken()", "car where slow()"):
            broker.subscribe(text, owner="ada")
        fine = broker.subscribe("car where doors(3)", owner="ada")
        seq = broker.publish(car(3)).seq
        hold.set()
        assert seqs_of(broker, "ada") == [(seq, fine.id)]
        counts = broker.index_stats()["operators"]
        assert (counts["broken"]["failures"], counts["broken"]["timeouts"]) == (1, 0)
        assert (counts["slow"]["failures"], counts["slow"]["timeouts"]) == (1, 1)
        assert counts["doors"]["failures"] == 0


def test_a_slow_operator_keeps_nobody_else_from_the_store(path: str) -> None:
    entered, hold = threading.Event(), threading.Event()

    @operator
    def slow(event: Event) -> bool:
        if event.values["price"] == (1,):
            entered.set()
            assert hold.wait(60)
        return True

    with opened(path, operators=registry(slow)) as broker:
        waits = broker.subscribe("car where price < 2 and slow()", owner="ada")
        thread = threading.Thread(target=broker.publish, args=(car(1),))
        thread.start()
        assert entered.wait(60)
        # While the operator runs, others publish and subscribe; a subscription that calls it too is made.
        other = broker.subscribe("car where price > 5 and doors(3) and slow()", owner="ada")
        seq = broker.publish(car(9)).seq
        assert seqs_of(broker, "ada") == [(seq, other.id)]
        hold.set()
        thread.join(60)
        wait_until(lambda: (seq + 1, waits.id) in seqs_of(broker, "ada"))
        assert broker.index_stats()["operators"]["slow"]["calls"] == 2  # each event once


def test_the_pipeline_backlog_is_matched_as_of_seq(path: str) -> None:
    with opened(path, matching="pipeline") as broker:
        before = broker.subscribe("car where doors(3)", owner="ada")
        seq = broker.publish(car(3)).seq
        broker.unsubscribe(broker.subscribe("car where doors(3)", owner="ada"))
        assert broker.match_backlog() == 1
        assert seqs_of(broker, "ada") == [(seq, before.id)]


def test_why_a_notification_came_shows_the_values_of_its_variables(path: str) -> None:
    with opened(path) as broker:
        receipt = broker.subscribe("car where price < 50 and doors(?d) and ?d > 3", owner="ada")
        seq = broker.publish(car(4)).seq
        told = broker.explain(seq, receipt.id, owner="ada")
        assert told.matched
        assert told.bindings == ({"d": 4},)
        assert "✓ doors(?d)   (found ?d = 4)" in str(told)


def test_a_draft_that_calls_operators_is_estimated_and_its_time_is_bounded(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path) as broker:
        broker.publish([car(price) for price in range(60)])
        sample = EventSample.of_store(broker.store, 60)
        assert sample.estimate("car where doors(3)", broker.operators).matched == 10
        monkeypatch.setattr(inquiries, "OPERATOR_SECONDS", 0.0)
        bounded = sample.estimate("car where doors(3)", broker.operators)
        assert (bounded.sample, bounded.exact) == (1, False)
