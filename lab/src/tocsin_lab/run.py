"""Running experiments: each writes its raw results before the next begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tocsin_lab.experiments import ALL, Experiment, Scale, experiment_of, experiments
from tocsin_lab.results import Results, store


def chosen(name: str) -> Sequence[Experiment]:
    """Return the experiment of that name, or all."""
    return list(experiments().values()) if name == ALL else [experiment_of(name)]


def run(name: str, scale: Scale, folder: Path, tell: Callable[[str], None]) -> list[Results]:
    """Run one experiment or all; `tell` gets a line before and after each."""
    found = []
    for experiment in chosen(name):
        tell(f"{experiment.name}: {experiment.title}")
        results = store(folder, experiment.name, scale.value, experiment.run(scale))
        claims = experiment.claims(results)
        held = sum(claim.holds is True for claim in claims)
        tell(
            f"  {results.circumstances.seconds:.0f} s, {len(results.rows)} figures, {held} of {len(claims)} claims hold"
        )
        found.append(results)
    return found
