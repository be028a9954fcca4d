"""Keys of an Arrow column: whatever types other tools leave in it, vectorised.

Null is absent, and so is an empty list. A list column may stand for an attribute with one value per event and a plain
column for one with several. A value that the domain does not admit is refused, with its row.

Apart from key_column.py, which matching always needs, since Arrow is an extra: imported when somebody brings columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.compile.table import Derivation
from tocsin.errors import BadValue
from tocsin.index.key_column import KeyColumn, keys_of
from tocsin.schema import Domain, NumericDomain, ObjectDomain, PointDomain, TextDomain, TimeDomain, Value

Present = npt.NDArray[np.bool_] | None  # None: every row
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def from_arrow(array: pa.Array, attribute: str, domain: Domain, derivation: Derivation) -> KeyColumn:
    """Return the keys that the rows of an Arrow array have in a column; raises BadValue."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if any(is_list(array.type) for is_list in _LISTS) and not _is_pair(array, domain):
        return _from_lists(array, attribute, domain, derivation)
    return _from_scalars(array, attribute, domain, derivation)


def _is_pair(array: pa.Array, domain: Domain) -> bool:
    """Return whether the lists of the array are points written as [latitude, longitude]."""
    return (
        isinstance(domain, PointDomain)
        and not pa.types.is_struct(array.type.value_type)
        and not any(is_list(array.type.value_type) for is_list in _LISTS)
    )


def _from_lists(array: pa.Array, attribute: str, domain: Domain, derivation: Derivation) -> KeyColumn:
    rows = pc.list_parent_indices(array)
    items = pc.list_flatten(array)
    if items.null_count:
        kept = pc.is_valid(items)
        rows, items = rows.filter(kept), items.filter(kept)
    flat = _from_scalars(items, attribute, domain, derivation)
    counts = np.diff(flat.offset) if flat.offset is not None else np.ones(len(items), np.int64)
    parents = rows.to_numpy(zero_copy_only=False).astype(np.int64)
    offset = np.zeros(len(array) + 1, np.int64)
    np.cumsum(np.bincount(parents, weights=counts, minlength=len(array)).astype(np.int64), out=offset[1:])
    present = np.bincount(parents, minlength=len(array)) > 0
    return KeyColumn(flat.values, present, flat.keys, offset, flat.as_written)


def _from_scalars(array: pa.Array, attribute: str, domain: Domain, derivation: Derivation) -> KeyColumn:
    present = None if array.null_count == 0 else pc.is_valid(array).to_numpy(zero_copy_only=False)
    kind = array.type
    if isinstance(domain, ObjectDomain):
        return KeyColumn(np.zeros(len(array), np.int64), present)
    if isinstance(domain, NumericDomain) and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return _numbers(array, present, attribute, domain)
    if isinstance(domain, TimeDomain) and pa.types.is_timestamp(kind) and kind.tz is not None:
        return KeyColumn(_microseconds(array), present)
    if isinstance(domain, PointDomain) and pa.types.is_struct(kind) and derivation != "value":
        return _coordinate(array, present, attribute, domain, derivation)
    if domain.kind == "boolean" and pa.types.is_boolean(kind):
        return KeyColumn(_filled(array, False, pa.int64()), present)
    return _numbered(array, present, attribute, domain, derivation)


def _numbers(array: pa.Array, present: Present, attribute: str, domain: NumericDomain) -> KeyColumn:
    if pa.types.is_uint64(array.type) and len(array) and (pc.max(array).as_py() or 0) >= 2**63:
        return _numbered(array, present, attribute, domain, "value")
    if pa.types.is_integer(array.type):
        return KeyColumn(_filled(array, 0, pa.int64()), present)
    values = _filled(array, 0.0, pa.float64())
    finite = np.isfinite(values)
    if not finite.all():
        row = int(np.argmin(finite))
        raise BadValue(float(values[row]), domain.name, f"a finite number (attribute {attribute}, row {row})")
    return KeyColumn(values, present, as_written=domain.type != "float")


def _filled(array: pa.Array, filling: object, kind: pa.DataType) -> npt.NDArray[Any]:
    """Return the values as NumPy has them, without a copy where there is no null and the type fits."""
    if array.null_count:
        array = pc.fill_null(array, filling)
    values: npt.NDArray[Any] = (array if array.type == kind else array.cast(kind)).to_numpy(zero_copy_only=False)
    return values


def _microseconds(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return instants as microseconds since 1970; finer ones are cut to the microsecond below."""
    numbers = _filled(array.cast(pa.int64()), 0, pa.int64())
    per_unit = {"s": 1_000_000, "ms": 1_000, "us": 1}
    unit = array.type.unit
    return numbers // 1_000 if unit == "ns" else numbers * per_unit[unit]


def _coordinate(array: pa.Array, present: Present, attribute: str, domain: Domain, derivation: Derivation) -> KeyColumn:
    wanted = ("lat", "latitude") if derivation == "latitude" else ("lon", "longitude")
    names = [field.name for field in array.type if field.name in wanted]
    if not names:
        raise BadValue(str(array.type), domain.name, f"a struct with lat and lon (attribute {attribute})")
    values = pc.struct_field(array, names[0])
    known = pc.is_valid(values).to_numpy(zero_copy_only=False)
    return KeyColumn(_filled(values, 0.0, pa.float64()), known if present is None else known & present)


def _numbered(array: pa.Array, present: Present, attribute: str, domain: Domain, derivation: Derivation) -> KeyColumn:
    """Return the keys by way of the distinct values, each admitted once."""
    encoded = array if pa.types.is_dictionary(array.type) else _distinct(array)
    positions = _filled(encoded.indices, 0, pa.int64())
    if derivation == "value" and isinstance(domain, TextDomain) and domain.max_length is None:
        texts = _texts(encoded.dictionary)  # every text is of the domain: nothing to admit
        if texts is not None:
            return KeyColumn(positions, present, list(map(domain.key, texts)) if domain.case == "folded" else texts)
    used = np.unique(positions if present is None else positions[present])
    distinct = encoded.dictionary.to_pylist()
    numbers: dict[Any, int] = {}
    found: list[list[int]] = [[] for _ in distinct]
    for position in used.tolist():
        for key in _keys(distinct[position], attribute, domain, derivation, positions, present, position):
            found[position].append(numbers.setdefault(key, len(numbers)))
    if derivation == "value":
        one = np.array([each[0] if each else 0 for each in found] or [0], np.int32)
        return KeyColumn(one[positions], present, list(numbers))
    return _spread(found, positions, present, list(numbers))


def _texts(dictionary: pa.Array) -> list[str] | None:
    """Return the texts of a dictionary; None where it holds something else, or nothing."""
    is_text = pa.types.is_string(dictionary.type) or pa.types.is_large_string(dictionary.type)
    return dictionary.to_pylist() if is_text and len(dictionary) and not dictionary.null_count else None


def _distinct(array: pa.Array) -> pa.DictionaryArray:
    """Return the array with its distinct values numbered; nested values are numbered by Python."""
    if not pa.types.is_nested(array.type):
        return pc.dictionary_encode(array)
    values = array.to_pylist()
    return pa.DictionaryArray.from_arrays(pa.array(range(len(values)), pa.int32()), pa.array(values, array.type))


def _keys(
    raw: Any,
    attribute: str,
    domain: Domain,
    derivation: Derivation,
    positions: npt.NDArray[np.int64],
    present: Present,
    position: int,
) -> Any:
    try:
        return keys_of(domain, derivation, domain.admit(raw))
    except BadValue as error:
        row = int(np.flatnonzero((positions == position) & (True if present is None else present))[0])
        raise BadValue(raw, domain.name, f"{error.right} (attribute {attribute}, row {row})") from None


def _spread(found: list[list[int]], positions: npt.NDArray[np.int64], present: Present, keys: list[Any]) -> KeyColumn:
    """Return the keys of each event, where a distinct value has any number of them."""
    lengths = np.array([len(each) for each in found] or [0], np.int64)
    starts = np.cumsum(lengths) - lengths
    flat = np.array([number for each in found for number in each], np.int32)
    counts = lengths[positions] if present is None else np.where(present, lengths[positions], 0)
    offset = np.zeros(len(positions) + 1, np.int64)
    np.cumsum(counts, out=offset[1:])
    within = np.arange(offset[-1]) - np.repeat(offset[:-1], counts)
    bound = np.ones(len(positions), np.bool_) if present is None else present
    return KeyColumn(flat[np.repeat(starts[positions], counts) + within], bound, keys, offset)


def inner_field(array: pa.Array, path: Sequence[str], *, is_point: bool) -> pa.Array | None:
    """Return what a path of names leads to in structs, also in those of lists: then, for each row, the list of all there is.

    None where it leads nowhere. A point may itself be a list.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if not path:
        return array
    if pa.types.is_struct(array.type):
        known = array.type.get_field_index(path[0]) >= 0
        return inner_field(pc.struct_field(array, path[0]), path[1:], is_point=is_point) if known else None
    if not any(is_list(array.type) for is_list in _LISTS):
        return None
    rows, found = pc.list_parent_indices(array), inner_field(pc.list_flatten(array), path, is_point=is_point)
    if found is None:
        return None
    if any(is_list(found.type) for is_list in _LISTS) and not (
        is_point and not pa.types.is_nested(found.type.value_type)
    ):
        rows, found = rows.take(pc.list_parent_indices(found)), pc.list_flatten(found)
    if found.null_count:
        kept = pc.is_valid(found)
        rows, found = rows.filter(kept), found.filter(kept)
    parents = rows.to_numpy(zero_copy_only=False).astype(np.int64)
    offset = np.zeros(len(array) + 1, np.int32)
    np.cumsum(np.bincount(parents, minlength=len(array)), out=offset[1:])
    return pa.ListArray.from_arrays(pa.array(offset, pa.int32()), found)


def _distinct_values(domain: Domain, raws: Sequence[Any]) -> tuple[Value, ...]:
    found: dict[Any, Value] = {}
    for value in map(domain.admit, raws):
        found.setdefault(domain.key(value), value)
    return tuple(found.values())


def values_from_arrow(array: pa.Array, domain: Domain, rows: npt.NDArray[np.int64]) -> list[tuple[Value, ...] | None]:
    """Return the canonical values of some rows; None where a row has none."""
    taken = array.take(pa.array(rows))
    if any(is_list(array.type) for is_list in _LISTS) and not _is_pair(array, domain):
        lists = ([raw for raw in found or () if raw is not None] for found in taken.to_pylist())
        return [_distinct_values(domain, found) or None for found in lists]
    return [None if raw is None else (domain.admit(raw),) for raw in taken.to_pylist()]
