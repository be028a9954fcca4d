"""Liu et al. with real operators: an image, a text, a map, a database and a service over HTTP, of one to some ten milliseconds.

The paper counts evaluations and believes that in the long run they reflect the time (5.2). Here both are measured: the same
subscriptions under every schedule, operators one after the other, and Tocsin's own with several in flight.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Literal

import numpy as np

from tocsin.matching.matcher import Matcher
from tocsin.operators.operator import Operator, operator
from tocsin.operators.registry import Registry
from tocsin.schema import Event
from tocsin.schema.examples import load_example
from tocsin_lab.claims import Less, Statement
from tocsin_lab.experiments.experiment import Experiment, Plot
from tocsin_lab.results import Row
from tocsin_lab.rounds import Act, Bench, Notebook
from tocsin_lab.schedules import SCHEDULES
from tocsin_lab.timing import WrongAnswer

NAME, TIME, COST = "liu-operators", "ms per event", "evaluations per event"
PARALLEL = "adaptive, in flight"
Runs = Literal["here", "thread"]
Answer = Callable[[int, int], bool]
EACH = 3  # operators of each kind
ROWS = 20_000


class _Service(BaseHTTPRequestHandler):
    """Answers by the number in the path, on this machine only."""

    def do_GET(self) -> None:
        body = b"yes" if int(self.path.strip("/")) % 3 else b"no"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def kinds() -> Iterator[dict[str, Answer]]:
    """Give the operators' work by kind: (event's number, operator's number) -> truth."""
    rng = np.random.default_rng(1)
    pixels, corners = rng.random((400, 400)), rng.random((20_000, 2))
    words = " ".join(f"word{number}" for number in rng.integers(0, 5_000, 20_000))
    rows = sqlite3.connect(":memory:", check_same_thread=False)
    rows.execute("create table seen (place int, amount int)")
    rows.executemany(
        "insert into seen values (?, ?)", zip(range(ROWS), rng.integers(0, 100, ROWS).tolist(), strict=True)
    )
    reading = threading.Lock()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def image(event: int, number: int) -> bool:
        edges = np.abs(np.diff(np.roll(pixels, event, axis=0), axis=1)) > 0.9 - number / 10
        return bool(edges[event % 400].sum() % 2)

    def text(event: int, number: int) -> bool:
        return len(re.findall(rf"\bword{event % 50}{number}\w*", words)) % 2 == 1

    def map_(event: int, number: int) -> bool:
        distance = np.hypot(corners[:, 0] - event % 10 / 10, corners[:, 1] - number / 10)
        return bool(np.argsort(distance)[0] % 2)

    def database(event: int, number: int) -> bool:
        with reading:
            [found] = rows.execute(
                "select sum(amount) from seen where place % 7 = ?", [(event + number) % 7]
            ).fetchone()
        return bool(found % 2)

    def http(event: int, number: int) -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/{event + number}") as reply:
            return bool(reply.read() == b"yes")

    try:
        yield {"image": image, "text": text, "map": map_, "database": database, "http": http}
    finally:
        server.shutdown()
        server.server_close()
        rows.close()


def made(kind: str, number: int, answer: Answer, runs: Runs) -> Operator:
    """Return an operator that does the work of its kind."""

    @operator(name=f"{kind}{number}", cost=0.002, runs=runs)
    def work(event: Event) -> bool:
        return answer(int(str(event.values["price"][0])), number)

    return work


def subscribed(schedule: str, runs: Runs, answers: dict[str, Answer], count: int) -> Matcher:
    """Return a matcher of the same subscriptions, of two to four calls each."""
    operators = [made(kind, number, answer, runs) for kind, answer in answers.items() for number in range(EACH)]
    matcher = Matcher(load_example("auction"), operators=Registry(operators), schedule=SCHEDULES[schedule])
    draw = Random(1)
    for id in range(count):
        calls = draw.sample([each.name for each in operators], draw.randint(2, 4))
        matcher.subscribe(id, "item where " + " and ".join(f"{name}()" for name in calls))
    return matcher


def run(bench: Bench) -> Iterator[Row]:
    book = Notebook(NAME)
    with kinds() as answers:
        numbers = range(10, 12 if bench.scale == "tiny" else 15)
        events = [Event({"event_type": ("item",), "price": (number,)}) for number in numbers]
        for kind, answer in answers.items():
            found = bench.race({kind: partial(answer, 11, 1)}, clock=bench.wall)
            yield from book.measured("operator ms", 1, found, 1e3)
        for count in bench.of([10], [10, 40], [10, 40, 160]):
            matchers = {name: subscribed(name, "here", answers, count) for name in SCHEDULES}
            matchers[PARALLEL] = subscribed("adaptive", "thread", answers, count)
            right = None
            for name, matcher in matchers.items():
                before = matcher.asked.evaluations
                found_ids = [sorted(map(int, matcher.match(event))) for event in events]
                yield book.counted(COST, count, name, (matcher.asked.evaluations - before) / len(events))
                if right is not None and found_ids != right:
                    raise WrongAnswer(f"{name} gives another answer than the first schedule")
                right = found_ids
            acts: dict[str, Act] = {name: partial(_pass, matcher, events) for name, matcher in matchers.items()}
            yield from book.measured(TIME, count, bench.race(acts, clock=bench.wall), 1e3 / len(events))
            for matcher in matchers.values():
                matcher.operators.runner.close()


def _pass(matcher: Matcher, events: list[Event]) -> None:
    for event in events:
        matcher.match(event)


STATEMENTS = (
    Statement(
        "With real operators, Sequential and Sub-Order take less time than naive", "5.2, 5.3.1", "evaluations only",
        (
            Less(TIME, "sequential", "naive", because=(COST,)), Less(TIME, "sub-order", "naive", because=(COST,)),
        ),
    ),
    Statement(
        "Different operators take different time, even the same one with other parameters", "5.2", "in words",
        unmeasured="a caution, not a finding; `operator ms` has what one call of each kind takes",
    ),
)  # fmt: skip


EXPERIMENTS = (
    Experiment(
        NAME, "Real operators: time beside counted evaluations", "Overlapping subscriptions",
        "Fifteen operators: edges of an image, a search in a text, the nearest of 20,000 places, a query of SQLite, a request over "
        "HTTP to this machine. Subscriptions of two to four calls. `adaptive, in flight` is Tocsin's own schedule with several "
        "operators in threads. On the wall.",
        run, STATEMENTS, (Plot(TIME, "subscriptions", "ms per event"), Plot(COST, "subscriptions", "evaluations")),
    ),
)  # fmt: skip
