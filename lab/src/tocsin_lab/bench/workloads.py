"""Workloads: seeded subscriptions and events, as flat columns and as JSON lines.

topss    TOPSS W4: 10 attributes, values 1-10, 1-5 predicates with = != < >; about a fifth of all pairs match
fabret   32 attributes, values 1-35, 5 equalities, two of them on fixed attributes; almost nothing matches, so that
         every hundredth event is made from a subscription
market   a marketplace: Zipf categories, brands and cities, ranges of price, year and mileage, 5% pure narrow ranges
cents    market with prices in cents: ranges of high cardinality
rein     the ranges of REIN, TAMA and their successors: 20 attributes, a domain of a million, 10 ranges of half the domain
         each; one pair in a thousand matches. rein-attributes: attributes by Zipf. rein-values: values by Zipf too

Values are integers (texts are numbered); a subscription is the conjunction of its predicates.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from pathlib import Path

OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
_EQ, _NE, _LT, _LE, _GT, _GE = range(6)


@dataclass(frozen=True, slots=True)
class Workload:
    """Subscriptions as flat predicates (those of subscription i are offset[i] .. offset[i+1]) and events by attribute.

    `texts[a]` are the texts that the numbers of attribute a stand for, where it is a text attribute.
    """

    attributes: tuple[str, ...]
    texts: dict[int, tuple[str, ...]]
    offset: npt.NDArray[np.int64]
    attribute: npt.NDArray[np.int64]
    operator: npt.NDArray[np.int64]
    value: npt.NDArray[np.int64]
    events: npt.NDArray[np.int64]  # [attribute, event]

    def write_subscriptions(self, path: Path) -> None:
        """Write one JSON object per subscription: {"id": 0, "predicates": [["price", "<", 1300]]}."""
        rows = zip(self.attribute.tolist(), self.operator.tolist(), self.value.tolist(), strict=True)
        predicates = [[self.attributes[a], OPERATORS[o], self._shown(a, v)] for a, o, v in rows]
        with path.open("w") as file:
            for i, (start, stop) in enumerate(zip(self.offset[:-1], self.offset[1:], strict=True)):
                file.write(json.dumps({"id": i, "predicates": predicates[start:stop]}) + "\n")

    def write_events(self, path: Path) -> None:
        """Write one flat JSON object per event."""
        with path.open("w") as file:
            for values in self.events.T.tolist():
                event = {name: self._shown(a, values[a]) for a, name in enumerate(self.attributes)}
                file.write(json.dumps(event) + "\n")

    def _shown(self, attribute: int, value: int) -> int | str:
        texts = self.texts.get(attribute)
        return value if texts is None else texts[value]


def topss(subscriptions: int, events: int, seed: int = 0) -> Workload:
    """Return TOPSS's workload W4."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 6, subscriptions)
    offset = _offsets(counts)
    # Distinct attributes within a subscription: the first of a random permutation.
    attribute = _chosen(np.argsort(rng.random((subscriptions, 10)), axis=1), counts)
    operator = np.array([_EQ, _NE, _LT, _GT])[rng.integers(0, 4, offset[-1])]
    value = rng.integers(1, 11, offset[-1])
    names = tuple(f"a{i}" for i in range(10))
    return Workload(names, {}, offset, attribute, operator, value, rng.integers(1, 11, (10, events)))


def fabret(subscriptions: int, events: int, seed: int = 0) -> Workload:
    """Return a workload like that of Fabret et al. 2001."""
    rng = np.random.default_rng(seed)
    others = np.argsort(rng.random((subscriptions, 30)), axis=1)[:, :3] + 2
    fixed = np.tile(np.arange(2), (subscriptions, 1))
    attribute = np.concatenate([fixed, others], axis=1)
    value = rng.integers(1, 36, (subscriptions, 5))
    occurred = rng.integers(1, 36, (32, events))
    for e in range(0, events, 100):
        chosen = rng.integers(0, subscriptions)
        occurred[attribute[chosen], e] = value[chosen]
    names = tuple(f"a{i}" for i in range(32))
    offset = np.arange(0, 5 * subscriptions + 1, 5)
    operator = np.zeros(5 * subscriptions, np.int64)
    return Workload(names, {}, offset, attribute.reshape(-1), operator, value.reshape(-1), occurred)


def market(subscriptions: int, events: int, seed: int = 0, cents: bool = False) -> Workload:
    """Return a marketplace's workload; prices are whole, or in cents."""
    rng = np.random.default_rng(seed)
    unit = 100 if cents else 1
    sizes = {0: 50, 1: 300, 2: 500}
    names = ("category", "brand", "city", "price", "year", "mileage")
    texts = {a: tuple(f"{names[a]}{i}" for i in range(size)) for a, size in sizes.items()}
    occurred = np.stack([*(_zipf(rng, size, events) for size in sizes.values()), *_offer(rng, events, unit)])
    seen = np.stack([*(_zipf(rng, size, subscriptions) for size in sizes.values()), *_offer(rng, subscriptions, unit)])
    has = rng.random((6, subscriptions)) < np.array([0.95, 0.7, 0.45, 0.9, 0.4, 0.3])[:, None]
    narrow = rng.random(subscriptions) < 0.05
    has[:, narrow] = False
    has[3, narrow] = True
    has[0] |= ~has.any(axis=0)
    price = seen[3]
    width = np.where(narrow, 0.01, rng.uniform(0.2, 1.0, subscriptions))
    low = np.maximum(unit, (price * (1 - width)).astype(np.int64) // 1)
    high = (price * (1 + width)).astype(np.int64) + 1
    two_sided = narrow | (rng.random(subscriptions) < 0.5)
    parts = [(a, _EQ, seen[a], has[a]) for a in range(3)]
    parts += [(3, _GE, low, has[3] & two_sided), (3, _LE, high, has[3])]
    parts += [(4, _GE, seen[4], has[4]), (5, _LE, seen[5], has[5])]
    present = np.stack([part[3] for part in parts], axis=1)
    attribute, operator = (np.tile([part[i] for part in parts], (subscriptions, 1))[present] for i in (0, 1))
    value = np.stack([part[2] for part in parts], axis=1)[present]
    return Workload(names, texts, _offsets(present.sum(axis=1)), attribute, operator, value, occurred)


def market_in_cents(subscriptions: int, events: int, seed: int = 0) -> Workload:
    """Return the marketplace with prices in cents."""
    return market(subscriptions, events, seed, cents=True)


REIN_ATTRIBUTES, REIN_RANGES, REIN_DOMAIN = 20, 10, 1_000_000


def rein(
    subscriptions: int, events: int, seed: int = 0, zipf_attributes: bool = False, zipf_values: bool = False
) -> Workload:
    """Return the interval workload of REIN (Qian et al. 2014) and those after it.

    With Zipf, attribute i is asked for as often as 1 / (i + 1) says; values, and the middles of ranges, crowd at 0.
    """
    rng = np.random.default_rng(seed)
    weight = 1 / np.arange(1, REIN_ATTRIBUTES + 1) if zipf_attributes else np.ones(REIN_ATTRIBUTES)
    # The ten smallest of exponential times: a choice without repetition, by weight.
    times = rng.exponential(size=(subscriptions, REIN_ATTRIBUTES)) / weight
    attribute = np.sort(np.argpartition(times, REIN_RANGES, axis=1)[:, :REIN_RANGES], axis=1)

    def values(shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
        uniform = rng.random(shape)
        # Of density 1 / x: the logarithm is uniform.
        drawn = np.expm1(uniform * np.log(REIN_DOMAIN)) if zipf_values else uniform * REIN_DOMAIN
        return drawn.astype(np.int64)

    half = REIN_DOMAIN // 2
    if zipf_values:  # around a value, as wide above as below, within the domain
        low = np.maximum(values((subscriptions, REIN_RANGES)) - half // 2, 0) + rng.integers(
            0, 1_000, (subscriptions, REIN_RANGES)
        )
    else:
        low = rng.integers(0, half, (subscriptions, REIN_RANGES))
    ends = np.stack([low, low + half], axis=2)
    offset = np.arange(0, 2 * REIN_RANGES * subscriptions + 1, 2 * REIN_RANGES)
    operator = np.tile([_GE, _LE], REIN_RANGES * subscriptions)
    names = tuple(f"a{i}" for i in range(REIN_ATTRIBUTES))
    return Workload(
        names, {}, offset, np.repeat(attribute, 2, axis=1).reshape(-1), operator, ends.reshape(-1),
        values((REIN_ATTRIBUTES, events)),
    )  # fmt: skip


WORKLOADS: dict[str, Callable[..., Workload]] = {
    "topss": topss, "fabret": fabret, "market": market, "cents": market_in_cents, "rein": rein,
    "rein-attributes": partial(rein, zipf_attributes=True),
    "rein-values": partial(rein, zipf_attributes=True, zipf_values=True),
}  # fmt: skip


def _offer(rng: np.random.Generator, n: int, unit: int) -> list[npt.NDArray[np.int64]]:
    """Return prices (log-normal), years and mileages (in thousands)."""
    price = np.clip(rng.lognormal(6, 1, n) * unit, unit, 20_000 * unit).astype(np.int64)
    return [price, rng.integers(1990, 2026, n), rng.integers(0, 200, n)]


def _zipf(rng: np.random.Generator, size: int, n: int) -> npt.NDArray[np.int64]:
    weight = 1 / np.arange(1, size + 1)
    return rng.choice(size, n, p=weight / weight.sum())


def _offsets(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)])


def _chosen(matrix: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the first counts[i] entries of each row i, in one array."""
    return matrix[np.arange(matrix.shape[1])[None, :] < counts[:, None]]
