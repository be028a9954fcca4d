"""The planner: whether an offer's rules or the subscribers' conditions are looked at first, and why.

Each indexed predicate of a rule tells exactly how many subscribers satisfy it; how many conditions an offer satisfies is
only known from earlier offers with the same dynamic attributes. The costs are in rows touched, so that the same history
gives the same plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from tocsin.language.formula import Every, Satisfies, Test
from tocsin.language.render import render
from tocsin.symmetric.columns import PropertyColumn
from tocsin.symmetric.offer import Offer

FIRST_GUESS = 0.1  # of the subscribers' conditions hold for an offer, before any was seen
ENGINE_ROWS = 2_000  # what asking the static index costs, in rows touched, before its matches
RULE_ROWS = 2  # what a row found by a rule's index costs: such rows come out of order
CHECK_ROWS = 4  # what checking one row's conditions costs, in rows touched


@dataclass(frozen=True, slots=True)
class Plan:
    """What comes first, and why, in words. `access` is the rule's predicate by which subscribers are found."""

    first: str  # "static" or "rules"
    access: Satisfies | None
    why: str


def choose(
    offer: Offer, rules: tuple[Test, ...], columns: Mapping[str, PropertyColumn], subscribers: int, static_share: float
) -> Plan:
    """Return the cheaper of the two orders."""
    counted = [
        (count, predicate)
        for predicate in _predicates(rules)
        if predicate.name in columns and (count := columns[predicate.name].count(predicate)) is not None
    ]
    expected = static_share * subscribers
    if not counted:
        reason = "no rule can be looked up in the index" if offer.rules else "the offer has no rules"
        return Plan("static", None, f"static first: {reason}")
    fewest, access = min(counted, key=lambda pair: pair[0])
    share = prod(min(count, subscribers) / max(subscribers, 1) for count, _ in counted)
    by_rules = RULE_ROWS * fewest * len(counted) + CHECK_ROWS * share * subscribers
    by_static = ENGINE_ROWS + expected * (1 + len(counted))
    found = f"{render(access.predicate)} holds for {fewest:,} of {subscribers:,} subscribers"
    compared = f"about {by_rules:,.0f} rows to touch by rules, {by_static:,.0f} by conditions"
    if by_rules < by_static:
        return Plan("rules", access, f"rules first: {found}; {compared}")
    return Plan(
        "static", None, f"static first: {found}, but {expected:,.0f} conditions are expected to hold; {compared}"
    )


def _predicates(rules: tuple[Test, ...]) -> Iterator[Satisfies]:
    """Yield the predicates that all matching subscribers satisfy."""
    for rule in rules:
        if isinstance(rule, Every):
            yield from _predicates(rule.parts)
        elif isinstance(rule, Satisfies):
            yield rule
