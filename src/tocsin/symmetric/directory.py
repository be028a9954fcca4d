"""The directory: where in memory the indexes of a roster are, for the kernels of scan_kernel.py.

Columns are numbered: the properties first, then for each attribute of the event the lowest and the highest keys that
subscribers want of it. A property's indexes are made when an offer first asks for it. The directory is made anew when the
roster has changed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.symmetric import scan_kernel as k
from tocsin.symmetric.bitmaps import BitmapIndex
from tocsin.symmetric.roster import Roster

_KINDS = {np.dtype(np.int64): k.WHOLE, np.dtype(np.float64): k.FLOAT, np.dtype(np.int32): k.CODE}


_WHOLE, _FLOAT = struct.Struct("<q"), struct.Struct("<d")


def ordered_bits(number: float) -> int:
    """Return a float as an integer that has the order of the floats, as kernels compare it."""
    (bits,) = _WHOLE.unpack(_FLOAT.pack(number + 0.0))
    return bits ^ ((bits >> 63) & k.MOST)  # type: ignore[no-any-return]


LOWEST, HIGHEST = ordered_bits(-math.inf), ordered_bits(math.inf)


class BoundedAttribute(NamedTuple):
    """An attribute that subscribers bound, and the columns of their lowest and highest keys; None where all are free."""

    name: str
    lows: int | None
    highs: int | None


class Directory:
    """The addresses of a roster's indexes."""

    def __init__(self, roster: Roster) -> None:
        self.roster = roster
        self.numbers = {name: at for at, name in enumerate(roster.properties)}
        self._names = list(roster.properties)
        self._attributes = {name: len(self.numbers) + 2 * at for at, name in enumerate(roster.meeting.event_domains)}
        self._asked: set[int] = set()
        self._made_at = -1
        self._held: list[Any] = []  # the arrays whose addresses are in use
        self.facts = np.zeros((len(self.numbers) + 2 * len(self._attributes), k.FACTS), np.int64)
        self.bounded: list[BoundedAttribute] = []
        self.live = self.empty = 0  # bitmaps of the rows that count (0: all do), and of none

    def reach(self, columns: Iterable[int]) -> None:
        """Bring the directory up to date, for these columns of properties and those that were asked for before."""
        if self._made_at == self.roster.changes and self._asked.issuperset(columns):
            return
        self._asked.update(columns)
        self._made_at = self.roster.changes
        self._held = []
        for number in self._asked:
            column = self.roster.properties[self._names[number]]
            self._enter(number, column.arrays[0], column.bitmaps)
            ordered, rest = column.ordered
            self.facts[number, k.ORDERED :] = self._address(ordered), len(ordered), rest
        self.bounded = []
        for name, lows, highs in self.roster.wants.indexes():
            at = self._attributes[name]
            for number, side in ((at, lows), (at + 1, highs)):
                if side is not None:
                    self._enter(number, *side)
            self.bounded.append(BoundedAttribute(name, at if lows else None, at + 1 if highs else None))
        words = self.roster.live_words()
        self.live = 0 if words is None else self._address(words)
        self.empty = self._address(np.zeros((len(self.roster.ids) + 63) // 64, np.uint64))

    def _enter(self, number: int, values: npt.NDArray[Any], bitmaps: BitmapIndex) -> None:
        bounds, bits, blocks = bitmaps.arrays
        self.facts[number, : k.ORDERED] = (
            _KINDS[values.dtype], self._address(values), self._address(bounds), len(bounds), self._address(bits),
            bits.shape[1], self._address(blocks), blocks.shape[1], bitmaps.exact, bitmaps.has_absent,
        )  # fmt: skip

    def _address(self, array: npt.NDArray[Any]) -> int:
        self._held.append(array)
        return array.ctypes.data
