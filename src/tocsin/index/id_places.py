"""IdPlaces: from the id of a subscription to its number in a segment. Made when it is first needed, by index/tier.py.

Whole numbers are found among the sorted ones; texts by a hash of their bytes, compared exactly, none of them decoded.
An id may stand in a segment twice, once buried for later events and once alive again: the last one counts.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, no-any-return, no-untyped-call"

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tocsin.compile.ids import Ids, Int64s, TextIds
from tocsin.index.jit import kernel
from tocsin.index.text_coder import compare, fill_table, hash_of


class IdPlaces:
    """The numbers of ids."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        if isinstance(ids, TextIds):
            self._data = ids.data if len(ids.data) else np.zeros(1, np.uint8)
            self._table = fill_table(self._data.ctypes.data, ids.offset, max(4, (2 * len(ids)).bit_length()))
        elif (np.diff(ids) > 0).all():
            self._order, self._ascending = np.arange(len(ids)), ids
        else:
            self._order = np.argsort(ids, kind="stable")
            self._ascending = ids[self._order]

    def of(self, id: object) -> int | None:
        """Return the number of an id; None where it is not here."""
        if isinstance(self._ids, TextIds):
            if type(id) is not str and type(id) is not int:
                return None
            found = int(self._of_texts(TextIds.of([id]))[0])
        elif type(id) is not int or not -(2**63) <= id < 2**63:
            return None
        else:
            found = int(self._of_numbers(np.array([id], np.int64))[0])
        return None if found < 0 else found

    def of_all(self, ids: Ids) -> Int64s:
        """Return the number of each id; -1 where it is not here."""
        if isinstance(self._ids, TextIds):
            return self._of_texts(ids if isinstance(ids, TextIds) else TextIds.of(ids.tolist()))
        if not isinstance(ids, TextIds):
            return self._of_numbers(ids)
        if not ids.has_numbers:
            return np.full(len(ids), -1, np.int64)
        found = [self.of(id) for id in ids.tolist()]
        return np.array([-1 if number is None else number for number in found], np.int64)

    def _of_numbers(self, wanted: Int64s) -> Int64s:
        at = np.searchsorted(self._ascending, wanted, side="right") - 1
        found = at >= 0
        found[found] = self._ascending[at[found]] == wanted[found]
        numbers = np.full(len(wanted), -1, np.int64)
        numbers[found] = self._order[at[found]]
        return numbers

    def _of_texts(self, wanted: TextIds) -> Int64s:
        assert isinstance(self._ids, TextIds)
        data = wanted.data if len(wanted.data) else np.zeros(1, np.uint8)
        return places_of_texts(
            data.ctypes.data, wanted.offset, self._data.ctypes.data, self._ids.offset, self._table
        )  # fmt: skip


def first_repeated(ids: Ids) -> int | None:
    """Return the number of an id that stands there again later; None where all differ."""
    repeated = np.flatnonzero(IdPlaces(ids).of_all(ids) != np.arange(len(ids)))
    return int(repeated[0]) if len(repeated) else None


@kernel
def places_of_texts(
    wanted: int, wanted_offset: Int64s, data: int, offset: Int64s, table: npt.NDArray[np.int32]
) -> Int64s:
    """Return the greatest number of each wanted text among the others, -1 where it is not there.

    `wanted` and `data` are addresses of bytes; the table is one of fill_table (index/text_coder.py).
    """
    mask, bits = len(table) - 1, 0
    while (1 << bits) < len(table):
        bits += 1
    found = np.full(len(wanted_offset) - 1, -1, np.int64)
    for i in range(len(found)):
        text, length = wanted + wanted_offset[i], wanted_offset[i + 1] - wanted_offset[i]
        slot = np.int64(hash_of(text, length) >> np.uint64(64 - bits))
        while table[slot] >= 0:
            c = np.int64(table[slot])
            if offset[c + 1] - offset[c] == length and compare(text, length, data + offset[c], length) == 0:
                found[i] = max(found[i], c)
            slot = (slot + 1) & mask
    return found
