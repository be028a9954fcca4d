"""Look for disagreements between an engine and the definition of matching: `make fuzz`.

    python -m tests.fuzz [--pairs 10000000] [--engine columnar] [--seed 1]

Each world has a schema with every kind of domain, some hundred random subscriptions and some hundred random events;
the answers of a batch, of a record batch (of such values as one Arrow type holds) and of single events are compared with
the definition, then some subscriptions leave and others come, and the answers are compared again. The first disagreement is printed, with the seed that gives it again, and ends the run.
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random

from tests.strategies.arrow_columns import as_arrow_has_them
from tests.strategies.worlds import random_event, random_schema, random_subscription
from tocsin.errors import NotSupported, TooLarge
from tocsin.index.plan import PlanCosts
from tocsin.language import BoundSubscription, bind, evaluate, render
from tocsin.matching import Engine, SubscriptionId, engine_of
from tocsin.matching.matcher import Matcher
from tocsin.schema import Event, Schema

SUBSCRIPTIONS, EVENTS, ARROW_EVENTS = 300, 150, 50


def main() -> int:
    """Run until the pairs are done or one disagrees; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--engine", default="columnar")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    pairs = arrow_pairs = matches = 0
    seed, started = options.seed, time.monotonic()
    while pairs < options.pairs:
        world = World(options.engine, seed)
        for _ in range(2):
            if (difference := world.difference()) is not None:
                sys.stdout.write(f"MISMATCH with --engine {options.engine} --seed {seed} --pairs 1:\n{difference}\n")
                return 1
            pairs += len(world.live) * len(world.events)
            arrow_pairs += len(world.live) * len(world.arrow_events)
            matches += world.matches
            world.churn()
        if seed % 20 == 0:
            sys.stdout.write(f"{pairs:,} pairs, {matches:,} matches, {time.monotonic() - started:.0f} s\n")
            sys.stdout.flush()
        seed += 1
    sys.stdout.write(
        f"{pairs:,} pairs and {arrow_pairs:,} by Arrow columns, {matches:,} matches, 0 mismatches, "
        f"seeds {options.seed} to {seed - 1}\n"
    )
    return 0


class World:
    """An engine with random subscriptions, and events to ask it about."""

    def __init__(self, engine: str, seed: int) -> None:
        self.random = Random(seed)
        self.schema: Schema = random_schema(self.random)
        self.matcher: Engine = engine_of(engine)(self.schema)
        if isinstance(self.matcher, Matcher) and seed % 2:
            # As many clusters and filters as there can be, which so few subscriptions would not get.
            self.matcher.index.costs = PlanCosts(row=1.0, probe=40.0, passing=1.0)
        self.live: dict[SubscriptionId, BoundSubscription] = {}
        self.next_id = 0
        self.add(SUBSCRIPTIONS)
        self.events: list[Event] = [self.schema.admit(random_event(self.random, self.schema)) for _ in range(EVENTS)]
        some = self.events[:ARROW_EVENTS] if isinstance(self.matcher, Matcher) else []
        self.arrow_events, self.columns = as_arrow_has_them(self.random, self.schema, some)
        self.matches = 0

    def add(self, count: int) -> None:
        for _ in range(count):
            bound = bind(random_subscription(self.random, self.schema), self.schema)
            self.next_id += 1
            try:
                self.matcher.add(self.next_id, bound)
            except (NotSupported, TooLarge):
                continue
            self.live[self.next_id] = bound

    def churn(self) -> None:
        """Let a third of the subscriptions go and as many come."""
        for id in self.random.sample(sorted(self.live, key=str), len(self.live) // 3):
            self.matcher.remove(id)
            del self.live[id]
        self.add(SUBSCRIPTIONS // 3)

    def difference(self) -> str | None:
        """Return the first pair on which engine and definition disagree, in words; None where they agree."""
        self.matches = 0
        batch = self.matcher.match_batch(self.events)
        for number, (event, found) in enumerate(zip(self.events, batch, strict=True)):
            ways = {"batch": found}
            if number % 5 == 0:
                ways["single"] = self.matcher.match(event)
            if (difference := self._difference_of(event, ways)) is not None:
                return difference
        if isinstance(self.matcher, Matcher):
            lists = (ids for part in self.matcher.match_arrow(self.columns) for ids in part.lists())
            for event, found in zip(self.arrow_events, lists, strict=True):
                if (difference := self._difference_of(event, {"arrow": found})) is not None:
                    return difference
        return None

    def _difference_of(self, event: Event, ways: dict[str, list[SubscriptionId]]) -> str | None:
        expected = {id for id, bound in self.live.items() if evaluate(bound, event)}
        self.matches += len(expected)
        for way, found in ways.items():
            if len(found) != len(set(found)):
                return f"{way} reported a subscription twice: {found}"
            for id in set(found) ^ expected:
                says = "matches" if id in expected else "does not match"
                tree = self.live[id].subscription if id in self.live else None
                text = render(tree) if tree is not None else f"{id} was removed"
                return f"by the definition it {says}; {way} says otherwise\n{text}\n{dict(event.values)}"
        return None


if __name__ == "__main__":
    sys.exit(main())
