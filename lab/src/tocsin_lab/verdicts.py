"""Verdicts: the one rule by which measurements decide a claim.

A claim asks whether a ratio of two figures lies below a limit ("lists take less time than bits": limit 1; "bits are at
least twice as fast as bytes": limit 1/2). Competitors are measured in rounds, each once a round (rounds.py), so the ratio
is taken within each round and what disturbs a whole round falls out of it. From the ratios comes the interval of their
median by order statistics, which asks nothing of their distribution: of 6 rounds the least and the greatest, of 9
the second and the last but one, of 15 the fourth and the twelfth, each with at least 95%. Then

    holds             the whole interval lies below limit / BAND
    does not hold     the whole interval lies above limit * BAND
    undecided         all else, and whatever has fewer than 6 rounds

BAND is what another run of the same program may differ by without anything having changed (where arrays lie, how the
machine is cooled). What is counted (bytes, nodes, evaluations) is the same in every run: it has no band, and one value
is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import comb, inf

CONFIDENCE = 0.95
BAND = 1.1
FEWEST = 6  # rounds: of fewer, not even the least and the greatest enclose the median with 95%


class Verdict(StrEnum):
    """What the measurements say of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    UNMEASURED = "not measured"


@dataclass(frozen=True)
class Interval:
    """A median and what encloses it with at least 95%."""

    low: float
    middle: float
    high: float

    def __str__(self) -> str:
        if self.low == self.high:
            return shown(self.middle)
        return f"{shown(self.middle)} [{shown(self.low)}–{shown(self.high)}]"


@dataclass(frozen=True)
class Sample:
    """What was measured of one series at one x: a value of each round, or one value that was counted."""

    values: tuple[float, ...]
    counted: bool = False

    @property
    def interval(self) -> Interval:
        """The median and its interval; of too few rounds it is all numbers."""
        return interval_of(self.values, counted=self.counted)

    def over(self, other: Sample) -> Sample:
        """Return the ratios round by round; what was counted once is the same in every round."""
        left, right = self.values, other.values
        if self.counted and len(left) == 1:
            left = left * len(right)
        if other.counted and len(right) == 1:
            right = right * len(left)
        pairs = zip(left, right, strict=False)  # a competitor that was stopped early has fewer rounds
        return Sample(tuple(_quotient(a, b) for a, b in pairs), self.counted and other.counted)


def _quotient(a: float, b: float) -> float:
    return a / b if b else (1.0 if a == 0 else inf)


def interval_of(values: Sequence[float], *, counted: bool = False) -> Interval:
    """Return the median of values and its order-statistic interval."""
    ordered, size = sorted(values), len(values)
    if not size:
        return Interval(-inf, float("nan"), inf)
    middle = (ordered[(size - 1) // 2] + ordered[size // 2]) / 2
    if size < FEWEST:
        return Interval(ordered[0], middle, ordered[-1]) if counted else Interval(-inf, middle, inf)
    rank = _rank(size)
    return Interval(ordered[rank], middle, ordered[size - 1 - rank])


def _rank(size: int) -> int:
    """Return how many values may be left out at each end so that the rest encloses the median with CONFIDENCE."""
    outside, rank = 0.0, 0
    while True:
        outside += 2 * comb(size, rank) / 2.0**size
        if outside > 1 - CONFIDENCE:
            return rank - 1
        rank += 1


def decide(ratio: Sample, limit: float = 1.0) -> Verdict:
    """Return whether a ratio lies below a limit, by the rule at the head of this module."""
    band = 1.0 if ratio.counted else BAND
    found = ratio.interval
    if found.high < limit / band:
        return Verdict.HOLDS
    if found.low > limit * band or (ratio.counted and found.low >= limit):
        return Verdict.FAILS
    return Verdict.UNDECIDED


def every(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict of what holds only if all parts do."""
    found = list(verdicts)
    if Verdict.FAILS in found:
        return Verdict.FAILS
    if not found or any(verdict is not Verdict.HOLDS for verdict in found):
        return Verdict.UNDECIDED
    return Verdict.HOLDS


def shown(value: float) -> str:
    """Return a figure for people: three digits, or whole from a thousand on."""
    if abs(value) in (inf, 0) or value != value:
        return {inf: "∞", -inf: "-∞", 0.0: "0"}.get(value, "—")
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def placed(x: float) -> str:
    """Return an x for people: whole where it is, as it is where not (an exponent, a share)."""
    return f"{x:,.0f}" if x == int(x) else f"{x:g}"
