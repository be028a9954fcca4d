"""Workloads with the parameters of Liu et al. (table 1), seeded.

Popularity follows section 5.2: each predicate has a weight, uniform in [0, 1] or Zipf, and a conjunction of 3 to 5 (or
up to 11) members draws distinct predicates by weight. How likely each predicate is true, the paper does not say; only
that an event matches 0.2% of the subscriptions. Three ways to draw it, each with its one parameter solved for that ratio:

spread     u ** exponent for u uniform in [0, 1], whatever the popularity: selectivities that differ, as chains need
equal      the same for every predicate
popular    1 - exp(-n * weight / sum of weights): an event satisfies n predicates drawn by popularity
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tocsin.index.jit import kernel
from tocsin.operators.problem import Bools, Float64s, Int32s, Int64s, PredicateStatistics, Workload

Truth = Literal["spread", "equal", "popular"]
KNOWN_EVALUATIONS = 100_000  # behind each probability of PredicateStatistics that say the truth


@dataclass(frozen=True)
class Setting:
    """The parameters of one workload; the defaults are those that the paper keeps."""

    subscriptions: int
    predicates: int
    zipf: float | None = None  # the exponent; None is uniform
    shortest: int = 3
    longest: int = 5
    match_ratio: float = 0.002
    truth: Truth = "spread"
    seed: int = 0

    @property
    def popularity(self) -> str:
        return "uniform" if self.zipf is None else f"Zipf {self.zipf:g}"

    def with_truth(self, truth: Truth) -> Setting:
        return replace(self, truth=truth)


@dataclass(frozen=True)
class PaperWorkload:
    """A workload, and how likely each of its predicates is true."""

    setting: Setting
    workload: Workload
    probability: Float64s

    @classmethod
    def of(cls, setting: Setting) -> PaperWorkload:
        """Return the workload of a setting; the same setting gives the same workload."""
        chance = np.random.default_rng(setting.seed)
        weights = _weights(setting, chance)
        lengths = chance.integers(setting.shortest, setting.longest + 1, setting.subscriptions)
        starts = np.zeros(setting.subscriptions + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        members = _draw_distinct(np.cumsum(weights / weights.sum()), starts, int(chance.integers(2**31)))
        size = setting.predicates
        workload = Workload(
            operator=np.zeros(size, np.int32),
            argument=np.arange(size, dtype=np.int32),
            starts=starts,
            members=members,
            negated=np.zeros(len(members), np.bool_),
            owner=np.arange(setting.subscriptions, dtype=np.int32),
        )
        return cls(setting, workload, _probability(setting, workload, weights, chance))

    def events(self, count: int, seed: int = 1) -> list[Bools]:
        """Return events, each as the truth of every predicate, independent as the paper assumes."""
        chance = np.random.default_rng((self.setting.seed, seed))
        return [chance.random(len(self.probability)) < self.probability for _ in range(count)]

    def statistics(self, cost_seconds: float | Float64s, *, known: bool) -> PredicateStatistics:
        """Return statistics that know the probabilities, or nothing; the costs are declared in any case."""
        statistics = PredicateStatistics.of(np.full(len(self.probability), cost_seconds))
        if known:
            statistics.evaluations += KNOWN_EVALUATIONS
            statistics.trues += np.rint(self.probability * KNOWN_EVALUATIONS).astype(np.int64)
            statistics.seconds += KNOWN_EVALUATIONS * cost_seconds
        return statistics


def matching(workload: Workload, truth: Bools) -> Bools:
    """Return which conjunctions hold, by the definition."""
    held: Bools = np.logical_and.reduceat(truth[workload.members] != workload.negated, workload.starts[:-1])
    return held


def _weights(setting: Setting, chance: np.random.Generator) -> Float64s:
    if setting.zipf is None:
        return chance.random(setting.predicates)
    # Numbers say nothing about popularity, so that no schedule can live by them.
    ranks = chance.permutation(setting.predicates) + 1.0
    return (ranks**-setting.zipf).astype(np.float64)


@kernel
def _draw_distinct(cumulated: Float64s, starts: Int64s, seed: int) -> Int32s:
    """Return members for each conjunction, drawn by weight, none twice in one."""
    np.random.seed(seed)
    members = np.empty(starts[-1], np.int32)
    last = len(cumulated) - 1
    for conjunction in range(len(starts) - 1):
        place = starts[conjunction]
        while place < starts[conjunction + 1]:
            drawn = min(last, np.searchsorted(cumulated, np.random.random(), side="right"))
            if not (members[starts[conjunction] : place] == drawn).any():
                members[place] = drawn
                place += 1
    return members


def _probability(setting: Setting, workload: Workload, weights: Float64s, chance: np.random.Generator) -> Float64s:
    """Return how likely each predicate is true, such that the expected match ratio is the setting's."""
    share, uniform = weights / weights.sum(), chance.random(len(weights))
    match setting.truth:
        case "spread":
            return _solved(workload, setting.match_ratio, lambda x: uniform ** (1.0 / x))
        case "equal":
            return _solved(workload, setting.match_ratio, lambda x: np.full(len(weights), x / (1.0 + x)))
        case "popular":
            return _solved(workload, setting.match_ratio, lambda x: -np.expm1(-x * len(weights) * share))


def _solved(workload: Workload, ratio: float, make: Callable[[float], Float64s]) -> Float64s:
    """Return make(x) for the x at which the expected share of matching conjunctions is the ratio (by bisection)."""
    low, high = -40.0, 20.0  # powers of two; the ratio rises with x
    for _ in range(60):
        middle = (low + high) / 2
        with np.errstate(divide="ignore"):
            logs = np.log(make(2.0**middle))
        expected = np.exp(np.add.reduceat(logs[workload.members], workload.starts[:-1])).mean()
        low, high = (low, middle) if expected > ratio else (middle, high)
    return make(2.0 ** ((low + high) / 2))
