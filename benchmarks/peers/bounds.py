"""Subscriptions as a wide table: per attribute a lowest, a highest and an excluded value. Texts are numbered.

What is not asked for is a mark that no value reaches, so that one comparison per column decides; an attribute that an
event does not bind is decided by whether a subscription asks anything of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from benchmarks.peers.files import LIMIT, Event, Skipped, Subscription, Value

LOWEST, HIGHEST = -LIMIT, LIMIT  # no value is as low or as high
UNKNOWN = -1  # the code of a text that no subscription mentions
Column = npt.NDArray[np.int64]


@dataclass(slots=True)
class Codes:
    """Numbers for texts; integers stand for themselves."""

    texts: dict[str, int] = field(default_factory=dict)

    def of(self, value: Value) -> int:
        """Return the number of an operand."""
        return value if isinstance(value, int) else self.texts.setdefault(value, len(self.texts))

    def of_event(self, event: Event) -> dict[str, int]:
        """Return the event with numbers for its texts."""
        return {name: v if isinstance(v, int) else self.texts.get(v, UNKNOWN) for name, v in event.items()}


@dataclass(frozen=True, slots=True)
class WideTable:
    """A column per attribute and kind of bound; a row per subscription."""

    ids: Column
    low: dict[str, Column]
    high: dict[str, Column]
    excluded: dict[str, Column]
    codes: Codes

    def free(self, name: str) -> npt.NDArray[np.bool_]:
        """Return which subscriptions ask nothing of an attribute."""
        bounded = (self.low[name] != LOWEST) | (self.high[name] != HIGHEST)
        free: npt.NDArray[np.bool_] = ~bounded & (self.excluded[name] == LOWEST)
        return free


def wide_table(subscriptions: Sequence[Subscription]) -> WideTable:
    """Return the table; raises Skipped where a subscription excludes two values of one attribute."""
    codes, count = Codes(), len(subscriptions)
    names = sorted({name for each in subscriptions for name, _, _ in each.predicates})
    low, high, excluded = (
        {name: np.full(count, mark, np.int64) for name in names} for mark in (LOWEST, HIGHEST, LOWEST)
    )
    for row, each in enumerate(subscriptions):
        for name, operator, operand in each.predicates:
            code = codes.of(operand)
            if operator == "!=":
                if excluded[name][row] not in (LOWEST, code):
                    raise Skipped(f"subscription {each.id} excludes two values of {name}: one column is not enough")
                excluded[name][row] = code
            if operator in ("=", ">", ">="):
                low[name][row] = max(low[name][row], code + (operator == ">"))
            if operator in ("=", "<", "<="):
                high[name][row] = min(high[name][row], code - (operator == "<"))
    ids = np.array([each.id for each in subscriptions], np.int64)
    return WideTable(ids, low, high, excluded, codes)
