"""Look for disagreements between the matcher, or another engine, and the definition of matching: `make fuzz`.

    python -m tests.fuzz [--pairs 10000000] [--seed 1] [--engine columnar]

Each world is a mixed one (tests/strategies/mixed.py): a schema with unions, operators, some hundred subscriptions and events
that mix everything. What the matcher tells of them (matches, values of variables, failures) is compared with the
definition: in a batch, in a record batch of such values as one Arrow type holds, for single events; then subscriptions leave
and others come in several tiers, and it is compared again, with a snapshot of before, and with the index saved and opened
again. The first disagreement ends the run; it is printed with the seed that gives it again, and as small as it disagrees by
itself. Pairs are counted that the definition has decided, each once.

Other engines know predicates only: with `--engine`, worlds are plain (tests/strategies/worlds.py).
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random

from tests.matching.against_definition import Live
from tests.strategies.worlds import random_event, random_schema, random_subscription
from tocsin.errors import NotSupported, TooLarge
from tocsin.language import BoundSubscription, bind, evaluate, render
from tocsin.matching import SubscriptionId, engine_of

SUBSCRIPTIONS, EVENTS, ARROW_EVENTS = 240, 160, 40


class MixedRun:
    """Mixed worlds, one for each seed."""

    def __init__(self) -> None:
        self.pairs = self.compared = self.matches = self.bindings = self.failures = 0

    def difference(self, seed: int) -> str | None:
        """Return the first disagreement in the world of a seed."""
        live = Live(Random(seed), SUBSCRIPTIONS, EVENTS, ARROW_EVENTS)
        found = live.difference(singles=10)
        before, then = live.matcher.snapshot(), set(live.live)
        live.churn()
        live.add_tiers(2, 20)
        found = found or live.difference(singles=10)
        found = found or live.difference(before, then, each=10, singles=40)
        found = found or live.difference(live.stored(), each=6, singles=40)
        live.matcher.index.merge(everything=True)
        found = found or live.difference(each=10, singles=40)
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(live, name))
        return found

    def __str__(self) -> str:
        return (
            f"{self.pairs:,} pairs ({self.matches:,} matches, {self.bindings:,} with variables, {self.failures:,} failures), "
            f"compared {self.compared:,} times"
        )


class PlainRun:
    """Plain worlds, one for each seed, for an engine that knows predicates."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.pairs = self.matches = 0

    def difference(self, seed: int) -> str | None:
        """Return the first disagreement in the world of a seed."""
        random = Random(seed)
        schema = random_schema(random)
        engine = engine_of(self.engine)(schema)
        live: dict[SubscriptionId, BoundSubscription] = {}
        events = [schema.admit(random_event(random, schema)) for _ in range(EVENTS)]
        for id in range(2 * SUBSCRIPTIONS):
            bound = bind(random_subscription(random, schema), schema)
            try:
                engine.add(id, bound)
            except (NotSupported, TooLarge):
                continue
            live[id] = bound
            if id % 3 == 2:
                gone = random.choice(sorted(live))
                engine.remove(gone)
                del live[gone]
        for event, found in zip(events, engine.match_batch(events), strict=True):
            expected = {id for id, bound in live.items() if evaluate(bound, event)}
            self.pairs += len(live)
            self.matches += len(expected)
            for other in expected.symmetric_difference(found):
                says = "matches" if other in expected else "does not match"
                held = live.get(other)
                text = f"{other} was removed" if held is None else render(held.subscription)
                return f"by the definition it {says}; the engine says otherwise\n{text}\n{dict(event.values)}"
        return None

    def __str__(self) -> str:
        return f"{self.pairs:,} pairs, {self.matches:,} matches"


def main() -> int:
    """Run until the pairs are done or one disagrees; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--engine", default="columnar")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    run: MixedRun | PlainRun = MixedRun() if options.engine == "columnar" else PlainRun(options.engine)
    seed, started = options.seed, time.process_time()
    while run.pairs < options.pairs:
        if (difference := run.difference(seed)) is not None:
            sys.stdout.write(f"MISMATCH with --engine {options.engine} --seed {seed} --pairs 1\n{difference}\n")
            sys.stdout.write(f"{run}, 1 mismatch\n")
            return 1
        if seed % 20 == 0:
            took = time.process_time() - started
            sys.stdout.write(f"{run}, {took:.0f} s of CPU, {run.pairs / took:,.0f} pairs/s\n")
            sys.stdout.flush()
        seed += 1
    sys.stdout.write(f"{run}, 0 mismatches, seeds {options.seed} to {seed - 1}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
