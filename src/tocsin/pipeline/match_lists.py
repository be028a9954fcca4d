"""MatchLists: the matches of a batch of events, a list of subscription ids for each; and what their pairs tell.

PairDetails are the values of variables, what an offer computed, or why something failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.errors import TocsinError
from tocsin.language.explain import plain_values
from tocsin.matching.engine import Inquiry, Match

if TYPE_CHECKING:
    import pyarrow as pa


Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MatchLists:
    """Event i matched ids[offset[i] : offset[i + 1]]; ids are int64, or texts.

    Texts are codes into a dictionary, an Arrow array, where the engine found them; else objects.
    """

    offset: Longs
    codes: npt.NDArray[Any]
    dictionary: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.offset) - 1

    @property
    def ids(self) -> npt.NDArray[Any]:
        """The ids of all events: whole numbers, or texts as objects."""
        return self.codes if self.dictionary is None else self.id_array().to_numpy(zero_copy_only=False)

    def ids_of(self, event: int) -> list[Any]:
        """Return the ids of one event."""
        codes = self.codes[self.offset[event] : self.offset[event + 1]]
        found: list[Any] = (
            codes.tolist()
            if self.dictionary is None
            else MatchLists(np.array([0]), codes, self.dictionary).id_array().to_pylist()
        )
        return found

    @property
    def out_type(self) -> np.dtype[Any]:
        """The type of ids in the output: texts, or int64."""
        return self.codes.dtype if self.codes.dtype == object else np.dtype(np.int64)

    @property
    def counts(self) -> Longs:
        return np.diff(self.offset)

    @classmethod
    def of(cls, lists: Sequence[Sequence[Any]], *, text: bool) -> MatchLists:
        """Return the matches of one list per event."""
        offset = np.zeros(len(lists) + 1, np.int64)
        np.cumsum([len(found) for found in lists], out=offset[1:])
        flat = [id for found in lists for id in found]
        ids = np.empty(len(flat), object) if text else np.array(flat, np.int64)
        if text:
            ids[:] = flat
        return cls(offset, ids)

    @classmethod
    def joined(cls, first: MatchLists, second: MatchLists) -> MatchLists:
        """Return, event by event, what both found: two indexes over different subscriptions."""
        counts = first.counts + second.counts
        offset = np.concatenate([[0], np.cumsum(counts)])
        same = first.dictionary is second.dictionary
        one, other = (first.codes, second.codes) if same else (first.ids, second.ids)
        ids = np.empty(int(offset[-1]), one.dtype if len(one) else other.dtype)
        ids[_places(offset[:-1], first.counts)] = one
        ids[_places(offset[:-1] + first.counts, second.counts)] = other
        return cls(offset, ids, first.dictionary if same else None)

    def spread(self, rows: Longs, size: int) -> MatchLists:
        """Return the lists as those of `rows` among `size` events, the others' being empty. Rows ascend."""
        counts = np.zeros(size, np.int64)
        counts[rows] = self.counts
        return MatchLists(np.concatenate([[0], np.cumsum(counts)]), self.codes, self.dictionary)

    def replaced(self, lists: Mapping[int, Sequence[Any]], *, text: bool) -> MatchLists:
        """Return the lists with those of some events, empty here, filled in."""
        if not lists:
            return self
        other = MatchLists.of([lists.get(at, ()) for at in range(len(self))], text=text)
        return MatchLists.joined(self, other)

    # --- Arrow --------------------------------------------------------------------------------------------------------

    def parents(self) -> Longs:
        """Return the event of each id."""
        return np.repeat(np.arange(len(self)), self.counts)

    def id_array(self) -> pa.Array:
        """Return the ids as an Arrow array: int64, or strings."""
        import pyarrow as pa

        if self.dictionary is not None:
            return self.dictionary.take(pa.array(self.codes))
        if self.codes.dtype == object:
            return pa.array(self.codes, pa.string())
        return pa.array(self.codes.astype(np.int64, copy=False))  # without a copy of what is int64 already

    def list_array(self) -> pa.Array:
        """Return one list per event."""
        import pyarrow as pa

        return pa.ListArray.from_arrays(pa.array(self.offset.astype(np.int32)), self.id_array())


def _places(starts: Longs, counts: Longs) -> Longs:
    """Return starts[i], starts[i] + 1, ... counts[i] of them, for each i, in one array."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) - np.repeat(ends - counts, counts) + np.repeat(starts, counts)


BINDINGS, COMPUTED = "bindings", "computed"
Pair = tuple[int, Any]  # row of the batch, id


class PairDetails:
    """The details of a batch's pairs, for those that have some."""

    def __init__(self, matches: dict[Pair, Match] | None = None, failures: dict[Pair, str] | None = None) -> None:
        self.matches: dict[Pair, Match] = {} if matches is None else matches
        self.failures: dict[Pair, str] = {} if failures is None else failures

    def learn(self, inquiry: Inquiry, rows: Longs, lists: MatchLists) -> None:
        """Take over what was found out of events that are these rows of the batch, and matched these lists."""
        for at in sorted(inquiry.events):
            row, ids = int(rows[at]), lists.ids_of(at)
            self.matches.update(((row, one.id), one) for one in inquiry.matches(at, ids))
            failed = sorted(inquiry.failed(at, set(ids)), key=lambda one: str(one.id))
            self.failures.update(((row, one.id), one.reason) for one in failed)

    def fail(self) -> None:
        """Raise TocsinError where something failed."""
        for (row, id), reason in self.failures.items():
            raise TocsinError(f"row {row} of a batch could not be matched with the subscription {id!r}: {reason}")

    def part(self, start: int, stop: int) -> PairDetails:
        """Return the details of rows start .. stop-1, counted from there."""
        return PairDetails(
            {(row - start, id): match for (row, id), match in self.matches.items() if start <= row < stop},
            {(row - start, id): why for (row, id), why in self.failures.items() if start <= row < stop},
        )

    def columns(self, pairs: Sequence[Pair]) -> dict[str, list[str | None]]:
        """Return the values of variables and the computed ones of pairs, as JSON; null where there are none."""
        found = [self.matches.get(pair) for pair in pairs]
        return {
            BINDINGS: [None if one is None or not one.bindings else _bindings(one) for one in found],
            COMPUTED: [None if one is None or not one.computed else _computed(one) for one in found],
        }


def _bindings(match: Match) -> str:
    return msgspec.json.encode([plain_values(each) for each in match.bindings]).decode()


def _computed(match: Match) -> str:
    return msgspec.json.encode(plain_values(match.computed)).decode()
