"""Experiment: a run that yields rows, and the claims that its rows decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tocsin_lab.claims import Statement
from tocsin_lab.results import Row
from tocsin_lab.rounds import Bench


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
    paper: str  # its key in experiments.PAPERS
    about: str  # the set-up, in Markdown
    run: Callable[[Bench], Iterator[Row]]
    statements: tuple[Statement, ...]  # what the paper says that this run decides
    plots: tuple[Plot, ...] = ()
