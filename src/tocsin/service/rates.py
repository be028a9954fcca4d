"""Rates: how much each account may ask in a minute, as a bucket that fills steadily and holds a minute's worth."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

WINDOW_SECONDS = 60.0
_KEPT = 100_000  # names; who was not seen for longest is forgotten, which fills the bucket


@dataclass(frozen=True, slots=True)
class Standing:
    """What is left after asking."""

    granted: bool
    most: int
    left: int
    again_seconds: float  # until what was asked would be granted; until the bucket is full where it was


class Buckets:
    """A bucket a name. Used within one event loop only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()  # name -> (left, at)

    def take(self, name: str, amount: int, most: int) -> Standing:
        """Take from a name's bucket; where there is not enough, nothing is taken.

        More than a whole bucket is granted to a full one: its size bounds the rate, not the single request.
        """
        now = self._clock()
        left, at = self._levels.pop(name, (float(most), now))
        left = min(float(most), left + (now - at) * most / WINDOW_SECONDS)
        granted = left >= min(amount, most)
        if granted:
            left -= amount
        self._levels[name] = (left, now)
        if len(self._levels) > _KEPT:
            self._levels.popitem(last=False)
        missing = most - left if granted else min(amount, most) - left
        return Standing(granted, most, max(0, int(left)), missing * WINDOW_SECONDS / most)
