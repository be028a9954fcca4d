"""What matching an offer gives: whom it met, with which values, whom not because of a failure, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.language.formula_columns import Column
from tocsin.schema import Value
from tocsin.symmetric.plan import LaterPlan, Plan
from tocsin.symmetric.subscriber import SubscriberId


@dataclass(slots=True)
class Work:
    """What matching has cost so far, in rows, by stage."""

    offers: int = 0
    rules_first: int = 0
    static_survivors: int = 0
    rule_rows: int = 0  # rows that rules were tested for
    dynamic_rows: int = 0  # rows that dynamic attributes were computed for
    kept_rows: int = 0  # rows whose dynamic attributes had been computed before, and kept
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


class Matched:
    """What an offer met: whom, with which values, whom not because of a failure, and by which plan.

    Of a batch of offers, `columns` may be those of several, of which `span` are this one's.
    """

    __slots__ = ("_columns", "_found", "_ids", "_plan", "_span", "failures")

    def __init__(
        self,
        found: Sequence[SubscriberId] | npt.NDArray[np.int64],
        columns: Mapping[str, Column],
        failures: tuple[Failure, ...],
        plan: Plan | LaterPlan,
        span: slice | None = None,
    ) -> None:
        self._found, self._columns, self._span = found, columns, span
        self._ids: tuple[SubscriberId, ...] | None = None
        self.failures, self._plan = failures, plan

    def __len__(self) -> int:
        return len(self._found)

    @property
    def ids(self) -> tuple[SubscriberId, ...]:
        """Whom the offer met."""
        if self._ids is None:
            self._ids = tuple(self._found.tolist() if isinstance(self._found, np.ndarray) else self._found)
        return self._ids

    @property
    def plan(self) -> Plan:
        """How the offer was matched, and why so."""
        if not isinstance(self._plan, Plan):
            plans, at = self._plan
            self._plan = plans.plan(at)
        return self._plan

    @property
    def columns(self) -> Mapping[str, Column]:
        """The dynamic attributes' values, in the order of `ids`."""
        if self._span is not None:
            self._columns = {name: column.part(self._span) for name, column in self._columns.items()}
            self._span = None
        return self._columns

    def notifications(self) -> list[Match]:
        """Return each match with its computed values, as the subscriber is told."""
        listed = {name: column.to_list() for name, column in self.columns.items()}
        return [Match(id, {name: values[at] for name, values in listed.items()}) for at, id in enumerate(self.ids)]

    def for_publisher(self, *, reveal: bool = False) -> dict[str, Any]:
        """Return what the publisher may know: how many, and only where the operator allows it, who."""
        counts: dict[str, Any] = {"matches": len(self), "failures": len(self.failures)}
        return {**counts, "subscribers": list(self.ids)} if reveal else counts
