"""The workloads of the evaluation have the paper's parameters."""

from __future__ import annotations

import numpy as np
import pytest

from tocsin.operators.evaluation.workloads import PaperWorkload, Setting, Truth, matching


@pytest.mark.parametrize("truth", ["spread", "equal", "popular"])
@pytest.mark.parametrize("zipf", [None, 1.0])
def test_events_match_the_stated_share_of_subscriptions(truth: Truth, zipf: float | None) -> None:
    made = PaperWorkload.of(Setting(subscriptions=4_000, predicates=2_000, zipf=zipf, truth=truth))
    made.workload.check()
    lengths = np.diff(made.workload.starts)
    assert (lengths.min(), lengths.max()) == (3, 5)
    expected = np.multiply.reduceat(made.probability[made.workload.members], made.workload.starts[:-1]).mean()
    assert expected == pytest.approx(0.002, rel=1e-3)
    seen = np.mean([matching(made.workload, truth).mean() for truth in made.events(300)])
    assert seen == pytest.approx(0.002, rel=0.35)


def test_zipf_popularity_falls_with_the_rank() -> None:
    made = PaperWorkload.of(Setting(subscriptions=20_000, predicates=1_000, zipf=1.0))
    popularity = np.sort(made.workload.popularity)[::-1]
    assert popularity[9] == pytest.approx(popularity[99] * 10, rel=0.25)


def test_a_setting_is_repeatable_and_its_seed_changes_it() -> None:
    one, two = (PaperWorkload.of(Setting(subscriptions=100, predicates=50)) for _ in range(2))
    other = PaperWorkload.of(Setting(subscriptions=100, predicates=50, seed=1))
    assert np.array_equal(one.workload.members, two.workload.members)
    assert not np.array_equal(one.probability, other.probability)
    assert all(np.array_equal(a, b) for a, b in zip(one.events(3), two.events(3), strict=True))
