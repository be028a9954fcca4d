"""What one change costs a matcher with many operator subscriptions: subscribe or unsubscribe one, then match an event.

    python -m benchmarks.operator_changes --subscriptions 100000

Subscriptions have a cheap part that leaves a few candidates, and three to five calls of 20,000 different ones. The time
of matching alone is measured too, and taken off. Prints a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable

from tocsin.language import And, Op, Predicate, Subscription
from tocsin.language.syntax import Constant, Node, OperatorCall
from tocsin.operators.operator import operator
from tocsin.operators.operator_matcher import OperatorMatcher
from tocsin.operators.registry import Registry
from tocsin.schema import Event
from tocsin.schema.examples import load_example

CALLS, PRICES = 20_000, 1_000


@operator
def seen(event: Event, what: int) -> bool:
    """Whether something is there: chance decides, by its number."""
    return hash((event.values["price"], what)) % 3 == 0


def subscription(pick: random.Random) -> Subscription:
    """Return one with a cheap part and some calls."""
    calls = [OperatorCall("seen", (Constant(pick.randrange(CALLS)),)) for _ in range(pick.randint(3, 5))]
    parts: tuple[Node, ...] = (Predicate("price", Op.EQ, pick.randrange(PRICES)), *calls)
    return Subscription(("item",), And(parts))


def seconds_of(what: Callable[[], object]) -> float:
    """Return how long it takes."""
    started = time.perf_counter()
    what()
    return time.perf_counter() - started


def measure(size: int, schedule: str, rounds: int, seed: int = 7) -> dict[str, object]:
    """Return the median milliseconds of a change, as seen by the match that follows it."""
    pick, schema, registry = random.Random(seed), load_example("auction"), Registry([seen])
    matcher = OperatorMatcher(schema, registry, schedule)

    def event() -> Event:
        return Event({"event_type": ("item",), "price": (pick.randrange(PRICES),)})

    loading = seconds_of(
        lambda: [matcher.add(number, registry.bind(subscription(pick), schema)) for number in range(size)]
    )
    first = seconds_of(lambda: matcher.match(event()))
    matching, adding, removing = [], [], []
    for number in range(rounds):
        matching.append(seconds_of(lambda: matcher.match(event())))
        bound = registry.bind(subscription(pick), schema)
        adding.append(
            seconds_of(lambda bound=bound, number=number: (matcher.add(size + number, bound), matcher.match(event())))
        )
        removing.append(seconds_of(lambda number=number: (matcher.remove(number), matcher.match(event()))))
    idle = statistics.median(matching)
    return {
        "subscriptions": size,
        "schedule": schedule,
        "load_seconds": round(loading, 2),
        "first_match_ms": round(1000 * first, 2),
        "match_ms": round(1000 * idle, 3),
        "add_ms": round(1000 * (statistics.median(adding) - idle), 3),
        "remove_ms": round(1000 * (statistics.median(removing) - idle), 3),
        "slowest_change_ms": round(1000 * (max(*adding, *removing) - idle), 2),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--schedule", default="adaptive")
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    print(json.dumps(measure(given.subscriptions, given.schedule, given.rounds)))


if __name__ == "__main__":
    main()
