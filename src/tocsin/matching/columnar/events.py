"""EventMatrix: a coded batch laid out event by event, as the kernels read it.

A unique column has one slot per event, its code (-1: absent); a multiple column has three: least code, greatest code
(-1: no code), and whether it is present. The codes of multiple columns stay in lists beside the matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import kernel
from tocsin.index.layout import Scalar, Section

if TYPE_CHECKING:
    from tocsin.index.coded_batch import CodedBatch
    from tocsin.index.segment import Segment

Matrix = npt.NDArray[np.int32]


class EventMatrix(NamedTuple):
    """Events of one batch: slots[e, slot]; codes of multiple column m: codes[offset[m, e] : offset[m, e + 1]]."""

    slots: Matrix
    offset: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int32]


def lay_out(segment: Segment, batch: CodedBatch) -> EventMatrix:
    """Return the batch as the kernels of this segment read it."""
    columns = segment.section(Section.COLUMNS).reshape(-1, 4)
    slots = np.empty((batch.size, segment.scalar(Scalar.SLOTS)), np.int32)
    unique = np.flatnonzero(columns[:, 2] < 0)
    # A sliced batch has rows that are longer than it; a copy of small parts is cheaper than a second signature.
    codes = np.ascontiguousarray(batch.codes)
    _transpose_codes(codes, unique, columns[unique, 1].astype(np.int64), slots)
    if len(unique) == len(columns):
        return EventMatrix(slots, np.zeros((0, 0), np.int64), np.zeros(0, np.int32))
    offset = np.zeros((segment.scalar(Scalar.MULTIPLES), batch.size + 1), np.int64)
    parts: list[npt.NDArray[np.int32]] = [np.zeros(0, np.int32)]
    total = 0
    for column in np.flatnonzero(columns[:, 2] >= 0):
        slot, position = columns[column, 1], columns[column, 2]
        slots[:, slot : slot + 3] = (-1, -1, 0)
        multiple = batch.multiples.get(int(column))
        if multiple is None:
            continue
        first, last = multiple.offset[0], multiple.offset[-1]
        offset[position] = multiple.offset - first + total
        parts.append(multiple.codes[first:last])
        total += int(last - first)
        slots[:, slot + 2] = multiple.present
        some = np.flatnonzero(np.diff(multiple.offset))
        slots[some, slot] = multiple.codes[multiple.offset[some]]
        slots[some, slot + 1] = multiple.codes[multiple.offset[some + 1] - 1]
    return EventMatrix(slots, offset, np.concatenate(parts))


@kernel
def _transpose_codes(
    codes: npt.NDArray[np.int32], columns: npt.NDArray[np.int64], slot: npt.NDArray[np.int64], slots: Matrix
) -> None:
    """slots[e, slot[i]] = codes[columns[i], e], a few events at a time so that they stay in the cache."""
    n = slots.shape[0]
    for start in range(0, n, 64):
        stop = min(n, start + 64)
        for i in range(len(columns)):
            source, s = codes[columns[i]], slot[i]
            for e in range(start, stop):
                slots[e, s] = source[e]
