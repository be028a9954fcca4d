"""Ids: who the subscriptions of a table or a segment are. Whole numbers are int64; where some are texts, TextIds.

A text id stays UTF-8 bytes until somebody asks for it: kernels, results and files carry its number. Used by
compile/table.py, stored by index/names.py as it is, found by index/coder.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]
# No UTF-8 text has this byte: behind it stand the digits of an id that is a whole number among texts.
WHOLE_NUMBER = b"\xff"


class TextIds:
    """Ids 0 .. n-1, of which id i is the bytes offset[i] .. offset[i + 1] of the data; each is decoded once."""

    def __init__(self, data: npt.NDArray[np.uint8], offset: Int64s) -> None:
        self.data, self.offset = data, offset

    @classmethod
    def of(cls, ids: Iterable[int | str]) -> TextIds:
        """Return these ids."""
        listed = list(ids)
        if all(type(id) is str for id in listed) and (joined := "".join(listed)).isascii():  # type: ignore[arg-type]
            data, lengths = joined.encode(), [len(id) for id in listed]  # type: ignore[arg-type]
        else:
            encoded = [bytes_of(id) for id in listed]
            data, lengths = b"".join(encoded), [len(each) for each in encoded]
        offset = np.zeros(len(listed) + 1, np.int64)
        np.cumsum(lengths, out=offset[1:])
        return cls(np.frombuffer(data, np.uint8), offset)

    def __len__(self) -> int:
        return len(self.offset) - 1

    def __getitem__(self, number: int) -> int | str:
        return id_of(self.data[self.offset[number] : self.offset[number + 1]].tobytes())

    def __iter__(self) -> Iterator[int | str]:
        return iter(self.tolist())

    def tolist(self) -> list[int | str]:
        """Return all of them."""
        joined = self.data.tobytes()
        return [id_of(joined[start:stop]) for start, stop in pairwise(self.offset.tolist())]

    @cached_property
    def _decoded(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[Any]]:
        return np.zeros(len(self), np.bool_), np.empty(len(self), object)

    def take(self, numbers: Numbers) -> npt.NDArray[Any]:
        """Return the ids with these numbers, as objects."""
        known, ids = self._decoded
        unknown = ~known[numbers]
        if unknown.any():
            for number in np.unique(numbers[unknown]).tolist():
                ids[number] = self[number]
                known[number] = True
        found: npt.NDArray[Any] = ids[numbers]
        return found

    def kept(self, keep: npt.NDArray[np.bool_]) -> TextIds:
        """Return those that are kept."""
        lengths = np.diff(self.offset)
        offset = np.zeros(int(keep.sum()) + 1, np.int64)
        np.cumsum(lengths[keep], out=offset[1:])
        return TextIds(self.data[np.repeat(keep, lengths)], offset)

    @cached_property
    def has_numbers(self) -> bool:
        """Whether whole numbers are among them."""
        return bool((self.data == WHOLE_NUMBER[0]).any())


Ids = Int64s | TextIds


def bytes_of(id: int | str) -> bytes:
    """Return an id as bytes, different ones for different ids."""
    return id.encode("utf-8", "surrogatepass") if isinstance(id, str) else WHOLE_NUMBER + str(id).encode()


def id_of(data: bytes) -> int | str:
    """Return the id that has these bytes."""
    return int(data[1:]) if data[:1] == WHOLE_NUMBER else data.decode("utf-8", "surrogatepass")


def ids_of(ids: Sequence[Any]) -> Ids:
    """Return ids as int64 where all are small integers."""
    if all(type(id) is int and abs(id) < 2**63 for id in ids):
        return np.array(ids, np.int64)
    return TextIds.of(ids)


def id_at(ids: Ids, number: int) -> int | str:
    """Return one of the ids."""
    return ids[number] if isinstance(ids, TextIds) else int(ids[number])


def kept_ids(ids: Ids, keep: npt.NDArray[np.bool_]) -> Ids:
    """Return the ids that are kept."""
    return ids.kept(keep) if isinstance(ids, TextIds) else ids[keep]


def joined_ids(parts: Sequence[Ids]) -> Ids:
    """Return the ids of all parts, one behind the other."""
    numbers = [part for part in parts if not isinstance(part, TextIds)]
    if len(numbers) == len(parts):
        return np.concatenate([np.zeros(0, np.int64), *numbers])
    texts = [part if isinstance(part, TextIds) else TextIds.of(part.tolist()) for part in parts]
    starts = np.cumsum([0, *(len(each.data) for each in texts)])
    offset = np.concatenate([each.offset[:-1] + start for each, start in zip(texts, starts, strict=False)])
    return TextIds(np.concatenate([each.data for each in texts]), np.append(offset, starts[-1]))
