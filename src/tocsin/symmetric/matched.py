"""What matching an offer gives: whom it met, with which values, whom not because of a failure, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tocsin.language.formula_columns import Column
from tocsin.schema import Value
from tocsin.symmetric.plan import Plan
from tocsin.symmetric.subscriber import SubscriberId


@dataclass(slots=True)
class Work:
    """What matching has cost so far, in rows, by stage."""

    offers: int = 0
    rules_first: int = 0
    static_survivors: int = 0
    rule_rows: int = 0  # rows that rules were tested for
    dynamic_rows: int = 0  # rows that dynamic attributes were computed for
    decided_by_definition: int = 0
    matches: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Match:
    """A subscriber that an offer matches, with the values computed for it."""

    id: SubscriberId
    values: Mapping[str, Value | None]


@dataclass(frozen=True, slots=True)
class Failure:
    """A subscriber that neither side refuses, but for whom something could not be computed."""

    id: SubscriberId
    reason: str


@dataclass(frozen=True, slots=True)
class Matched:
    """What an offer met: whom, with which values, whom not because of a failure, and by which plan."""

    ids: tuple[SubscriberId, ...]
    columns: Mapping[str, Column]  # the dynamic attributes' values, in the order of `ids`
    failures: tuple[Failure, ...]
    plan: Plan

    def notifications(self) -> list[Match]:
        """Return each match with its computed values, as the subscriber is told."""
        listed = {name: column.to_list() for name, column in self.columns.items()}
        return [Match(id, {name: values[at] for name, values in listed.items()}) for at, id in enumerate(self.ids)]

    def for_publisher(self, *, reveal: bool = False) -> dict[str, Any]:
        """Return what the publisher may know: how many, and only where the operator allows it, who."""
        counts: dict[str, Any] = {"matches": len(self.ids), "failures": len(self.failures)}
        return {**counts, "subscribers": list(self.ids)} if reveal else counts
