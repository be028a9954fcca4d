"""The experiments of the papers: what is run, which claims it is about, and how its figures are drawn."""

from __future__ import annotations

from tocsin.errors import NotSupported, did_you_mean, nearest
from tocsin_lab.experiments.experiment import Claim, Experiment, Plot, Scale

ALL = "all"


def experiments() -> dict[str, Experiment]:
    """Return all experiments by name, in the order of the report."""
    from tocsin_lab.experiments import le_subscribe, symmetric, thesis, topss_dbms, topss_predicates, topss_w4

    modules = (le_subscribe, topss_predicates, topss_w4, topss_dbms, thesis, symmetric)
    return {found.name: found for module in modules for found in module.EXPERIMENTS}


def experiment_of(name: str) -> Experiment:
    """Return the experiment of that name."""
    known = experiments()
    if name not in known:
        raise NotSupported(
            f"there is no experiment {name!r}{did_you_mean(nearest(name, known))}; there are: {', '.join(known)}, {ALL}"
        )
    return known[name]


__all__ = ["ALL", "Claim", "Experiment", "Plot", "Scale", "experiment_of", "experiments"]
