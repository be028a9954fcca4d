"""The planner: how the subscribers that an offer may match are found first, and why.

Each indexed predicate of a rule tells exactly how many subscribers satisfy it; how many conditions an offer satisfies is
only known from earlier offers with the same dynamic attributes. The costs are in rows touched, so that the same history
gives the same plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
    expected = static_share * subscribers
    fewest, access = counted[0]
    share = 1.0
    for count, predicate in counted:
        share *= min(count, subscribers) / max(subscribers, 1)
        if count < fewest:
            fewest, access = count, predicate
    by_order = ORDER_ROWS + RULE_ROWS * fewest * len(counted) + CHECK_ROWS * share * subscribers
    filters = 2 * (len(counted) + len(offer.event.values))
    by_bitmaps = BITMAP_ROWS + filters * subscribers / ROWS_A_BITMAP + LEFT_ROWS * share * expected
    by_static = ENGINE_ROWS + expected * (1 + len(counted))
    weighed = Weighed(access, fewest, subscribers, expected, by_order, by_bitmaps, by_static)
    if by_static < by_order and by_static < by_bitmaps:
        return Plan("static", None, weighed)
    return Plan("rules", access if by_order <= by_bitmaps else None, weighed)
