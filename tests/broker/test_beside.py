"""Operators and programs beside the store's turn: whoever publishes waits for their own, and nobody else does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from tests.broker.market import car, open_broker, seqs_of
from tests.broker.waiting import wait_until
from tocsin.broker import Broker
from tocsin.language.formula import FLOAT, INT
from tocsin.offers import Program, Programs, open_programs
from tocsin.operators.foreign import FAILURES, LEFT_BEHIND, OF_NAME
from tocsin.operators.operator import operator
from tocsin.operators.registry import Registry
from tocsin.schema import Event
from tocsin.schema.examples import load_example

SCHEMA = load_example("insurance")
PLAIN = {"event_type": "insurance", "name": "Company A", "cover": "Full", "price": 5}
OFFER = {
    "event": {"event_type": "insurance", "name": "Company B", "cover": "Full"},
    "dynamic": {"price": "program('price', age)"},
}


def market(path: Path, function: Callable[..., Any] | None, people: int, **options: Any) -> Broker:
    """Return a broker with people of all ages, for whom offers are priced by a function."""
    given = Programs([Program("price", 1, {"age": INT}, FLOAT, callable=function, **options)]) if function else None
    broker = Broker.open(path / "market.db", schema=SCHEMA, programs=given or options["programs"])
    for age in range(people):
        broker.subscribe(f"insurance where price >= 0 with age = {age}, years_ncd = 1, name = 'x'", owner="ada")
    return broker


def test_hanging_program_of_thirteen_subscribers_holds_no_other_publisher(tmp_path: Path) -> None:
    entered, hold = threading.Event(), threading.Event()

    def price(age: int) -> float:
        entered.set()
        hold.wait(60)
        return age

    with market(tmp_path, price, 13, time_limit_seconds=60) as broker:
        thread = threading.Thread(target=broker.publish, args=(OFFER,))
        thread.start()
        assert entered.wait(60)
        plain = broker.publish(PLAIN).seq  # while the program hangs
        broker.subscribe("insurance where price < 1 with age = 1, years_ncd = 1, name = 'y'", owner="bob")
        assert thread.is_alive()
        assert {one.seq for one in broker.notifications("ada")} == {plain}
        hold.set()
        thread.join(60)
        wait_until(lambda: len({one.seq for one in broker.notifications("ada")}) == 2)


def test_program_that_hangs_is_left_alone_after_a_few_and_its_threads_are_few(tmp_path: Path) -> None:
    hold, entered = threading.Event(), list[int]()

    def price(age: int) -> float:
        entered.append(age)
        hold.wait(60)
        return age

    with market(tmp_path, price, 13, time_limit_seconds=0.05) as broker:
        before = threading.active_count()
        for _ in range(6):
            broker.publish(OFFER)
        assert len(broker.notifications("ada")) == 0
        assert len(entered) <= LEFT_BEHIND + OF_NAME < 6 * 13
        assert threading.active_count() - before <= LEFT_BEHIND + OF_NAME
        hold.set()


def test_a_hundred_subscribers_are_priced_many_at_a_time(tmp_path: Path) -> None:
    barrier = threading.Barrier(10)

    def price(age: int) -> float:
        barrier.wait(30)
        return age

    with market(tmp_path, price, 100, time_limit_seconds=60) as broker:
        broker.publish(OFFER)
        assert sorted(one.event["price"] for one in broker.notifications("ada")) == list(range(100))
        assert broker.held_offers.programs.foreign.most_in_flight >= 10


@pytest.mark.parametrize("pure", [True, False])
def test_programs_are_asked_once_for_a_publish_and_never_in_the_turn(tmp_path: Path, pure: bool) -> None:
    asked: list[int] = []
    inner: list[Broker] = []

    def price(age: int) -> float:
        asked.append(age)
        if age == 3 and inner:  # whoever asks holds nothing: another publisher comes through
            thread = threading.Thread(target=inner[0].publish, args=(PLAIN,))
            thread.start()
            thread.join(30)
            assert not thread.is_alive()
        return age

    with market(tmp_path, price, 5, pure=pure, time_limit_seconds=60) as broker:
        inner.append(broker)
        receipt = broker.publish(OFFER)
        assert sorted(asked) == list(range(5))
        assert sorted(one.event["price"] for one in broker.notifications("ada") if one.seq == receipt.seq) == [
            0,
            1,
            2,
            3,
            4,
        ]


def test_who_subscribes_while_operators_run_is_matched_and_asked_about_outside_of_the_turn(tmp_path: Path) -> None:
    brokers: list[Broker] = []
    asked: list[str] = []

    @operator(timeout=60)
    def first(_event: Event) -> bool:
        asked.append("first")
        if asked == ["first"]:  # between the look and the commit somebody subscribes
            brokers[0].subscribe("car where later()", owner="bob")
        return True

    @operator(timeout=60)
    def later(_event: Event) -> bool:
        asked.append("later")
        thread = threading.Thread(target=brokers[0].publish, args=(car(1),))
        if len(asked) == 2:
            thread.start()
            thread.join(30)
            assert not thread.is_alive(), "the operator runs within the turn"
        return True

    with open_broker(str(tmp_path / "store.db"), engine="columnar", operators=Registry([first, later])) as broker:
        brokers.append(broker)
        broker.subscribe("car where price > 1 and first()", owner="ada")
        seq = broker.publish(car(9)).seq
        assert [one for one, _ in seqs_of(broker, "ada")] == [seq]
        assert seq in [one for one, _ in seqs_of(broker, "bob")]
        assert asked.count("first") == 1


# --- programs elsewhere -----------------------------------------------------------------------------------------------


class _Engine(BaseHTTPRequestHandler):
    asked: ClassVar[list[list[dict[str, Any]]]] = []
    refuses: ClassVar[bool] = False

    def do_POST(self) -> None:
        given = msgspec.json.decode(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(given["rows"])
        results = [{"error": "too old"} if row["age"] == 99 else None if row["age"] == 98 else row["age"] * 2
                   for row in given["rows"]]  # fmt: skip
        body = b"" if self.refuses else msgspec.json.encode({"results": results})
        self.send_response(503 if self.refuses else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def test_pricing_engine_elsewhere_is_asked_about_all_subscribers_at_once(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Engine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        file = tmp_path / "programs.toml"
        file.write_text(
            f'[programs.price]\nversion = 1\nparameters = {{ age = "int" }}\nreturns = "float"\n'
            f'url = "http://127.0.0.1:{server.server_port}/price"\ntime_limit_seconds = 60\n'
        )
        with market(tmp_path, None, 100, programs=open_programs(file)) as broker:
            broker.publish(OFFER)
            told = {one.event["price"] for one in broker.notifications("ada")}
            assert told == {2 * age for age in range(98)}  # one has no price, for another the engine failed
            assert [len(rows) for rows in _Engine.asked] == [100]
            broker.publish(OFFER)
            assert len(_Engine.asked) == 1  # what it said is remembered
            _Engine.refuses = True
            programs = broker.held_offers.programs
            programs.cache.invalidate("price")
            for _ in range(FAILURES + 3):
                programs.cache.invalidate("price")
                broker.publish(OFFER)
            assert len(_Engine.asked) == 1 + FAILURES
            assert programs.foreign.breakers.state("program price") == "open"
        server.shutdown()
