"""The meter: what a match costs is found from commits; accounts beyond their quota are slowed, then paused, and told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.broker.market import car, open_broker
from tocsin.broker import BrokerSettings
from tocsin.broker.cost_meter import BURST, HOUR, CostMeter
from tocsin.documents.subscriptions import PauseNotice
from tocsin.errors import Slowed
from tocsin.store.notifications import StoredMatches


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def matches_of(subscriptions: list[int], owners: list[int]) -> StoredMatches:
    return StoredMatches.of([1] * len(subscriptions), subscriptions, owners)


def test_what_a_match_costs_is_found_beside_what_an_event_costs() -> None:
    meter, draw = CostMeter(), np.random.default_rng(7)
    for _ in range(300):
        n, m = int(draw.integers(1, 50)), int(draw.integers(0, 2000))
        meter.published(n, 80.0 * n + 3.0 * m + draw.normal(0, 20), matches_of([5] * m, [1] * m))
    assert meter.match_us == pytest.approx(3.0, rel=0.05)


def test_costs_are_of_the_last_hour_and_by_subscription_and_owner() -> None:
    clock = Clock()
    meter = CostMeter(clock)
    meter.published(1, 60.0, matches_of([7, 7, 8, 9], [1, 1, 1, 2]))
    assert [(one.subscription, one.owner, one.matches) for one in meter.costs()] == [(7, 1, 2), (8, 1, 1), (9, 2, 1)]
    assert [one.subscription for one in meter.costs(2)] == [9]
    clock.now += HOUR / 2
    meter.published(1, 60.0, matches_of([8], [1]))
    assert {one.subscription: one.matches for one in meter.costs(1)} == {7: 2, 8: 2}
    clock.now += HOUR * 0.7
    assert {one.subscription: one.matches for one in meter.costs(1)} == {8: 1}
    clock.now += 2 * HOUR
    assert meter.costs() == []


def test_many_matches_of_one_commit_are_counted_by_an_even_sample() -> None:
    meter = CostMeter()
    size = 1_000_000
    meter.published(1, 1.0, StoredMatches.of(np.ones(size), np.arange(size) % 10, np.ones(size)))
    assert sum(one.matches for one in meter.costs()) == size


def test_bucket_empties_at_the_quota_and_tells_how_long_it_takes() -> None:
    clock = Clock()
    meter = CostMeter(clock)
    quota = 36.0  # seconds an hour: a hundredth of a processor, six seconds of burst
    for _ in range(10):
        meter.published(1, 1.0e6, matches_of([7] * 1000, [1] * 1000))  # a second each, 10 in all
    assert meter.over(lambda _: quota, times=1.0) == [1]
    assert meter.over(lambda _: quota, times=2.0) == []
    assert meter.wait_seconds(1, quota) == pytest.approx(400, rel=0.01)  # four seconds at a hundredth
    clock.now += 500
    assert meter.over(lambda _: quota, times=1.0) == []
    assert meter.wait_seconds(1, quota) == 0.0
    assert BURST * quota / HOUR == 6.0
    clock.now += 2 * HOUR
    meter.over(lambda _: quota)
    assert not meter._level


def test_heaviest_are_chosen_until_half_of_the_cost_is_gone() -> None:
    meter = CostMeter()
    meter.published(1, 1e6, matches_of([*[7] * 60, *[8] * 25, *[9] * 15], [1] * 100))
    assert list(meter.heaviest(1, 10_000.0, {7, 8, 9})) == [7]
    assert list(meter.heaviest(1, 10_000.0, {8, 9})) == [8]  # what is paused already is not chosen again
    meter.published(1, 1e6, matches_of(list(range(100, 120)), [2] * 20))
    assert len(meter.heaviest(2, 10_000.0, range(100, 120))) == 10


def test_account_beyond_its_quota_is_slowed_then_paused_and_told(tmp_path: Path) -> None:
    settings = BrokerSettings(processor_seconds_per_owner=0.6)  # 100 ms of burst
    told: list[PauseNotice] = []
    with open_broker(str(tmp_path / "store.db"), settings=settings, sweep=False) as broker:
        broker.on_paused(told.append)
        heavy = broker.subscribe("car where price < 1000", owner="ada").id
        light = broker.subscribe("car where price < 3", owner="ada").id
        other = broker.subscribe("car where price < 1000", owner="bob").id
        meter = broker._core.meter
        broker.publish([car(price) for price in range(1, 200)])
        broker.sweep()
        numbers = {one.owner: one for one in meter.costs()}
        costs = {one.subscription: one for one in meter.costs()}
        assert costs[heavy].matches == costs[other].matches == 199
        assert costs[light].matches == 2
        ada = costs[heavy].owner
        assert len(numbers) == 2
        assert not told
        assert broker.usage_of(ada)["processor_us"] == round(sum(one.processor_us for one in meter.costs(ada)))
        meter._level[ada] = 150_000.0  # over its 100 ms
        with pytest.raises(Slowed, match="processor time") as slowed:
            broker.subscribe("car where price < 5", owner="ada")
        assert slowed.value.retry_after_seconds == pytest.approx(300, rel=0.1)
        broker.replace(light, "car where price < 2", owner="ada")  # to narrow is allowed
        meter._level[ada] = 250_000.0
        broker.sweep()
        assert [one.subscription for one in told] == [heavy]
        assert "processor time" in told[0].reason
        assert broker.why_paused(ada, heavy) == told[0].reason
        assert [one.paused for one in broker.subscriptions("ada")] == [True, False]
        broker.publish(car(1))
        meter._level[ada] = 250_000.0
        broker.sweep()  # beyond it again: the next heaviest, not the one that is paused already
        assert [one.paused for one in broker.subscriptions("ada")] == [True, True]
        meter._level[ada] = 0.0
        broker.resume(light, owner="ada")
        assert [one.paused for one in broker.subscriptions("bob")] == [False]
        broker.publish(car(1))
        found = {one.subscription for one in broker.notifications("ada", limit=1000).items if one.event["price"] == 1}
        assert light in found
        assert [one.paused for one in broker.subscriptions("bob")] == [False]
        meter._level[ada] = 150_000.0
        with pytest.raises(Slowed):
            broker.resume(heavy, owner="ada")
        meter._level[ada] = 0.0
        broker.resume(heavy, owner="ada")
        assert [one.paused for one in broker.subscriptions("ada")] == [False, False]
