"""Predicate grouping in SQL: each distinct predicate once, who has it, and how many of its own must hold for each.

The predicates of an event are found by the attribute and value, their subscriptions are counted, and those match of
which all predicates were found. The same tables and query serve DuckDB and PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.peers.bounds import HIGHEST, LOWEST, Codes
from benchmarks.peers.files import Event, Subscription

CREATE = (
    "CREATE TABLE predicate (number INTEGER, attribute INTEGER, low BIGINT, high BIGINT, negated BOOLEAN)",
    "CREATE TABLE member (number INTEGER, id BIGINT, needed SMALLINT)",
)
# {event} stands for the rows (attribute, value) of an event.
QUERY = """
    SELECT member.id FROM {event} AS event
    JOIN predicate ON predicate.attribute = event.attribute
        AND (event.value BETWEEN predicate.low AND predicate.high) <> predicate.negated
    JOIN member ON member.number = predicate.number
    GROUP BY member.id, member.needed HAVING count(*) = member.needed
"""


@dataclass(frozen=True, slots=True)
class Groups:
    """The tables' rows, and what codes an event."""

    predicates: list[tuple[int, int, int, int, bool]]
    members: list[tuple[int, int, int]]
    attributes: dict[str, int]
    codes: Codes

    def event(self, event: Event) -> tuple[list[int], list[int]]:
        """Return the attributes of an event that subscriptions know, and their values, all as numbers."""
        known = {name: value for name, value in self.codes.of_event(event).items() if name in self.attributes}
        return [self.attributes[name] for name in known], list(known.values())

    def arrow(self) -> dict[str, pa.Table]:
        """Return the tables as columns."""
        return {
            "predicate": _columns(("number", "attribute", "low", "high", "negated"), self.predicates),
            "member": _columns(("number", "id", "needed"), self.members),
        }


def _columns(names: Sequence[str], rows: Sequence[tuple[int, ...]]) -> pa.Table:
    return pa.table({name: np.array([row[place] for row in rows]) for place, name in enumerate(names)})


def groups(subscriptions: Sequence[Subscription]) -> Groups:
    """Return the rows for subscriptions."""
    codes = Codes()
    attributes: dict[str, int] = {}
    numbers: dict[tuple[int, int, int, bool], int] = {}
    members = []
    for each in subscriptions:
        own = set()
        for name, operator, operand in each.predicates:
            attribute = attributes.setdefault(name, len(attributes))
            row = (attribute, *_interval(operator, codes.of(operand)))
            own.add(numbers.setdefault(row, len(numbers)))
        members += [(number, each.id, len(own)) for number in sorted(own)]
    predicates = [(number, *row) for row, number in numbers.items()]
    return Groups(predicates, members, attributes, codes)


def _interval(operator: str, code: int) -> tuple[int, int, bool]:
    """Return the lowest and the highest value, and whether it is these or all others that satisfy."""
    low = {"=": code, "!=": code, ">": code + 1, ">=": code}.get(operator, LOWEST)
    high = {"=": code, "!=": code, "<": code - 1, "<=": code}.get(operator, HIGHEST)
    return low, high, operator == "!="
