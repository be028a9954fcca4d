"""Claims: what a paper says, as comparisons of measured figures; the verdict and its reason come from the results alone.

A statement is the paper's sentence, its place and number, and what has to be so in the results for it to hold:

    Less      figure of one series below limit times another's, judged at every x that both have
    Growth    the exponent of a series over x (y ~ x^e) lies between two limits
    Falls     a series at its last x below limit times its value at its first

`Where` says which x count: all, the first ("for few"), or the last ("for many", as far as the axis goes). All others are
judged and told too. A statement that cannot be measured says why instead.

The reason for a claim that does not hold is looked for in the results: other sizes at which it does hold, or a counter
that the statement names and that points the same way as the figure. Otherwise the report says "not explained".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import log
from typing import Protocol

from tocsin_lab.results import Results
from tocsin_lab.verdicts import BAND, Interval, Sample, Verdict, decide, every, interval_of, placed, shown

NOT_EXPLAINED = "not explained"
EXPONENT_BAND = 0.05  # what BAND is to ratios: a tenth more at one end of two decades


class Where(StrEnum):
    """At which x a comparison has to hold."""

    EVERYWHERE = "at every size"
    FEW = "at the smallest size"
    MANY = "at the largest size"


@dataclass(frozen=True)
class Point:
    """One comparison at one x."""

    x: float
    verdict: Verdict
    text: str


@dataclass(frozen=True)
class Judged:
    """A part of a claim against the results."""

    verdict: Verdict
    points: list[Point]
    reason: str = ""


class Part(Protocol):
    """Something that a claim needs to be so."""

    def compared(self) -> set[tuple[str, str]]:
        """Return the (series, figure) that it is about."""
        ...

    def judge(self, results: Results) -> Judged:
        """Return what the results say of it."""
        ...


@dataclass(frozen=True)
class Less:
    """The figure of `left` lies below `limit` times that of `right`."""

    figure: str
    left: str
    right: str
    limit: float = 1.0
    where: Where = Where.EVERYWHERE
    right_figure: str = ""  # where it is another
    because: tuple[str, ...] = ()  # counters that may explain the opposite

    def compared(self) -> set[tuple[str, str]]:
        return {(self.left, self.figure), (self.right, self.right_figure or self.figure)}

    def judge(self, results: Results) -> Judged:
        lefts, rights = (
            results.samples(self.left, self.figure),
            results.samples(self.right, self.right_figure or self.figure),
        )
        common = [x for x in lefts if x in rights]
        points = [self._point(x, lefts[x], rights[x]) for x in common]
        verdict = _over_sizes([point.verdict for point in points], self.where)
        reason = self._reason(results, points) if verdict is Verdict.FAILS else ""
        return Judged(verdict, points, reason)

    def _point(self, x: float, left: Sample, right: Sample) -> Point:
        ratio = left.over(right)
        text = f"{self.left} {left.interval}, {self.right} {right.interval} {self.figure}; ratio {ratio.interval}"
        if self.limit != 1.0:
            text += f", limit {shown(self.limit)}"
        return Point(x, decide(ratio, self.limit), text)

    def _reason(self, results: Results, points: Sequence[Point]) -> str:
        """Return what the results themselves say about why it does not hold."""
        found = []
        held = [point.x for point in points if point.verdict is Verdict.HOLDS]
        failed = [point.x for point in points if point.verdict is Verdict.FAILS]
        if held:
            found.append(f"depends on the size: holds at {_listed(held)}, not at {_listed(failed)}")
        worst = failed[-1] if self.where is not Where.FEW else failed[0]
        for counter in self.because:
            left, right = (results.samples(series, counter).get(worst) for series in (self.left, self.right))
            if left is not None and right is not None and decide(left.over(right), self.limit) is Verdict.FAILS:
                found.append(f"{counter} at {placed(worst)}: {left.interval} against {right.interval}")
        return "; ".join(found) or NOT_EXPLAINED


@dataclass(frozen=True)
class Growth:
    """A series grows like x to a power between `least` and `most`."""

    figure: str
    series: str
    least: float = -1e9
    most: float = 1e9
    from_x: float = 0.0  # what is smaller is left out: costs that do not depend on the size

    def compared(self) -> set[tuple[str, str]]:
        return {(self.series, self.figure)}

    def judge(self, results: Results) -> Judged:
        samples = {x: each for x, each in results.samples(self.series, self.figure).items() if x >= self.from_x and x}
        if len(samples) < 2:
            return Judged(Verdict.UNDECIDED, [], "")
        exponent = exponent_of(samples)
        band = 0.0 if all(sample.counted for sample in samples.values()) else EXPONENT_BAND
        verdict = Verdict.UNDECIDED
        if self.least + band <= exponent.low and exponent.high <= self.most - band:
            verdict = Verdict.HOLDS
        elif exponent.high < self.least - band or exponent.low > self.most + band:
            verdict = Verdict.FAILS
        limits = f"{shown(self.least)} to {shown(self.most)}" if self.least > -1e9 else f"at most {shown(self.most)}"
        if self.most == 1e9:
            limits = f"at least {shown(self.least)}"
        text = (
            f"{self.series} {self.figure} grows like x^{exponent} from {placed(min(samples))} on; asked for: {limits}"
        )
        return Judged(verdict, [Point(max(samples), verdict, text)], NOT_EXPLAINED if verdict is Verdict.FAILS else "")


@dataclass(frozen=True)
class Falls:
    """A series at its last x lies below `limit` times its value at its first; at least `limit` where it rises."""

    figure: str
    series: str
    limit: float = 1.0
    rises: bool = False

    def compared(self) -> set[tuple[str, str]]:
        return {(self.series, self.figure)}

    def judge(self, results: Results) -> Judged:
        samples = results.samples(self.series, self.figure)
        if len(samples) < 2:
            return Judged(Verdict.UNDECIDED, [], "")
        first, last = min(samples), max(samples)
        before, after = (last, first) if self.rises else (first, last)
        ratio = samples[after].over(samples[before])
        verdict = decide(ratio, 1 / self.limit if self.rises else self.limit)
        text = f"{self.series} {samples[first].interval} {self.figure} at {placed(first)}, {samples[last].interval} at {placed(last)}"
        return Judged(verdict, [Point(last, verdict, text)], NOT_EXPLAINED if verdict is Verdict.FAILS else "")


def alike(figure: str, left: str, right: str, limit: float, where: Where = Where.EVERYWHERE) -> tuple[Less, Less]:
    """Return the parts of: two series differ by less than a factor."""
    return Less(figure, left, right, limit, where), Less(figure, right, left, limit, where)


def exponent_of(samples: dict[float, Sample]) -> Interval:
    """Return e of y ~ x^e, fitted within every round, and its interval."""
    rounds = max(len(sample.values) for sample in samples.values())
    fitted = []
    for number in range(rounds):
        points = [
            (log(x), log(sample.values[number % len(sample.values)]))
            for x, sample in samples.items()
            if sample.values[number % len(sample.values)] > 0
        ]
        if len(points) > 1:
            fitted.append(_slope(points))
    counted = all(sample.counted for sample in samples.values())
    return interval_of(fitted, counted=counted)


def _slope(points: Sequence[tuple[float, float]]) -> float:
    size = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / size, sum(y for _, y in points) / size
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def _over_sizes(verdicts: Sequence[Verdict], where: Where) -> Verdict:
    if not verdicts:
        return Verdict.UNDECIDED
    if where is Where.EVERYWHERE:
        return every(verdicts)
    return verdicts[0] if where is Where.FEW else verdicts[-1]


def _listed(xs: Sequence[float]) -> str:
    return ", ".join(f"{placed(x)}" for x in xs)


@dataclass(frozen=True)
class Statement:
    """What a paper says, and what decides it."""

    says: str
    place: str  # section, figure or table of the paper
    paper: str  # its number, or "in words"
    parts: tuple[Part, ...] = ()
    unmeasured: str = ""  # why, where nothing decides it here

    def judge(self, results: Results | None) -> Claim:
        """Return the claim with its verdict; None: the experiment was not run."""
        if self.unmeasured:
            return Claim(self, Verdict.UNMEASURED, [], self.unmeasured)
        if results is None:
            return Claim(self, Verdict.UNMEASURED, [], "this experiment is not among the stored results")
        judged = [part.judge(results) for part in self.parts]
        verdict = every(each.verdict for each in judged)
        return Claim(self, verdict, judged, self._reason(judged) if verdict is Verdict.FAILS else "")

    def _reason(self, judged: Sequence[Judged]) -> str:
        """Return what the parts found, and for which of them the claim does hold."""
        reasons = [each.reason for each in judged if each.reason and each.reason != NOT_EXPLAINED]
        names = [" and ".join(sorted({series for series, _ in part.compared()})) for part in self.parts]
        held, failed = (
            [name for name, each in zip(names, judged, strict=True) if each.verdict is verdict]
            for verdict in (Verdict.HOLDS, Verdict.FAILS)
        )
        if held:
            reasons.insert(0, f"holds for {'; '.join(dict.fromkeys(held))}, not for {'; '.join(dict.fromkeys(failed))}")
        return "; ".join(dict.fromkeys(reasons)) or NOT_EXPLAINED


@dataclass(frozen=True)
class Claim:
    """A statement with what was measured and what follows."""

    statement: Statement
    verdict: Verdict
    judged: list[Judged]
    reason: str = ""

    @property
    def says(self) -> str:
        return self.statement.says

    @property
    def ours(self) -> str:
        """What was measured: every part at its last size; at the others, the verdict."""
        return "; ".join(_part_text(each) for each in self.judged) or "—"

    def details(self) -> Iterator[str]:
        """Yield a line for every comparison."""
        for each in self.judged:
            for point in each.points:
                yield f"{placed(point.x)}: {point.text}: {point.verdict}"


MARKS = {Verdict.HOLDS: "yes", Verdict.FAILS: "no", Verdict.UNDECIDED: "?"}


def _part_text(judged: Judged) -> str:
    if not judged.points:
        return "no figures"
    *others, last = judged.points
    text = f"at {placed(last.x)}: {last.text}"
    if others:
        text += " (" + ", ".join(f"{placed(point.x)}: {MARKS[point.verdict]}" for point in others) + ")"
    return text


def rule() -> str:
    """Return the rule in words, for the report."""
    return (
        "Competitors take turns, each once a round; ratios are taken within a round. A claim is that a ratio lies below a "
        "limit, at every size unless it speaks of few or many. With the order-statistic interval of the median ratio (at "
        f"least 95%): it *holds* where the whole interval lies below limit / {BAND:g}, *does not hold* where it lies above "
        f"limit × {BAND:g}, and is *undecided* otherwise. Counted figures (bytes, nodes, evaluations) have no such band. The "
        "reason for a claim that does not hold is another measurement, or it is “not explained”."
    )
