"""Comparing two stored runs: which figures changed beyond noise, and which verdicts.

Two runs are not interleaved, so their intervals stand side by side: a figure changed where the two intervals of its median
do not meet even when each is widened by BAND (verdicts.py). What is counted changed where it differs at all. Runs of
different scale or machine are compared only where they say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tocsin_lab.experiments import experiments
from tocsin_lab.results import Results
from tocsin_lab.verdicts import BAND, Interval, Sample, Verdict, shown


@dataclass(frozen=True)
class Change:
    """A figure that is another than it was."""

    experiment: str
    series: str
    figure: str
    x: float
    before: Interval
    after: Interval

    def __str__(self) -> str:
        factor = f"{shown(self.after.middle / self.before.middle)} times" if self.before.middle else "from nothing"
        place = f"{self.experiment}, {self.series} at {self.x:,.0f}"
        return f"{place}: {self.figure} {self.before} → {self.after} ({factor})"


@dataclass(frozen=True)
class Turned:
    """A claim whose verdict is another than it was."""

    experiment: str
    says: str
    before: Verdict
    after: Verdict

    @property
    def settled(self) -> bool:
        """Whether the two verdicts contradict each other: neither is undecided, neither unmeasured."""
        return {self.before, self.after} == {Verdict.HOLDS, Verdict.FAILS}

    def __str__(self) -> str:
        return f"{self.experiment}: “{self.says}”: {self.before} → {self.after}"


def differs(before: Sample, after: Sample) -> bool:
    """Return whether two runs of one figure differ beyond noise."""
    old, new = before.interval, after.interval
    if before.counted and after.counted:
        return before.values != after.values
    return new.low > old.high * BAND or new.high < old.low / BAND


def changes(before: Results, after: Results) -> Iterator[Change]:
    """Yield the figures that changed, in the order of the newer run."""
    old = {(row.series, row.figure, row.x): row.sample for row in before.rows}
    for row in after.rows:
        was = old.get((row.series, row.figure, row.x))
        if was is not None and differs(was, row.sample):
            yield Change(row.experiment, row.series, row.figure, row.x, was.interval, row.sample.interval)


def turned(before: Mapping[str, Results], after: Mapping[str, Results]) -> Iterator[Turned]:
    """Yield the claims whose verdict changed."""
    for name, experiment in experiments().items():
        if name in before and name in after:
            for statement in experiment.statements:
                was, now = statement.judge(before[name]).verdict, statement.judge(after[name]).verdict
                if was is not now:
                    yield Turned(name, statement.says, was, now)


def comparison(before: Mapping[str, Results], after: Mapping[str, Results]) -> list[str]:
    """Return what changed between two runs, a line each; nothing where nothing did."""
    lines = []
    for name in after:
        if name not in before:
            continue
        scales = before[name].circumstances.scale, after[name].circumstances.scale
        cpus = before[name].circumstances.machine.get("cpu"), after[name].circumstances.machine.get("cpu")
        if scales[0] != scales[1] or cpus[0] != cpus[1]:
            lines.append(f"{name}: another {'scale' if scales[0] != scales[1] else 'machine'}: times are not compared")
            continue
        lines += [str(change) for change in changes(before[name], after[name])]
    return [str(each) for each in turned(before, after)] + lines
