"""Experiment: a run that yields rows, and claims that are decided from rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tocsin_lab.results import Results, Row


class Scale(StrEnum):
    """How much is run: `tiny` for tests, `quick` in minutes, `full` in the papers' sizes."""

    TINY = "tiny"
    QUICK = "quick"
    FULL = "full"

    def of(self, tiny: list[int], quick: list[int], full: list[int]) -> list[int]:
        """Return the sizes of this scale."""
        return {Scale.TINY: tiny, Scale.QUICK: quick, Scale.FULL: full}[self]

    def budget(self, seconds: float = 0.5) -> float:
        """Return for how long to repeat one timing."""
        return 0.01 if self is Scale.TINY else seconds


@dataclass(frozen=True)
class Claim:
    """What a paper says, what its figures are where its text gives them, ours, and whether it holds here."""

    says: str
    paper: str
    ours: str
    holds: bool | None  # None: these results cannot tell
    why: str = ""  # the likely reason, where it does not hold


@dataclass(frozen=True)
class Plot:
    """A picture: one line per series of a figure over x."""

    figure: str
    x_label: str
    y_label: str
    log_x: bool = True
    log_y: bool = True
    paper: Mapping[str, Mapping[float, float]] = field(default_factory=dict)  # series -> x -> value, dashed


@dataclass(frozen=True)
class Experiment:
    """One experiment of a paper."""

    name: str
    title: str
    paper: str
    about: str  # the set-up, in Markdown
    run: Callable[[Scale], Iterator[Row]]
    claims: Callable[[Results], list[Claim]]
    plots: tuple[Plot, ...]


def ratio(a: float, b: float) -> str:
    """Return a quotient for people."""
    found = a / b
    return f"{found:.0f}" if found >= 10 else f"{found:.1f}" if found >= 1 else f"{found:.2f}"
