"""The planner: how the subscribers that an offer may match are found first, and why.

Each indexed predicate of a rule tells exactly how many subscribers satisfy it; how many conditions an offer satisfies is
only known from earlier offers with the same dynamic attributes. The costs are in rows touched, so that the same history
gives the same plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import helper, lean_kernel
from tocsin.language.formula import Satisfies
from tocsin.language.render import render
from tocsin.symmetric.offer import Offer

FIRST_GUESS = 0.1  # of the subscribers' conditions hold for an offer, before any was seen
ENGINE_ROWS = 2_000  # what asking the static index costs, in rows touched, before its matches
ORDER_ROWS = 10_000  # what going through rows in the order of a value costs, before the first row
RULE_ROWS = 2  # what a row found by a rule's index costs: such rows come out of order
CHECK_ROWS = 4  # what checking one row's conditions costs, in rows touched
LEFT_ROWS = 1  # what a row that bitmaps leave costs
BITMAP_ROWS = 1_000  # what using bitmaps costs, before the first row
ROWS_A_BITMAP = 2_000  # rows that one bitmap decides at the cost of touching one


class Weighed(NamedTuple):
    """What was compared: the most selective rule that an index can look up, and the costs in rows touched."""

    predicate: Satisfies
    fewest: int
    subscribers: int
    expected: float
    by_order: float
    by_bitmaps: float
    by_static: float

    def __str__(self) -> str:
        found = f"{render(self.predicate.predicate)} holds for {self.fewest:,} of {self.subscribers:,} subscribers"
        if self.by_static < min(self.by_order, self.by_bitmaps):
            found += f", but {self.expected:,.0f} conditions are expected to hold"
        return (
            f"{found}; about {self.by_order:,.0f} rows to touch by its order, {self.by_bitmaps:,.0f} by bitmaps, "
            f"{self.by_static:,.0f} by conditions"
        )


class Plan(NamedTuple):
    """What comes first, and why. `access` is the rule's predicate by whose order subscribers are found.

    Where rules come first and there is no such predicate, bitmaps of all rules and conditions are used together.
    """

    first: str  # "static" or "rules"
    access: Satisfies | None
    reason: Weighed | str

    @property
    def why(self) -> str:
        """The reason in words."""
        return f"{self.first} first: {self.reason}"

    @property
    def by_bitmaps(self) -> bool:
        return self.first == "rules" and self.access is None


SWITCHED_OFF = Plan("static", None, "rule indexes are switched off")
_NOT_INDEXED = Plan("static", None, "no rule can be looked up in the index")
_NO_RULES = Plan("static", None, "the offer has no rules")


def choose(offer: Offer, counted: Sequence[tuple[int, Satisfies]], subscribers: int, static_share: float) -> Plan:
    """Return the cheapest of the three ways; `counted` has predicates of rules and for how many rows each holds."""
    if not counted:
        return _NOT_INDEXED if offer.rules else _NO_RULES
    fewest, access = min(counted, key=lambda pair: pair[0])
    share = 1.0
    for count, _ in counted:
        share *= min(count, subscribers) / max(subscribers, 1)
    expected = static_share * subscribers
    by_order, by_bitmaps, by_static = _costs(
        fewest, share, len(counted), len(offer.event.values), subscribers, expected, *_constants()
    )
    weighed = Weighed(access, fewest, subscribers, expected, by_order, by_bitmaps, by_static)
    if by_static < by_order and by_static < by_bitmaps:
        return Plan("static", None, weighed)
    return Plan("rules", access if by_order <= by_bitmaps else None, weighed)


class LaterPlans(NamedTuple):
    """What the plans of a batch are made of when somebody asks for one."""

    offers: Sequence[Offer]
    predicates: Sequence[Sequence[Satisfies]]
    counts: npt.NDArray[np.int64]
    starts: Sequence[int]  # in `counts`
    subscribers: int
    shares: npt.NDArray[np.float64]  # in which conditions were expected to hold, when each offer was planned

    def plan(self, at: int) -> Plan:
        """Return the plan of one offer."""
        predicates, start = self.predicates[at], self.starts[at]
        counts = self.counts[start : start + len(predicates)].tolist()
        counted = list(zip(counts, predicates, strict=True))
        return choose(self.offers[at], counted, self.subscribers, float(self.shares[at]))


LaterPlan = tuple[LaterPlans, int]


def first_not_by_bitmaps(
    start: int,
    counts: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    subscribers: int,
    share_of: npt.NDArray[np.int64],
    shares: npt.NDArray[np.float64],
) -> int:
    """Return the first offer from `start` on for which bitmaps are not the cheapest way, or cannot be told to be here.

    counts[starts[o]] and the following are how many rows the predicates of offer o hold for; sizes[o] has how many
    predicates these are (-1: not all are told) and how many static values the offer has; shares[share_of[o]] is for which
    share of the subscribers conditions are expected to hold.
    """
    return _first_not_by_bitmaps(start, counts, starts, sizes, subscribers, share_of, shares, *_constants())


def _constants() -> tuple[float, ...]:
    return tuple(map(float, (ORDER_ROWS, RULE_ROWS, CHECK_ROWS, BITMAP_ROWS, ROWS_A_BITMAP, LEFT_ROWS, ENGINE_ROWS)))


def _costs(
    fewest: int, share: float, predicates: int, values: int, subscribers: int, expected: float,
    order_rows: float, rule_rows: float, check_rows: float, bitmap_rows: float, rows_a_bitmap: float, left_rows: float,
    engine_rows: float,
) -> tuple[float, float, float]:  # fmt: skip
    """Return the costs by the order of a rule, by bitmaps, and by conditions."""
    by_order = order_rows + rule_rows * fewest * predicates + check_rows * share * subscribers
    filters = 2 * (predicates + values)
    by_bitmaps = bitmap_rows + filters * subscribers / rows_a_bitmap + left_rows * share * expected
    by_static = engine_rows + expected * (1 + predicates)
    return by_order, by_bitmaps, by_static


_compiled_costs = helper(_costs)


@lean_kernel
def _first_not_by_bitmaps(
    start: int,
    counts: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    subscribers: int,
    share_of: npt.NDArray[np.int64],
    shares: npt.NDArray[np.float64],
    order_rows: float,
    rule_rows: float,
    check_rows: float,
    bitmap_rows: float,
    rows_a_bitmap: float,
    left_rows: float,
    engine_rows: float,
) -> int:
    for o in range(start, len(sizes)):
        predicates = sizes[o, 0]
        if predicates <= 0:
            return o
        fewest, share = counts[starts[o]], 1.0
        for p in range(starts[o], starts[o] + predicates):
            fewest = min(fewest, counts[p])
            share *= min(counts[p], subscribers) / max(subscribers, 1)
        by_order, by_bitmaps, by_static = _compiled_costs(
            fewest, share, predicates, sizes[o, 1], subscribers, shares[share_of[o]] * subscribers,
            order_rows, rule_rows, check_rows, bitmap_rows, rows_a_bitmap, left_rows, engine_rows,
        )  # fmt: skip
        if by_order <= by_bitmaps or (by_static < by_order and by_static < by_bitmaps):
            return o
    return len(sizes)
