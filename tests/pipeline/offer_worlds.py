"""A store with a market of offers and subscribers, changed by a broker while the pipeline matches, and its oracle.

The oracle asks language/semantics.py about every pair of an offer and a live subscription when the offer is published.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from tests.offers.worlds import MARKET, random_offer, random_subscription
from tocsin.broker import Broker
from tocsin.broker.admission import OfferAdmission
from tocsin.errors import BindError, EventRejected
from tocsin.language import BoundSubscription, bind
from tocsin.language.explain import plain_values
from tocsin.language.semantics import decide
from tocsin.offers.program_files import open_programs
from tocsin.pipeline.log_query import Stored, store_batch
from tocsin.pipeline.store_source import SeqRange, StoreMatchReader
from tocsin.schema import Event
from tocsin.store.notifications import all_blocks

PROGRAMS = """
[programs.tariff]
version = {version}
parameters = {{ age = "int", years = "int" }}
returns = "float"
expression = "age * {version} / years"

[programs.risky]
version = {version}
parameters = {{ age = "int" }}
returns = "float"
callable = "math:{function}"

[programs.drawn]
version = 1
parameters = {{ age = "int" }}
returns = "int"
callable = "operator:neg"
pure = false

[programs.grown]
version = 1
parameters = {{ years = "int" }}
returns = "boolean"
callable = "operator:truth"

[programs.wrong]
version = 1
parameters = {{ city = "text" }}
returns = "float"
callable = "builtins:str"
"""


def write_programs(place: Path, version: int) -> None:
    """Write the programs, two of which are of that version: logarithms that fail, or square roots that fail."""
    text = PROGRAMS.format(version=version, function=["log", "sqrt"][version % 2])
    unfinished = place.with_suffix(".tmp")
    unfinished.write_text(text)
    unfinished.replace(place)


class OfferWorld:
    """A market; `expected` and `failing` are what should come of it."""

    def __init__(self, folder: Path, seed: int, engine: str = "columnar") -> None:
        self.engine = engine
        self.random = random.Random(seed)
        self.programs = folder / "programs.toml"
        self.version = 1
        write_programs(self.programs, 1)
        self.store = str(folder / "market.db")
        self.broker = self._open()
        self.live: dict[int, BoundSubscription] = {}
        self.expected: dict[tuple[int, int], dict[str, Any]] = {}  # (seq, subscription) -> values
        self.failing: dict[int, dict[int, str]] = {}  # seq -> subscription -> reason

    def _open(self) -> Broker:
        self._admission = OfferAdmission(open_programs(self.programs))
        return Broker.open(self.store, schema=MARKET, matching="pipeline", programs=self.programs, sweep=False)

    def next_version(self) -> None:
        """Let the programs have another version, for whoever reads their file."""
        self.version += 1
        write_programs(self.programs, self.version)
        self.broker.close()
        self.broker = self._open()

    def subscribe(self, count: int) -> None:
        for _ in range(count):
            plain_one = self.random.random() < 0.15
            text = f"count < {self.random.randrange(10)}" if plain_one else random_subscription(self.random)
            try:
                bound = bind(text, MARKET)
            except BindError:  # not every type has every attribute
                continue
            receipt = self.broker.subscribe(text, owner=f"owner-{self.random.randrange(4)}")
            self.live[receipt.id] = bound

    def unsubscribe(self, count: int) -> None:
        for id in self.random.sample(sorted(self.live), min(count, len(self.live))):
            for owner in range(4):
                if any(one.id == id for one in self.broker.subscriptions(f"owner-{owner}")):
                    self.broker.unsubscribe(id, owner=f"owner-{owner}")
            del self.live[id]

    def publish(self, count: int) -> None:
        for _ in range(count):
            document = random_offer(self.random)
            is_plain = self.random.random() < 0.2
            try:
                receipt = self.broker.publish(document["event"] if is_plain else document)
            except EventRejected:  # not every type computes every attribute
                continue
            assert receipt.met is None
            if is_plain:
                self._expect(receipt.seq, MARKET.admit(document["event"]), is_offer=False)
            else:
                self._expect(receipt.seq, self._admission.analyse(document, MARKET), is_offer=True)

    def _expect(self, seq: int, event: Event, *, is_offer: bool) -> None:
        for id, subscription in self.live.items():
            verdict = decide(subscription, event)
            if verdict.matched:
                values = {name: value for name, value in verdict.computed.items() if value is not None}
                self.expected[seq, id] = plain_values(values)
            elif verdict.failure is not None and is_offer:  # no letters for plain events: there is no end of them
                self.failing.setdefault(seq, {})[id] = verdict.failure

    def churn(self, rounds: int) -> None:
        for _ in range(rounds):
            self.subscribe(self.random.randrange(5))
            self.publish(self.random.randrange(1, 6))
            self.unsubscribe(self.random.randrange(3))

    def read(self, after_seq: int, through_seq: int) -> pa.Table:
        """Return what a worker makes of a stretch of the log."""
        reader = StoreMatchReader({"store": self.store, "engine": self.engine, "programs": str(self.programs)})
        return pa.Table.from_batches(list(reader.read(SeqRange(after_seq, after_seq, through_seq))))

    def match(self, after_seq: int | None = None) -> Stored:
        """Match what waits, or all after a seq, as a worker and the driver do; without Spark."""
        stands = self.broker.store.meta()
        rows = self.read(stands.matched_through if after_seq is None else after_seq, stands.seq)
        return store_batch(self.broker.store, rows)

    def check(self) -> None:
        """Hold what is stored against what should be."""
        with self.broker.store.read() as connection:
            pairs = [
                pair
                for _, _, _, matches in all_blocks(connection)
                for pair in zip(matches.seq.tolist(), matches.subscription.tolist(), strict=True)
            ]
        assert len(pairs) == len(set(pairs)), "a notification is stored twice"
        assert set(pairs) == set(self.expected)
        told = {
            (one.seq, one.subscription): {name: one.event[name] for name in one.computed}
            for owner in range(4)
            for page in self.broker.replay(f"owner-{owner}")
            for one in page
            if (one.seq, one.subscription) in self.expected
        }
        # What was unsubscribed is not delivered any more; its values are compared where they are kept.
        assert told == {pair: values for pair, values in self.expected.items() if pair in told}
        letters = self.broker.dead_letters(limit=10_000)
        assert {one.kind for one in letters} <= {"match"}
        bodies = [msgspec.json.decode(one.body) for one in letters]
        found = {one["offer"]: {int(each["subscription"]): each["reason"] for each in one["first"]} for one in bodies}
        assert len(found) == len(bodies), "a failure is told twice"
        assert found == self.failing
