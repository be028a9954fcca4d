"""Real operators of 1 to 100 ms: one after the other, and in flight.

    python -m benchmarks.operators_beside [--events 5]

Sixteen operators that wait (as for a service elsewhere) and answer true half of the time, shared by 100 subscriptions of one
to four calls. The same events, first with `runs="here"`, then with threads, then as coroutines; the matches must be the same.
Ratios are within one run; evaluations tell what was asked in vain.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from random import Random

from benchmarks.results import store
from tocsin.matching.matcher import Matcher
from tocsin.operators.operator import Operator, operator
from tocsin.operators.registry import Registry
from tocsin.schema import Event
from tocsin.schema.examples import load_example

OPERATORS, SUBSCRIPTIONS = 16, 100
WAYS = ("here", "thread", "async")


def made(number: int, seconds: float, way: str) -> Operator:
    """Return an operator that waits, and answers by the event and its number."""

    def answer(event: Event) -> bool:
        return Random(f"{event.values['price']} {number}").random() < 0.5

    if way == "async":

        @operator(name=f"p{number}", cost=seconds, timeout=60)
        async def remote(event: Event) -> bool:
            await asyncio.sleep(seconds)
            return answer(event)

        return remote

    @operator(name=f"p{number}", cost=seconds, runs="here" if way == "here" else "thread")
    def local(event: Event) -> bool:
        time.sleep(seconds)
        return answer(event)

    return local


def matcher_of(seconds: float, way: str) -> Matcher:
    """Return a matcher of the same subscriptions, whose operators run in that way."""
    matcher = Matcher(load_example("auction"), operators=Registry([made(k, seconds, way) for k in range(OPERATORS)]))
    rng = Random(1)
    for id in range(SUBSCRIPTIONS):
        calls = rng.sample(range(OPERATORS), rng.randint(1, 4))
        matcher.subscribe(id, "item where " + " and ".join(f"p{k}()" for k in calls))
    return matcher


def main() -> None:
    """Measure, check and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=5)
    events = parser.parse_args().events
    print(f"{'operator':>9} {'runs':>7} {'ms/event':>9} {'evaluations':>11} {'ratio':>6}")
    for seconds in (0.001, 0.01, 0.1):
        expected: list[list[int]] = []
        base = 0.0
        for way in WAYS:
            matcher = matcher_of(seconds, way)
            matcher.match(Event({"event_type": ("item",), "price": (-1,)}))  # kernels and threads are there
            times, found, before = [], [], matcher.asked.evaluations
            for price in range(events):
                started = time.perf_counter()
                found.append(sorted(matcher.match(Event({"event_type": ("item",), "price": (price,)}))))
                times.append(time.perf_counter() - started)
            expected = expected or found
            assert found == expected, "the order of evaluations changed an answer"
            median, asked = statistics.median(times), (matcher.asked.evaluations - before) / events
            base = base or median
            print(f"{seconds * 1e3:>6.0f} ms {way:>7} {median * 1e3:>9.2f} {asked:>11.1f} {base / median:>5.1f}x")
            store(
                "operators_beside", {"operator_seconds": seconds, "runs": way, "seconds": times, "evaluations": asked}
            )
            matcher.operators.runner.close()


if __name__ == "__main__":
    main()
