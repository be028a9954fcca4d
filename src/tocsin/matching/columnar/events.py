"""EventMatrix: a coded batch laid out event by event, as the kernels read it.

A unique column has one slot per event, its code (-1: absent); a multiple column has three: least code, greatest code
(-1: no code), and whether it is present. The codes of multiple columns stay in lists beside the matrix. For the simple
groups (dense equalities on unique columns) each event also has the atom that it satisfies, ready to be looked up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import lean_kernel
from tocsin.index.layout import Bytes, Directory, Scalar, Section, int32_section

if TYPE_CHECKING:
    from tocsin.index.coded_batch import CodedBatch
    from tocsin.index.segment import Segment

Matrix = npt.NDArray[np.int32]


class EventMatrix(NamedTuple):
    """Events of one batch: slots[e, slot]; codes of multiple column m: codes[offset[m, e] : offset[m, e + 1]].

    simple[e, g] is the atom of simple group g that event e satisfies.
    """

    slots: Matrix
    simple: npt.NDArray[np.uint16]
    offset: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int32]


def lay_out(segment: Segment, batch: CodedBatch) -> EventMatrix:
    """Return the batch as the kernels of this segment read it."""
    columns = segment.section(Section.COLUMNS).reshape(-1, 4)
    slots = np.empty((batch.size, segment.scalar(Scalar.SLOTS)), np.int32)
    simple = np.empty((batch.size, segment.scalar(Scalar.SIMPLE_GROUPS)), np.uint16)
    # A sliced batch has rows that are longer than it; a copy is cheaper than a second signature.
    codes = np.ascontiguousarray(batch.codes)
    _transpose_codes(segment.buffer, segment.directory, codes, slots, simple)
    if not segment.scalar(Scalar.MULTIPLES):
        return EventMatrix(slots, simple, _NO_OFFSETS, _NO_CODES)
    offset = np.zeros((segment.scalar(Scalar.MULTIPLES), batch.size + 1), np.int64)
    parts: list[npt.NDArray[np.int32]] = [_NO_CODES]
    total = 0
    for column in np.flatnonzero(columns[:, 2] >= 0).tolist():
        slot, position = columns[column, 1], columns[column, 2]
        slots[:, slot : slot + 3] = (-1, -1, 0)
        multiple = batch.multiples.get(column)
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
    return EventMatrix(slots, simple, offset, np.concatenate(parts))


_NO_OFFSETS = np.zeros((0, 0), np.int64)
_NO_CODES = np.zeros(0, np.int32)


@lean_kernel
def _transpose_codes(
    buffer: Bytes, directory: Directory, codes: npt.NDArray[np.int32], slots: Matrix,
    simple: npt.NDArray[np.uint16],
) -> None:  # fmt: skip
    """slots[e, slot of c] = codes[c, e]; simple[e, g] = first atom of g + 1 + codes[column of g, e].

    A few events at a time, so that they stay in the cache.
    """
    columns = int32_section(buffer, directory, Section.COLUMNS)
    groups = int32_section(buffer, directory, Section.GROUPS)
    n = slots.shape[0]
    for start in range(0, n, 64):
        stop = min(n, start + 64)
        for c in range(len(columns) // 4):
            if columns[4 * c + 2] < 0 and columns[4 * c + 3] > 0:
                source, slot = codes[c], columns[4 * c + 1]
                for e in range(np.uint64(start), np.uint64(stop)):
                    slots[e, slot] = source[e]
        for g in range(simple.shape[1]):
            source, first = codes[groups[4 * g]], groups[4 * g + 2] + 1
            for e in range(np.uint64(start), np.uint64(stop)):
                simple[e, g] = first + source[e]
