"""Labels: an int64 for each constant of a column, in the order of the keys, that stays when others come.

An event's value gets the label of the equal constant, or the label just above the greatest smaller constant. Labels of
constants are at least two apart, so `> c` is [label(c) + 1, ...] and `< c` is [..., label(c) - 1], whatever the type of
the keys. Whole-numbered domains with limits need no dictionary: there a value is its own label (WholeLabels).

Insertion: O(log n) to find the place, O(n) to shift the sorted list. Where the space between two labels is used up, all
labels of the column are spread anew, and `labels_of` reports the move to those who hold labels.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.int64]

LOWEST = -(2**63)  # no lower bound
HIGHEST = 2**63 - 1
_SPAN = 2**62
_STEP = 2**32


class WholeLabels:
    """Labels of a whole-numbered domain with limits: the numbers themselves."""

    def __init__(self, lowest: int, highest: int) -> None:
        self.lowest, self.highest = lowest, highest

    @property
    def size(self) -> int:
        """How many values the domain has."""
        return self.highest - self.lowest + 1

    def of_constant(self, key: int) -> int:
        """Return the label of a constant; one outside the limits is beside them, where no event's value is."""
        return int(min(max(key, self.lowest - 1), self.highest + 1))

    def of_constants(self, keys: Iterable[Any]) -> Labels:
        return np.array([self.of_constant(key) for key in keys], np.int64)

    def of_value(self, key: int) -> int:
        return key

    def spread_if_needed(self) -> tuple[Labels, Labels] | None:
        return None


class SparseLabels:
    """Labels of keys of any ordered type."""

    def __init__(self) -> None:
        self.keys: list[Any] = []  # ascending
        self.labels: list[int] = []  # ascending, two apart or more
        self._moved: tuple[Labels, Labels] | None = None

    def of_constant(self, key: Any) -> int:
        """Return the label of a constant, new or not."""
        at = bisect_left(self.keys, key)
        if at < len(self.keys) and self.keys[at] == key:
            return self.labels[at]
        label = self._between(at)
        if label is None:
            self._spread()
            label = self._between(at)
            assert label is not None
        self.keys.insert(at, key)
        self.labels.insert(at, label)
        return label

    def of_constants(self, keys: Iterable[Any]) -> Labels:
        """Return the labels of many constants; into an empty column they are laid out evenly."""
        found = list(keys)
        if not self.keys and found:
            self.keys = sorted(set(found))
            self.labels = _even(len(self.keys))
        return np.array([self.of_constant(key) for key in found], np.int64)

    def of_value(self, key: Any) -> int:
        """Return the label of an event's value."""
        at = bisect_left(self.keys, key)
        if at < len(self.keys) and self.keys[at] == key:
            return self.labels[at]
        return self.labels[at - 1] + 1 if at else -_SPAN - 1

    def spread_if_needed(self) -> tuple[Labels, Labels] | None:
        """Return (old, new) labels of the constants that moved since the last call, or None."""
        moved, self._moved = self._moved, None
        return moved

    def _between(self, at: int) -> int | None:
        """Return a free label for position `at`, two away from its neighbours; None where there is no room."""
        if not self.labels:
            return 0
        if at == len(self.labels):
            found = self.labels[-1] + _STEP
            return found if found < _SPAN else None
        if at == 0:
            found = self.labels[0] - _STEP
            return found if found > -_SPAN else None
        low, high = self.labels[at - 1], self.labels[at]
        return (low + high) // 2 if high - low >= 4 else None

    def _spread(self) -> None:
        old = self.labels
        self.labels = _even(len(old))
        new = np.array(self.labels, np.int64)
        if self._moved is None:
            self._moved = np.array(old, np.int64), new
        else:  # spread twice before anybody asked: from the labels that they hold to the newest
            before, between = self._moved
            at = np.searchsorted(np.array(old, np.int64), between)
            self._moved = before, new[at]


def _even(count: int) -> list[int]:
    step = min(_STEP, _SPAN // (count + 1))
    first = -(step * count) // 2
    return [first + step * i for i in range(count)]


def moved_labels(labels: Labels, old: Labels, new: Labels) -> Labels:
    """Return interval ends (a constant's label, or one beside it) after the constants moved from old to new."""
    at = np.clip(np.searchsorted(old, labels), 0, len(old) - 1)
    below = np.clip(at - 1, 0, len(old) - 1)
    nearest = np.where(np.abs(old[below] - labels) < np.abs(old[at] - labels), below, at)
    bounded = (labels != LOWEST) & (labels != HIGHEST)
    return np.where(bounded, new[nearest] + (labels - old[nearest]), labels)
