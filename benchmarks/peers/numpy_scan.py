"""NumPy brute force: every event is compared with every subscription, a column per bound."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from benchmarks.peers.bounds import HIGHEST, LOWEST, Column, WideTable, wide_table
from benchmarks.peers.files import Event, Workload
from benchmarks.peers.program import Match, Prepare, main

Mask = npt.NDArray[np.bool_]


def build(workload: Workload) -> tuple[Prepare, Match]:
    """Return how to match one coded event by comparing whole columns."""
    table = wide_table(workload.subscriptions)
    names = list(table.low)
    low, high, excluded = _used(table)
    if _fits_32_bits(workload):
        low, high, excluded = ({name: _narrow(column) for name, column in bound.items()} for bound in _used(table))
    free = {name: table.free(name) for name in names}

    def match(event: dict[str, int]) -> Sequence[int]:
        mask: Mask = np.ones(len(table.ids), np.bool_)
        for name in names:
            value = event.get(name)
            if value is None:
                mask &= free[name]
                continue
            if name in low:
                mask &= low[name] <= value
            if name in high:
                mask &= high[name] >= value
            if name in excluded:
                mask &= excluded[name] != value
        found: Sequence[int] = table.ids[mask]  # type: ignore[assignment]
        return found

    def prepare(events: Sequence[Event]) -> Sequence[dict[str, int]]:
        return [table.codes.of_event(event) for event in events]

    return prepare, match


def _used(table: WideTable) -> list[dict[str, npt.NDArray[np.signedinteger]]]:
    """Return the columns in which some subscription has a bound."""
    marks = ((table.low, LOWEST), (table.high, HIGHEST), (table.excluded, LOWEST))
    return [{name: column for name, column in bound.items() if (column != mark).any()} for bound, mark in marks]


def _fits_32_bits(workload: Workload) -> bool:
    """Return whether 32 bits hold all values, the marks apart from them: half the memory to read."""
    operands = (operand for each in workload.subscriptions for _, _, operand in each.predicates)
    values = (value for event in workload.events for value in event.values())
    return all(abs(value) < 2**31 - 2 for value in chain(operands, values) if isinstance(value, int))


def _narrow(column: Column) -> npt.NDArray[np.int32]:
    return np.clip(column, -(2**31), 2**31 - 1).astype(np.int32)


if __name__ == "__main__":
    main(build)
