"""The papers' workloads by their parameters; W4 is `topss` of bench/workloads.py, the thesis's in paper_workloads.py.

W0 to W3 (TOPSS 5.1.1): 120 attributes, 1 to 20 predicates per subscription, operators = != < >, values uniform in
1..250 (small), 250..10,000 (medium), 10,000..100,000 (big); in W3 (mix) a third of the attributes has each.

Le Subscribe, section 4: one event type of optional attributes; half of them texts with equality only, half numbers with
any comparison. Our copy of its text has lost its numbers, so these are ours: 8 attributes, 100 texts and 1,000
numbers, a predicate on each with probability 0.5, an event binds each with probability 0.9.
"""

from __future__ import annotations

import numpy as np

from tocsin_lab.bench.workloads import Workload, topss
from tocsin_lab.prepared import Prepared

EQ, NE, LT, _, GT, _ = range(6)
PREDICATE_DOMAINS = {"W0": (1, 250), "W1": (250, 10_000), "W2": (10_000, 100_000)}


def w4(subscriptions: int, events: int, seed: int = 4) -> Prepared:
    """Return TOPSS's W4: 10 attributes, values 1-10, 1-5 predicates."""
    return Prepared(topss(subscriptions, events, seed), ((1, 10),) * 10)


def predicate_workload(name: str, predicates: int, events: int, seed: int = 0) -> Prepared:
    """Return W0 .. W3 with subscriptions until there are about so many predicates."""
    rng = np.random.default_rng(seed)
    ranges = list(PREDICATE_DOMAINS.values())
    limits = tuple(ranges[a % 3] if name == "W3" else PREDICATE_DOMAINS[name] for a in range(120))
    counts = rng.integers(1, 21, predicates // 10)
    offset = np.concatenate([[0], np.cumsum(counts)])
    # Distinct attributes within a subscription, so that no two predicates of it are merged.
    chosen = np.argsort(rng.random((len(counts), 120)), axis=1)[:, :20]
    attribute = chosen[np.arange(20)[None, :] < counts[:, None]]
    low, high = np.array(limits).T
    operator = np.array([EQ, NE, LT, GT])[rng.integers(0, 4, len(attribute))]
    value = rng.integers(low[attribute], high[attribute] + 1)
    occurred = rng.integers(low[:, None], high[:, None] + 1, (120, events))
    names = tuple(f"a{a}" for a in range(120))
    return Prepared(Workload(names, {}, offset, attribute, operator, value, occurred), limits)


def le_subscribe(
    subscriptions: int, events: int, *, equality: float = 0.5, seed: int = 0, probability: float = 0.5
) -> Prepared:
    """Return Le Subscribe's workload; `equality` is the share of equalities among predicates on numbers."""
    rng = np.random.default_rng(seed)
    texts = {a: tuple(f"text{i}" for i in range(100)) for a in range(4)}
    limits = ((0, 99),) * 4 + ((0, 999),) * 4
    has = rng.random((subscriptions, 8)) < probability
    has[~has.any(axis=1), 0] = True
    attribute = np.nonzero(has)[1]
    offset = np.concatenate([[0], np.cumsum(has.sum(axis=1))])
    size = np.array([high + 1 for _, high in limits])
    value = rng.integers(0, size[attribute])
    ordered = (attribute >= 4) & (rng.random(len(attribute)) >= equality)
    operator = np.where(ordered, np.array([LT, GT])[rng.integers(0, 2, len(attribute))], EQ)
    occurred = rng.integers(0, size[:, None], (8, events))
    absent = rng.random((8, events)) >= 0.9
    names = tuple(f"a{a}" for a in range(8))
    return Prepared(Workload(names, texts, offset, attribute, operator, value, occurred), limits, absent)
