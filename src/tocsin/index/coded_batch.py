"""CodedBatch: a batch of events as integer codes, one column per column of a segment.

Made by index/encode.py; the only form in which events reach the kernels of matching/columnar/.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Mapping

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class MultipleCodes:
    """The codes of a multiple column: event e has codes[offset[e]:offset[e + 1]], ascending and distinct."""

    offset: npt.NDArray[np.int64]
    codes: Codes
    present: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class CodedBatch:
    """Events 0 .. size-1 in the code space of one segment.

    `codes[c, e]` is the code of event e in the unique column c, -1 where it is absent; rows of multiple columns are
    not read: those are in `multiples`, by column position. A multiple column that is not there is absent.
    `seq` and `arrival` (microseconds), where given, make matching as-of: see Segment.
    """

    codes: Codes
    multiples: Mapping[int, MultipleCodes] = field(default_factory=dict)
    seq: npt.NDArray[np.int64] | None = None
    arrival: npt.NDArray[np.int64] | None = None

    @property
    def size(self) -> int:
        """The number of events."""
        return int(self.codes.shape[1])

    def part(self, start: int, stop: int) -> CodedBatch:
        """Return events start .. stop-1 as a batch of their own."""
        multiples = {
            column: MultipleCodes(m.offset[start : stop + 1], m.codes, m.present[start:stop])
            for column, m in self.multiples.items()
        }
        return CodedBatch(
            self.codes[:, start:stop],
            multiples,
            None if self.seq is None else self.seq[start:stop],
            None if self.arrival is None else self.arrival[start:stop],
        )


def multiple_codes(lists: list[list[int] | None]) -> MultipleCodes:
    """Return the codes of a multiple column from one list per event (None: absent)."""
    distinct = [sorted(set(codes or ())) for codes in lists]
    offset = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(codes) for codes in distinct], out=offset[1:])
    flat = np.array([code for codes in distinct for code in codes], np.int32)
    return MultipleCodes(offset, flat, np.array([codes is not None for codes in lists], np.bool_))
