"""CodedBatch: a batch of events as integer codes, one column per column of a segment.

Made by index/encode.py; the only form in which events reach the kernels of matching/columnar/.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
class RawColumns:
    """Columns that are still int64 numbers where Arrow has them: coded when the events are laid out, each in one pass.

    Column c is raw where table_of[c] is not negative: it lies at addresses[t] for t = table_of[c], and its look-up table
    is codes[start[t] : start[t] + length[t]], from the number least[t] on. `linear[t]` tells that its constants are
    successive integers, so that arithmetic finds the same codes. `owner` keeps the memory alive.
    """

    table_of: npt.NDArray[np.int64]
    addresses: npt.NDArray[np.int64]
    least: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    linear: npt.NDArray[np.bool_]
    codes: Codes
    owner: object

    def part(self, start: int) -> RawColumns:
        """Return the columns from an event on."""
        return replace(self, addresses=self.addresses + 8 * start)


@dataclass(frozen=True, slots=True)
class CodedBatch:
    """Events 0 .. size-1 in the code space of one segment.

    `codes[c, e]` is the code of event e in the unique column c, -1 where it is absent; rows of multiple columns and of
    raw ones are not read: the former are in `multiples`, by column position. A multiple column that is not there is absent.
    `seq` and `arrival` (microseconds), where given, make matching as-of: see Segment.
    """

    codes: Codes
    multiples: Mapping[int, MultipleCodes] = field(default_factory=dict)
    seq: npt.NDArray[np.int64] | None = None
    arrival: npt.NDArray[np.int64] | None = None
    raw: RawColumns | None = None

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
            None if self.raw is None else self.raw.part(start),
        )


def multiple_codes(lists: list[list[int] | None]) -> MultipleCodes:
    """Return the codes of a multiple column from one list per event (None: absent)."""
    distinct = [sorted(set(codes or ())) for codes in lists]
    offset = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(codes) for codes in distinct], out=offset[1:])
    flat = np.array([code for codes in distinct for code in codes], np.int32)
    return MultipleCodes(offset, flat, np.array([codes is not None for codes in lists], np.bool_))
