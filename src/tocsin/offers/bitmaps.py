"""Bitmaps over a column: which rows may have a value in an interval, by a few operations per 64 rows.

The values are divided into at most 128 buckets of about equal size, and for each bucket there is a bitmap of the rows
whose value is in it or in one below. So the rows of an interval, and a few beside it that share the outermost buckets,
are one bitmap less another. The scan (scan_kernel.py) looks at the values of those few, unless each bucket has only one
value: then the bitmaps say it all. Absent rows are in none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.offers import scan_kernel as k

BUCKETS = 128
_SAMPLE = 20_000
_KINDS = {np.dtype(np.int64): k.WHOLE, np.dtype(np.float64): k.FLOAT, np.dtype(np.int32): k.CODE}


class BitmapIndex:
    """The bitmaps of one column, whose values are int64, float64 or int32."""

    def __init__(self, values: npt.NDArray[Any], absent: k.Flags) -> None:
        self.values = values
        step = max(1, len(values) // _SAMPLE)
        sample = np.sort(values[::step][~absent[::step]])
        distinct = np.unique(sample)
        if len(distinct) < BUCKETS:
            distinct = np.unique(values[~absent])
        if len(distinct) < BUCKETS:
            self.bounds = distinct  # the last value of each bucket but the last, which has the rest
        else:
            self.bounds = np.unique(sample[np.linspace(0, len(sample) - 1, BUCKETS + 1)[1:-1].astype(np.int64)])
        words = (len(values) + 63) // 64
        self.bits = np.zeros((len(self.bounds) + 1, words), np.uint64)
        self.exact = k.set_bits(self.bits, self.bounds, values, absent)
        self.has_absent = bool(absent.any())
        self.blocks = np.zeros((len(self.bits), -(-words // k.BLOCK)), np.uint8)
        k.look_at_blocks(self.bits, len(values), self.blocks)

    def facts(self) -> list[int]:
        """Return what the kernels know of the column; its addresses are good as long as this object."""
        return [
            _KINDS[self.values.dtype], self.values.ctypes.data, self.bounds.ctypes.data, len(self.bounds),
            self.bits.ctypes.data, self.bits.shape[1], self.blocks.ctypes.data, self.blocks.shape[1],
            int(self.exact), int(self.has_absent),
        ]  # fmt: skip


def packed(flags: k.Flags) -> k.Words:
    """Return a bitmap of the rows whose flag is set."""
    words = np.zeros((len(flags) + 63) // 64, np.uint64)
    bytes_ = np.packbits(flags, bitorder="little")
    words.view(np.uint8)[: len(bytes_)] = bytes_
    return words
