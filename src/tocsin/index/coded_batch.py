"""CodedBatch: a batch of events as integer codes, one column per column of a segment.

Made by index/encode.py; the only form in which events reach the kernels of matching/columnar/. It knows nothing of schemas, so
that a change to these or to the language compiles no kernel anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class MultipleCodes:
    """The codes of a multiple column: event e has codes[offset[e]:offset[e + 1]], ascending and distinct."""

    offset: npt.NDArray[np.int64]
    codes: Codes
    present: npt.NDArray[np.bool_]


class CodesOfOne(Mapping[int, MultipleCodes]):
    """The codes of one event in several multiple columns, together: columns[i] has codes[offset[i]:offset[i + 1]]."""

    def __init__(
        self, columns: tuple[int, ...], offset: npt.NDArray[np.int64], codes: Codes, present: npt.NDArray[np.bool_]
    ) -> None:
        self.columns, self.offset, self.codes, self.present = columns, offset, codes, present

    def __getitem__(self, column: int) -> MultipleCodes:
        at = self.columns.index(column) if column in self.columns else -1
        if at < 0 or not self.present[at]:
            raise KeyError(column)
        return MultipleCodes(self.offset[at : at + 2], self.codes, self.present[at : at + 1])

    def __iter__(self) -> Iterator[int]:
        return (column for at, column in enumerate(self.columns) if self.present[at])

    def __len__(self) -> int:
        return int(self.present.sum())


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
