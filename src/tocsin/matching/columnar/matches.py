"""Matches: which subscriptions each event of a batch satisfies, as flat arrays.

TierIds: the ids of all tiers, one behind the other; what matching finds are places among them.

Only where some ids are texts, or numbers among texts: see Matches. Ids are decoded where somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tocsin.compile.ids import Ids, TextIds, joined_ids
from tocsin.index.jit import kernel

if TYPE_CHECKING:
    import pyarrow as pa


_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Matches:
    """Events first .. first + n - 1 of a batch: event first + i satisfies ids[offset[i] : offset[i + 1]].

    Ids that are texts are found as codes, and looked up only where somebody asks for `ids` or `lists`.
    """

    first: int
    offset: npt.NDArray[np.int64]
    codes: npt.NDArray[Any]  # int32 or int64: the ids themselves, or their places in the dictionary where there is one
    dictionary: TierIds | None = None  # of ids of which some are texts

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def ids(self) -> npt.NDArray[Any]:
        """The ids of all events: whole numbers, or objects where some are texts, looked up now."""
        return self.codes if self.dictionary is None else self.dictionary.take(self.codes)

    def part(self, first: int, events: int) -> Matches:
        """Return the matches of some of the events, in the same memory."""
        offset = self.offset[first - self.first : first - self.first + events + 1]
        return Matches(first, offset - offset[0], self.codes[offset[0] : offset[-1]], self.dictionary)

    def copy(self) -> Matches:
        """Return the same in memory of its own."""
        return Matches(self.first, self.offset.copy(), self.codes.copy(), self.dictionary)

    def counts(self) -> npt.NDArray[np.int64]:
        """Return how many subscriptions each event satisfies."""
        return np.diff(self.offset)

    def lists(self) -> list[list[Any]]:
        """Return the ids of each event."""
        flat, ends = self.ids.tolist(), self.offset.tolist()
        return [flat[start:stop] for start, stop in pairwise(ends)]

    def to_arrow(self) -> pa.ListArray:
        """Return one list of ids per event, without copying numbers; text ids as a dictionary and numbers into it."""
        import pyarrow as pa

        return pa.LargeListArray.from_arrays(pa.array(self.offset), self._arrow_ids())

    def pairs(self) -> pa.RecordBatch:
        """Return one row per match: the position of the event in its batch, and the subscription's id."""
        import pyarrow as pa

        events = np.repeat(np.arange(self.first, self.first + len(self.offset) - 1), self.counts())
        return pa.RecordBatch.from_arrays([pa.array(events), self._arrow_ids()], names=["event", "subscription"])

    def _arrow_ids(self) -> pa.Array:
        import pyarrow as pa

        codes = pa.array(self.codes)
        if self.dictionary is None:
            return codes
        return pa.DictionaryArray.from_arrays(codes, self.dictionary.arrow, safe=False)


def in_sequence(parts: Sequence[Matches], first: int) -> Matches:
    """Return the matches of successive events as one."""
    if len(parts) == 1:
        return parts[0]
    offset = np.concatenate(
        [np.zeros(1, np.int64), np.cumsum(np.concatenate([_NONE, *(part.counts() for part in parts)]))]
    )
    codes = np.concatenate([part.codes for part in parts]) if parts else _NONE
    return Matches(first, offset, codes, parts[0].dictionary if parts else None)


def joined(parts: Sequence[Matches], first: int, events: int) -> Matches:
    """Return the matches of the same events in several tiers as one; their codes differ from tier to tier."""
    if len(parts) == 1:
        return parts[0]
    counts = np.sum([part.counts() for part in parts], axis=0) if parts else np.zeros(events, np.int64)
    offset = np.zeros(events + 1, np.int64)
    np.cumsum(counts, out=offset[1:])
    place = offset[:-1].copy()
    codes = np.empty(int(offset[-1]), np.result_type(np.int32, *(part.codes.dtype for part in parts)))
    for part in parts:
        put_beside(part.offset, part.codes, place, codes)
    return Matches(first, offset, codes)


@kernel
def put_beside(
    offset: npt.NDArray[np.int64], ids: npt.NDArray[Any], place: npt.NDArray[np.int64], target: npt.NDArray[Any]
) -> None:
    """Write the ids of each event from its place in the target on, and move its place behind them."""
    for e in range(len(place)):
        at = place[e]
        for i in range(offset[e], offset[e + 1]):
            target[at] = ids[i]
            at += 1
        place[e] = at


# TierIds.


INT32_BYTES = 2**31 - 1  # of a text array with offsets of 32 bits


class TierIds:
    """Ids by code."""

    def __init__(self, ids: Sequence[Ids]) -> None:
        self._ids = ids
        self._first = np.cumsum([0, *(len(each) for each in ids)])

    def __len__(self) -> int:
        return int(self._first[-1])

    def take(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the ids of these codes, as objects."""
        if len(self._ids) == 1:
            return _taken(self._ids[0], codes)
        found = np.empty(len(codes), object)
        tier = np.searchsorted(self._first, codes, side="right") - 1
        for at in np.unique(tier).tolist():
            mine = tier == at
            found[mine] = _taken(self._ids[at], codes[mine] - self._first[at])
        return found

    @cached_property
    def arrow(self) -> pa.Array:
        """All ids as an Arrow array: whole numbers, or texts. Raises TypeError where there are both."""
        import pyarrow as pa

        ids = joined_ids(self._ids)
        if not isinstance(ids, TextIds):
            return pa.array(ids)
        if ids.has_numbers:
            raise TypeError(
                "some ids are texts and some are numbers: an Arrow column holds either; ask for `ids` instead"
            )
        small = len(ids.data) <= INT32_BYTES
        offset = pa.py_buffer(np.ascontiguousarray(ids.offset, np.int32 if small else np.int64))
        kind = pa.StringArray if small else pa.LargeStringArray
        texts = kind.from_buffers(len(ids), offset, pa.py_buffer(np.ascontiguousarray(ids.data)))
        texts.validate(full=True)  # a text that is no valid UTF-8 (lone surrogates) has no Arrow form
        return texts


def _taken(ids: Ids, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if isinstance(ids, TextIds):
        return ids.take(numbers)
    found = np.empty(len(numbers), object)
    found[:] = ids[numbers].tolist()
    return found
