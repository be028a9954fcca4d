"""What the paper does not measure: unequal costs (its section 4.3), and a mix that changes midway.

Costs     each predicate costs between 0.1 and 10 ms, evenly on the logarithmic scale; seconds are what counts.
Drift     after half of the events the order of the probabilities is turned round: the predicate that was true least
          often now is true most often. `sub-order, told once` keeps the order of what was true before; `sub-order,
          learning` and `adaptive, learning` see only their own evaluations, from nothing; `adaptive, told` always knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace

import numpy as np

from tocsin.operators.problem import Float64s
from tocsin_lab.evaluation.figures import LEARNING, Record, joined, raw
from tocsin_lab.evaluation.measure import Run, run_on, warm_up
from tocsin_lab.evaluation.workloads import PaperWorkload, Setting
from tocsin_lab.schedules import SCHEDULES, Adaptive, SubOrder

SETTING = Setting(20_000, 5_000, zipf=1.0)
COST_SECONDS = 0.001


def measure_costs(events: int) -> Iterator[Record]:
    """Yield every schedule on operators of unequal cost."""
    made = PaperWorkload.of(SETTING)
    cost = 10.0 ** np.random.default_rng(SETTING.seed).uniform(-4.0, -2.0, SETTING.predicates)
    truths = made.events(events)
    for name, make in SCHEDULES.items():
        warm_up(make())
        run = run_on(make(), made.workload, truths, made.statistics(cost, known=True))
        yield {"kind": "costs", "setting": asdict(SETTING), "series": name, **raw(run)}
    run = run_on(Adaptive(), made.workload, truths, made.statistics(cost, known=False), learn=True)
    yield {"kind": "costs", "setting": asdict(SETTING), "series": LEARNING, **raw(run)}


def turned_round(probability: Float64s) -> Float64s:
    """Return the same probabilities with their order turned round: the least likely becomes the most likely."""
    order = np.argsort(probability, kind="stable")
    turned = np.empty_like(probability)
    turned[order] = probability[order[::-1]]
    return turned


def measure_drift(events: int) -> Iterator[Record]:
    """Yield evaluations per event before and after the turn, which is in the middle."""
    before = PaperWorkload.of(SETTING)
    after = replace(before, probability=turned_round(before.probability))
    half = events // 2
    truths = [*before.events(half), *after.events(events - half, seed=2)]

    def told(made: PaperWorkload) -> Run:
        which = truths[:half] if made is before else truths[half:]
        return run_on(Adaptive(), made.workload, which, made.statistics(COST_SECONDS, known=True))

    def learning(schedule: SubOrder | Adaptive) -> Run:
        return run_on(schedule, before.workload, truths, before.statistics(COST_SECONDS, known=False), learn=True)

    known = before.statistics(COST_SECONDS, known=True)
    runs = {
        "sequential": run_on(SCHEDULES["sequential"](), before.workload, truths, known),
        "sub-order, told once": run_on(SubOrder(), before.workload, truths, known),
        "sub-order, learning": learning(SubOrder()),
        LEARNING: learning(Adaptive()),
    }
    for name, run in runs.items():
        yield {"kind": "drift", "setting": asdict(SETTING), "series": name, **raw(run)}
    both = joined([told(before), told(after)])
    yield {"kind": "drift", "setting": asdict(SETTING), "series": "adaptive, told", **raw(both)}
