"""The papers' workloads by their parameters; W4 is `topss` of bench/workloads.py, the thesis's in paper_workloads.py.

W0 to W3 (TOPSS 5.1.1): 120 attributes, operators = != < >, values uniform in 1..250 (small), 250..10,000 (medium),
10,000..100,000 (big); in W3 (mix) a third of the attributes has each. Which subscriptions have the predicates (1 to 20 each)
makes no difference to the first stage, so they are drawn alone.

Le Subscribe, section 4: one event type of optional attributes; half of them texts with equality only, half numbers with
any comparison. Our copy of its text has lost its numbers, so these are ours: 8 attributes, 100 texts and 1,000
numbers, a predicate on each with probability 0.5, an event binds each with probability 0.9.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tocsin_lab.bench.workloads import Workload, topss
from tocsin_lab.classic.columns import Columns
from tocsin_lab.classic.labels import HIGHEST, LOWEST
from tocsin_lab.classic.rows import NONE_IN, SOME_IN, CodedEvent
from tocsin_lab.prepared import Prepared

EQ, NE, LT, _, GT, _ = range(6)
PREDICATE_DOMAINS = {"W0": (1, 250), "W1": (250, 10_000), "W2": (10_000, 100_000)}


def w4(subscriptions: int, events: int, seed: int = 4) -> Prepared:
    """Return TOPSS's W4: 10 attributes, values 1-10, 1-5 predicates."""
    return Prepared(topss(subscriptions, events, seed), ((1, 10),) * 10)


@dataclass(frozen=True)
class PredicatePopulation:
    """Distinct predicates of W0 .. W3, coded, and events: all that the predicate stage knows of a workload."""

    columns: Columns
    fields: list[npt.NDArray[np.int64]]  # column, kind, low, high
    events: list[CodedEvent]

    def satisfied(self, event: CodedEvent) -> npt.NDArray[np.int64]:
        """Return the numbers of the predicates that an event satisfies, by evaluating each: the oracle."""
        column, kind, low, high = self.fields
        label = event.labels[event.offset[column]]
        return np.flatnonzero(((low <= label) & (label <= high)) == (kind == SOME_IN))


def possible_predicates(name: str) -> int:
    """Return how many distinct predicates a workload of TOPSS's 5.1.1 can have."""
    return sum(4 * (high - low + 1) for low, high in _limits(name))


def predicate_population(name: str, predicates: int, events: int, seed: int = 0) -> PredicatePopulation:
    """Return that many distinct predicates of W0 .. W3, each as likely as another."""
    rng = np.random.default_rng(seed)
    low, high = np.array(_limits(name)).T
    first = np.concatenate([[0], np.cumsum(4 * (high - low + 1))])
    chosen = rng.choice(int(first[-1]), predicates, replace=False)
    attribute = np.searchsorted(first, chosen, side="right") - 1
    size = (high - low + 1)[attribute]
    operator, value = np.divmod(chosen - first[attribute], size)
    value = value + low[attribute]
    kind = np.where(operator == 1, NONE_IN, SOME_IN)
    lows = np.select([operator == 2, operator == 3], [np.int64(LOWEST), value + 1], value)
    highs = np.select([operator == 2, operator == 3], [value - 1, np.int64(HIGHEST)], value)
    empty = Prepared(
        Workload(_NAMES, {}, np.zeros(1, int), *(np.zeros(0, int),) * 3, np.zeros((120, 0), int)), _limits(name)
    )
    columns = Columns(empty.schema)
    for attribute_name in _NAMES:
        columns.number(attribute_name)
    occurred = rng.integers(low[:, None], high[:, None] + 1, (120, events))
    offset, present = np.arange(121, dtype=np.int32), np.ones(120, np.bool_)
    coded = [CodedEvent(offset, occurred[:, event].copy(), present) for event in range(events)]
    return PredicatePopulation(columns, [attribute, kind, lows, highs], coded)


_NAMES = tuple(f"a{a}" for a in range(120))


def _limits(name: str) -> tuple[tuple[int, int], ...]:
    ranges = list(PREDICATE_DOMAINS.values())
    return tuple(ranges[a % 3] if name == "W3" else PREDICATE_DOMAINS[name] for a in range(120))


def le_subscribe(
    subscriptions: int,
    events: int,
    *,
    equality: float = 0.5,
    seed: int = 0,
    probability: float = 0.5,
    texts: int = 100,
) -> Prepared:
    """Return Le Subscribe's workload; `equality` is the share of equalities among predicates on numbers."""
    rng = np.random.default_rng(seed)
    values = {a: tuple(f"text{i}" for i in range(texts)) for a in range(4)}
    limits = ((0, texts - 1),) * 4 + ((0, 999),) * 4
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
    return Prepared(Workload(names, values, offset, attribute, operator, value, occurred), limits, absent)
