"""JSON and maps as columns: many documents are read at once, and what they have under a name becomes one Arrow column.

A column takes the values of one kind (numbers, texts, truth values, lists of these, points). Values that do not go together,
or that a column would not hold exactly, are odd: admission.py leaves their rows to the slow way, which decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

Mask = npt.NDArray[np.bool_]
MAX_NESTED = 8  # objects within objects; deeper ones are rare, and bounded by the slow way
MOST_KEYS = 1_000  # of a map's rows together
EXACT = 2**53
BROKEN = object()
_NOTHING = type(None)
_read = msgspec.json.Decoder().decode


def read_all(texts: list[Any], most_bytes: int) -> list[Any]:
    """Return each document; None where there is none, BROKEN where it cannot be read."""
    try:
        if max(map(len, texts), default=0) <= most_bytes:
            return list(map(_read, texts))
    except (TypeError, msgspec.DecodeError, UnicodeError, RecursionError):
        pass  # some text is none; each by itself then
    return [_read_one(text, most_bytes) for text in texts]


def _read_one(text: Any, most_bytes: int) -> Any:
    if text is None:
        return None
    if len(text) > most_bytes:
        return BROKEN
    try:
        return _read(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return BROKEN


@dataclass(slots=True)
class FoundValues:
    """What documents have under a name: a column, objects (empty where there is none), and rows that are neither."""

    column: pa.Array | None
    objects: list[Any] | None
    odd: Mask


def values_of(values: list[Any], *, is_point: bool = False) -> FoundValues:
    """Return values by their kind."""
    types = set(map(type, values)) - {_NOTHING}
    if is_point:
        return _points(values)
    objects = None
    if dict in types:
        objects = [each if type(each) is dict else {} for each in values]
        values = [None if type(each) is dict else each for each in values]
        types.discard(dict)
    if list in types:
        column, odd = _lists(values)
    elif types:
        column, odd = _scalars(values, types)
    else:
        column, odd = None, np.zeros(len(values), np.bool_)
    return FoundValues(column, objects, odd)


_TEXT, _TRUTH, _NUMBER = {str}, {bool}, {int, float}


def _scalars(values: list[Any], types: set[type]) -> tuple[Any, Mask]:
    """Return a column, and which values it does not hold."""
    import pyarrow as pa

    odd = np.zeros(len(values), np.bool_)
    kind = next((each for each in (_NUMBER, _TEXT, _TRUTH) if types & each), set())
    if not types <= kind:
        odd = np.fromiter((each is not None and type(each) not in kind for each in values), np.bool_)
        values = [None if bad else each for each, bad in zip(values, odd.tolist(), strict=True)]
        types = types & kind
    if not types:
        return None, odd
    target = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}[
        float if float in types else next(iter(types))
    ]
    try:
        return pa.array(values, target), odd
    except (pa.ArrowInvalid, OverflowError, UnicodeError):  # numbers that are not held exactly, half surrogate pairs
        return None, odd | np.fromiter((each is not None for each in values), np.bool_)


def _lists(values: list[Any]) -> tuple[Any, Mask]:
    """Return a column of lists; a value that stands alone is a list of one."""
    import pyarrow as pa

    lists = [each if type(each) is list else [each] for each in values]
    members = list(chain.from_iterable(lists))
    types = set(map(type, members)) - {_NOTHING}
    if types & {list, dict}:
        nested = np.fromiter((any(type(each) in (list, dict) for each in found) for found in lists), np.bool_)
        kept = [None if bad else each for each, bad in zip(values, nested.tolist(), strict=True)]
        column, odd = _lists(kept)
        return column, odd | nested
    lengths = np.fromiter(map(len, lists), np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if not types:
        return None, np.zeros(len(values), np.bool_)
    column, odd_members = _scalars(members, types)
    wrong = np.concatenate([[0], np.cumsum(odd_members)])
    odd = wrong[offsets[1:]] > wrong[offsets[:-1]]
    if column is None:
        return None, odd
    absent = np.fromiter((each is None for each in values), np.bool_)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), column, mask=pa.array(absent)), odd


def _points(values: list[Any]) -> FoundValues:
    """Return a column of points, of those that are written as objects of lat and lon."""
    import pyarrow as pa

    plain = np.fromiter(
        (each is None or (type(each) is dict and each.keys() == _POINT and set(map(type, each.values())) == {float})
         for each in values), np.bool_,
    )  # fmt: skip
    kept = [each if good else None for each, good in zip(values, plain.tolist(), strict=True)]
    return FoundValues(pa.array(kept, pa.struct([("lat", pa.float64()), ("lon", pa.float64())])), None, ~plain)


_POINT = {"lat", "lon"}


def map_columns(values: pa.Array) -> Iterator[tuple[str, pa.Array]] | None:
    """Return a column of maps as a column a key; None where there are too many keys, or they are no texts."""
    import pyarrow as pa
    from pyarrow import compute

    if not (pa.types.is_string(values.type.key_type) or pa.types.is_large_string(values.type.key_type)):
        return None
    offsets = values.offsets.to_numpy()
    lengths = np.where(values.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets), 0)
    rows = np.repeat(np.arange(len(values)), lengths)
    starts = np.cumsum(lengths) - lengths
    places = np.arange(len(rows)) - np.repeat(starts, lengths) + np.repeat(offsets[:-1], lengths)
    coded = compute.dictionary_encode(values.keys.take(pa.array(places)))
    if len(coded.dictionary) > MOST_KEYS:
        return None
    return _by_key(values, coded, rows, places)


def _by_key(values: pa.Array, coded: pa.Array, rows: Any, places: Any) -> Iterator[tuple[str, pa.Array]]:
    import pyarrow as pa

    codes = coded.indices.to_numpy()
    for code, key in enumerate(coded.dictionary.to_pylist()):
        mine = np.flatnonzero(codes == code)
        taken = np.full(len(values), -1)
        taken[rows[mine]] = places[mine]
        yield str(key), values.items.take(pa.array(taken, mask=taken < 0))
