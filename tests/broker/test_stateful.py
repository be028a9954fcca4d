"""The whole broker against a model of a few lines: what should be delivered to whom, whatever happens in between."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.broker.market import SCHEMA, car, seqs_of
from tests.clocks import ManualClock
from tests.databases import new_database
from tocsin.broker import Broker, SubscriptionReceipt
from tocsin.errors import BatchRejected, EventRejected, LeaseEnded, StaleRenewal, UnknownSubscription, WrongTicket
from tocsin.store import Store
from tocsin.store.seals import check

OWNERS = ["ada", "bob", "eve"]
PRICES = st.integers(0, 9)
SECOND = 1_000_000


@dataclass
class ModelSubscription:
    """What the model knows of a subscription: events below `limit` satisfy it, of one colour if it has one."""

    receipt: SubscriptionReceipt
    owner: str
    limit: int
    colour: str | None
    start_us: int
    end_us: int
    generation: int = 1
    ended_seq: int | None = None
    unsubscribed: bool = False

    def reached_by(self, seq: int, arrival_us: int, event: dict[str, Any]) -> bool:
        satisfied = event["price"] < self.limit and self.colour in (None, event.get("colour"))
        live = self.receipt.id < seq and (self.ended_seq is None or seq < self.ended_seq)
        return satisfied and live and self.start_us <= arrival_us < self.end_us


class BrokerMachine(RuleBasedStateMachine):
    """Does things to a broker and to the model, and compares what each owner would read."""

    place: Callable[[], str]
    engine: str
    index: Callable[[str], Path | None]
    subscriptions = Bundle("subscriptions")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.where = type(self).place()
        self.folder = type(self).index(self.where)
        self.broker = self._open()
        self.model: list[ModelSubscription] = []
        self.events: list[tuple[int, int, dict[str, Any]]] = []  # seq, arrival, event
        self.keys: dict[str, tuple[int, Any]] = {}
        self.extended = False
        self.last_seq = 0
        self.last_us = 0

    def _open(self) -> Broker:
        options: dict[str, Any] = {"engine": type(self).engine, "index": self.folder}
        return Broker.open(self.where, schema=SCHEMA, machine=self.clock, sweep=False, **options)

    def _now(self) -> int:
        """Return the store's time; it may never be less than it was when something was acknowledged."""
        now = self.broker.store.now_us()
        assert now >= self.last_us
        return now

    def _acknowledged(self, seq: int) -> None:
        assert seq > self.last_seq
        self.last_seq = seq
        self.last_us = self.broker.store.now_us()

    # --- subscriptions ------------------------------------------------------------------------------------------------

    @rule(
        target=subscriptions,
        owner=st.sampled_from(OWNERS),
        limit=st.integers(3, 9),
        lease=st.sampled_from([5, 60, 3600]),
        red=st.booleans(),
    )
    def subscribe(self, owner: str, limit: int, lease: int, red: bool) -> ModelSubscription:
        now = self._now()
        colour = "red" if red and self.extended else None
        text = f"car where price < {limit}" + (" and colour = 'red'" if colour else "")
        receipt = self.broker.subscribe(text, owner=owner, lease=lease)
        self._acknowledged(receipt.seq)
        new = ModelSubscription(receipt, owner, limit, colour, now, now + lease * SECOND)
        self.model.append(new)
        return new

    @rule(one=subscriptions, lease=st.sampled_from([1, 30, 7200]), stale=st.booleans(), by_owner=st.booleans())
    def renew(self, one: ModelSubscription, lease: int, stale: bool, by_owner: bool) -> None:
        now = self._now()
        generation = one.generation - 1 if stale else one.generation
        who = {"owner": one.owner} if by_owner else {"ticket": one.receipt.ticket}
        over = one.ended_seq is not None or one.end_us <= now
        if over or stale:
            with pytest.raises(LeaseEnded if over else StaleRenewal):
                self.broker.renew(one.receipt.id, generation=generation, lease=lease, **who)
            self.last_us = self.broker.store.now_us()
            return
        receipt = self.broker.renew(one.receipt.id, generation=generation, lease=lease, **who)
        self._acknowledged(receipt.seq)
        one.end_us, one.generation = max(one.end_us, now + lease * SECOND), one.generation + 1
        assert receipt.generation == one.generation

    @rule(one=subscriptions, after=st.booleans(), price=PRICES)
    def publish_at_the_end_of_a_lease(self, one: ModelSubscription, after: bool, price: int) -> None:
        remaining = one.end_us - self._now() - (0 if after else 1)
        if remaining > 0:
            self.clock.advance(remaining / SECOND)
        self.publish(price, red=False)

    @rule(one=subscriptions, after=st.booleans())
    def renew_at_the_end_of_a_lease(self, one: ModelSubscription, after: bool) -> None:
        remaining = one.end_us - self._now() - (0 if after else 1)
        if remaining > 0:
            self.clock.advance(remaining / SECOND)
        self.renew(one, 30, stale=False, by_owner=False)

    @rule(one=subscriptions, price=PRICES)
    def unsubscribe_and_publish(self, one: ModelSubscription, price: int) -> None:
        self.publish(price, red=False)
        self.unsubscribe(one, by_owner=False)
        self.publish(price, red=False)

    @rule(one=subscriptions, by_owner=st.booleans())
    def unsubscribe(self, one: ModelSubscription, by_owner: bool) -> None:
        receipt = self.broker.unsubscribe(
            one.receipt.id, **({"owner": one.owner} if by_owner else {"ticket": one.receipt.ticket})
        )
        if one.ended_seq is None:
            self._acknowledged(receipt.seq)
            one.ended_seq, one.unsubscribed = receipt.seq, True
        assert receipt.seq == one.ended_seq

    @rule(one=subscriptions, other=subscriptions)
    def steal(self, one: ModelSubscription, other: ModelSubscription) -> None:
        if one is not other:
            with pytest.raises(WrongTicket):
                self.broker.unsubscribe(one.receipt.id, ticket=other.receipt.ticket)
        if one.owner != other.owner:
            with pytest.raises(UnknownSubscription):
                self.broker.unsubscribe(one.receipt.id, owner=other.owner)

    @rule()
    def sweep(self) -> None:
        now = self._now()
        due = {one.receipt.id for one in self.model if one.ended_seq is None and one.end_us <= now}
        assert set(self.broker.sweep()) == due
        if due:
            self._acknowledged(self.broker.store.meta().seq)
            for one in self.model:
                if one.receipt.id in due:
                    one.ended_seq = self.last_seq

    # --- events -------------------------------------------------------------------------------------------------------

    @rule(price=PRICES, red=st.booleans())
    def publish(self, price: int, red: bool) -> None:
        event = car(price, colour="red") if red else car(price)
        now = self._now()
        if red and not self.extended:
            with pytest.raises(EventRejected):
                self.broker.publish(event)
            return
        receipt = self.broker.publish(event)
        self._acknowledged(receipt.seq)
        self.events.append((receipt.seq, now, event))

    @rule(prices=st.lists(st.one_of(PRICES, st.just("wrong")), min_size=1, max_size=5), atomic=st.booleans())
    def publish_batch(self, prices: list[Any], atomic: bool) -> None:
        now = self._now()
        if atomic and "wrong" in prices:
            with pytest.raises(BatchRejected):
                self.broker.publish([car(price) for price in prices])
            return
        receipts = self.broker.publish([car(price) for price in prices], atomic=atomic)
        for price, receipt in zip(prices, receipts, strict=True):
            self._acknowledged(receipt.seq)
            assert receipt.accepted == (price != "wrong")
            if receipt.accepted:
                self.events.append((receipt.seq, now, car(price)))

    @rule(key=st.sampled_from("xyz"), price=PRICES)
    def publish_with_key(self, key: str, price: int) -> None:
        before = self.keys.get(key)
        now = self._now()
        if before is None:
            receipt = self.broker.publish(car(price), idempotency_key=key)
            self._acknowledged(receipt.seq)
            self.keys[key] = (price, receipt)
            self.events.append((receipt.seq, now, car(price)))
        else:
            assert self.broker.publish(car(before[0]), idempotency_key=key) == before[1]

    @precondition(lambda self: not self.extended)
    @rule()
    def extend_schema(self) -> None:
        self.broker.extend_schema(lambda schema: schema.extend_event_type("car", "colour"))
        self.extended = True
        self.last_seq = self.broker.store.meta().seq

    # --- what happens to brokers --------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 5, 59, 3600]))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([-86400, -3600, -10, 10, 3600, 86400]))
    def jump(self, seconds: float) -> None:
        before = self._now()
        self.clock.jump(seconds)
        assert self._now() == before

    @rule()
    def crash(self) -> None:
        self.broker.store.close()  # nothing is written, nobody is told
        before = self.last_us
        self.broker = self._open()
        assert self._now() >= before

    @rule(seconds=st.sampled_from([-86400, -10, 0, 10, 86400]), price=PRICES)
    def reboot(self, seconds: float, price: int) -> None:
        self.broker.close()
        self.clock.reboot(seconds)
        self.broker = self._open()
        self.publish(price, red=False)

    # --- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def everybody_reads_what_the_model_says(self) -> None:
        for owner in OWNERS:
            mine = [one for one in self.model if one.owner == owner and not one.unsubscribed]
            expected = [
                (seq, one.receipt.id)
                for seq, arrival, event in self.events
                for one in mine
                if one.reached_by(seq, arrival, event)
            ]
            assert seqs_of(self.broker, owner) == expected

    def teardown(self) -> None:
        assert check(self.broker.store) == []
        self.broker.close()


def run(
    place: Callable[[], str],
    examples: int,
    steps: int,
    engine: str,
    index: Callable[[str], Path] | None = None,
) -> None:
    """Run the machine over stores at new places; `index` says where the index of each is."""
    facts = {"place": staticmethod(place), "engine": engine, "index": staticmethod(index or (lambda _: None))}
    machine = type("Machine", (BrokerMachine,), facts)
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=steps))


@pytest.mark.parametrize("engine", ["definition", "columnar"])
def test_broker_does_what_the_model_says_on_sqlite(tmp_path: Path, engine: str) -> None:
    empty = tmp_path / "empty.db"  # made once: the tables are not what is tested here
    Store.open(empty, machine=ManualClock()).close()

    def copied() -> str:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        return str(shutil.copy(empty, folder / "store.db"))

    run(copied, examples=20 if engine == "definition" else 8, steps=40, engine=engine)


@pytest.mark.parametrize("engine", ["definition", "columnar"])
def test_broker_does_what_the_model_says_on_postgres(postgres: str, tmp_path: Path, engine: str) -> None:
    """The columnar engine has its index on disk here too, in a folder of its own for each database."""
    index = (lambda _: Path(tempfile.mkdtemp(dir=tmp_path))) if engine == "columnar" else None
    run(lambda: new_database(postgres), examples=4 if index is None else 2, steps=25, engine=engine, index=index)
