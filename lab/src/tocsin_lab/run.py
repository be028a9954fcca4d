"""Running experiments: each writes its raw results before the next begins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tocsin_lab.experiments import ALL, Experiment, experiment_of, experiments
from tocsin_lab.results import Results, store
from tocsin_lab.rounds import Bench


def chosen(name: str) -> Sequence[Experiment]:
    """Return the experiment of that name, or all."""
    return list(experiments().values()) if name == ALL else [experiment_of(name)]


def run(name: str, bench: Bench, folder: Path, tell: Callable[[str], None]) -> list[Results]:
    """Run one experiment or all; `tell` gets a line before and after each."""
    found = []
    for experiment in chosen(name):
        tell(f"{experiment.name}: {experiment.title}")
        results = store(folder, experiment.name, bench.scale.value, experiment.run(bench))
        verdicts = Counter(statement.judge(results).verdict for statement in experiment.statements)
        told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
        tell(f"  {results.circumstances.seconds:.0f} s, {len(results.rows)} figures; claims: {told}")
        found.append(results)
    return found
