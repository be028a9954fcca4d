"""The experiments of the papers: what is run, which claims it is about, and how its figures are drawn."""

from __future__ import annotations

from tocsin.errors import NotSupported, did_you_mean, nearest
from tocsin_lab.experiments.experiment import Experiment, Plot

ALL = "all"
PAPERS = {  # key -> the paper; the order of the report
    "Le Subscribe": "Le Subscribe (Pereira, Fabret, Llirbat, Shasha), section 4",
    "Symmetric subscriptions": "Event matching in symmetric subscription systems (Rjaibi, Dittrich, Jaepel)",
    "TOPSS": "TOPSS, the Toronto publish/subscribe system, section 5",
    "Overlapping subscriptions": "Scalable event matching for overlapping subscriptions (Liu et al.), section 5",
    "Event notification system": "Event notification system (thesis), chapter 8",
}


def experiments() -> dict[str, Experiment]:
    """Return all experiments by name, in the order of the report."""
    from tocsin_lab.experiments import (
        le_subscribe,
        liu,
        liu_operators,
        offers,
        symmetric,
        thesis,
        topss_dbms,
        topss_predicates,
        topss_w4,
    )

    modules = (le_subscribe, symmetric, offers, topss_predicates, topss_w4, topss_dbms, liu, liu_operators, thesis)
    return {found.name: found for module in modules for found in module.EXPERIMENTS}


def experiment_of(name: str) -> Experiment:
    """Return the experiment of that name."""
    known = experiments()
    if name not in known:
        raise NotSupported(
            f"there is no experiment {name!r}{did_you_mean(nearest(name, known))}; there are: {', '.join(known)}, {ALL}"
        )
    return known[name]


__all__ = ["ALL", "PAPERS", "Experiment", "Plot", "experiment_of", "experiments"]
