"""Rounds: competitors are measured in turns, each once a round, so that what disturbs one disturbs all.

A bench has a scale, a number of rounds and clocks. `race` calls each competitor once to warm up (what may compile does so
there), finds how many calls make a pass that the clock can tell, then lets the competitors take turns; each round begins
with another one, so that none always follows the same. Every round's value is kept: verdicts.py makes intervals of them.

Clocks are given, so that tests plant costs and noise without waiting for them.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil

from tocsin.matching import Engine, engine_of
from tocsin.schema import Schema
from tocsin_lab.results import Row
from tocsin_lab.verdicts import FEWEST, Sample

Act = Callable[[], object]
Clock = Callable[[], float]
cpu_time: Clock = time.thread_time
wall_time: Clock = time.perf_counter
MOST_CALLS = 10_000


class Scale(StrEnum):
    """How much is run: `tiny` for tests, `quick` in five minutes, `full` within an hour."""

    TINY = "tiny"
    QUICK = "quick"
    FULL = "full"

    def of(self, tiny: list[int], quick: list[int], full: list[int]) -> list[int]:
        """Return the sizes of this scale."""
        return {Scale.TINY: tiny, Scale.QUICK: quick, Scale.FULL: full}[self]


@dataclass(frozen=True)
class Turn:
    """A call that is timed, and what makes it undone, which is not."""

    act: Act
    undo: Act


@dataclass(frozen=True)
class Bench:
    """Where experiments run: how much, how often, and by which clocks."""

    scale: Scale = Scale.QUICK
    cpu: Clock = cpu_time  # of this thread: what else runs on the machine disturbs it little
    wall: Clock = wall_time  # of what has threads and processes of its own
    engines: Mapping[str, Callable[[Schema], Engine]] = field(default_factory=dict)  # in place of the registered ones

    @property
    def rounds(self) -> int:
        return {Scale.TINY: FEWEST, Scale.QUICK: 9, Scale.FULL: 15}[self.scale]

    @property
    def pass_seconds(self) -> float:
        """How long a pass should take at least, so that the clock's own steps are nothing beside it."""
        return {Scale.TINY: 0.0, Scale.QUICK: 0.005, Scale.FULL: 0.02}[self.scale]

    @property
    def most_seconds(self) -> float:
        """How long all passes of one race may take; there are never fewer than six rounds."""
        return {Scale.TINY: 0.0, Scale.QUICK: 4.0, Scale.FULL: 40.0}[self.scale]

    def of(self, tiny: list[int], quick: list[int], full: list[int]) -> list[int]:
        """Return the sizes of this scale."""
        return self.scale.of(tiny, quick, full)

    def engine(self, name: str, schema: Schema) -> Engine:
        """Return an empty engine of that name."""
        make = self.engines[name] if name in self.engines else engine_of(name)
        return make(schema)

    def race(self, acts: Mapping[str, Act | Turn], *, clock: Clock | None = None) -> dict[str, Sample]:
        """Return the seconds of one call of each competitor, a value a round."""
        clock = clock or self.cpu
        calls, cost = dict.fromkeys(acts, 1), 0.0
        for name, act in acts.items():
            _timed(act, 1, clock)
            seconds = _timed(act, 1, clock)
            if seconds > 0 and not isinstance(act, Turn):
                calls[name] = min(MOST_CALLS, max(1, ceil(self.pass_seconds / seconds)))
            cost += seconds * calls[name]
        rounds = self.rounds
        if cost > 0:
            rounds = max(FEWEST, min(rounds, int(self.most_seconds / cost)))
        return self._rounds(acts, calls, rounds, clock)

    def _rounds(
        self, acts: Mapping[str, Act | Turn], calls: Mapping[str, int], rounds: int, clock: Clock
    ) -> dict[str, Sample]:
        names, found = list(acts), {name: list[float]() for name in acts}
        collecting = gc.isenabled()
        gc.disable()  # a collection in one's pass is no cost of its own
        try:
            for number in range(rounds):
                first = number % len(names)
                for name in names[first:] + names[:first]:
                    found[name].append(_timed(acts[name], calls[name], clock))
        finally:
            if collecting:
                gc.enable()
        return {name: Sample(tuple(values)) for name, values in found.items()}


def _timed(act: Act | Turn, calls: int, clock: Clock) -> float:
    if isinstance(act, Turn):
        before = clock()
        act.act()
        seconds = clock() - before
        act.undo()
        return seconds
    before = clock()
    for _ in range(calls):
        act()
    return (clock() - before) / calls


@dataclass(frozen=True)
class Notebook:
    """Makes the rows of one experiment."""

    experiment: str

    def measured(
        self, figure: str, x: float, found: Mapping[str, Sample], scale: float = 1.0, note: str = ""
    ) -> Iterator[Row]:
        """Yield what a race gave, each value times `scale` (1e3 / events: milliseconds per event)."""
        for series, sample in found.items():
            yield Row(
                experiment=self.experiment,
                series=series,
                x=x,
                figure=figure,
                values=tuple(round(value * scale, 9) for value in sample.values),
                note=note,
            )

    def counted(self, figure: str, x: float, series: str, *values: float, note: str = "") -> Row:
        """Return what was counted, which is the same in every run; several values are those of several seeds."""
        return Row(
            experiment=self.experiment, series=series, x=x, figure=figure, values=values, counted=True, note=note
        )
