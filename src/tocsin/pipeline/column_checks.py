"""Column checks: for one column of raw values, the same values in their canonical Arrow column, and which rows fit.

What schema/domain.py says of one raw value, said of a column at a time, for the types that data usually comes in. A
row that does not fit here is not wrong: admission.py asks the domain itself about it, which then tells the reason.
Canonical columns are those of schema/arrow.py.

JSON and maps as columns: many documents are read at once, and what they have under a name becomes one Arrow column.

A column takes the values of one kind (numbers, texts, truth values, lists of these, points). Values that do not go together,
or that a column would not hold exactly, are odd: admission.py leaves their rows to the slow way, which decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.errors import BadValue
from tocsin.schema import Domain, EnumeratedDomain, HierarchicalDomain, IpDomain, NumericDomain, TextDomain
from tocsin.schema.arrow import arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

EXACT = 2**53  # integers up to here are floats exactly


def fit(values: pa.Array, domain: Domain) -> tuple[pa.Array, pa.Array] | None:
    """Return the canonical values, and a mask of those that fit (nulls do); None where the type tells nothing."""
    import pyarrow as pa

    kind = values.type
    if pa.types.is_null(kind):
        return pa.nulls(len(values), arrow_type(domain)), _all(values)
    if pa.types.is_dictionary(kind):
        values = values.dictionary_decode()
    if isinstance(domain, NumericDomain):
        return _fit_numbers(values, domain)
    if isinstance(domain, EnumeratedDomain | HierarchicalDomain):
        return _fit_members(values, domain)
    if isinstance(domain, TextDomain):
        return _fit_texts(values, domain)
    if domain.kind == "boolean":
        return (values, _all(values)) if pa.types.is_boolean(values.type) else None
    if domain.kind == "time":
        return _fit_times(values)
    if isinstance(domain, IpDomain):
        return _fit_addresses(values, domain)
    return _fit_points(values)


def _fit_numbers(values: pa.Array, domain: NumericDomain) -> tuple[pa.Array, pa.Array] | None:
    import pyarrow as pa
    from pyarrow import compute

    target = arrow_type(domain)
    if domain.type == "decimal" and domain.minimum is None and domain.maximum is None:
        # The engine reads both as they are.
        exact = pa.types.is_decimal(values.type) or pa.types.is_signed_integer(values.type)
        return (values, _all(values)) if exact else None
    if pa.types.is_string(target):  # bounded decimals, and integers beyond 64 bits
        return None
    if pa.types.is_integer(values.type) and not pa.types.is_uint64(values.type):
        fits = _within(values, -EXACT, EXACT) if pa.types.is_floating(target) else _all(values)
    elif pa.types.is_floating(values.type):
        fits = compute.is_finite(values)
        if pa.types.is_integer(target):
            whole = compute.equal(compute.floor(values), values)
            fits = compute.and_(compute.and_(fits, whole), _within(values, -EXACT + 1, EXACT - 1))
    else:
        return None
    fits = _true_where_null(fits)
    values = compute.if_else(fits, values, pa.scalar(0, values.type))
    canonical = values.cast(target)
    bounded = _within(canonical, domain.minimum, domain.maximum)
    return canonical, compute.and_(fits, _true_where_null(bounded))


def _within(values: pa.Array, least: float | None, most: float | None) -> pa.Array:
    """Return which values lie between two bounds, exactly; null counts as inside."""
    import pyarrow as pa
    from pyarrow import compute

    whole = pa.types.is_integer(values.type)
    inside = _all(values)
    if least is not None:
        inside = compute.and_(
            inside, compute.greater_equal(values, _bound(math.ceil(least) if whole else least, values))
        )
    if most is not None:
        inside = compute.and_(inside, compute.less_equal(values, _bound(math.floor(most) if whole else most, values)))
    return _true_where_null(inside)


def _bound(bound: float, values: pa.Array) -> pa.Scalar:
    """Return a bound as a value of the column; NaN, below and above which there is nothing, where it is none exactly."""
    import pyarrow as pa

    if pa.types.is_integer(values.type):
        return pa.scalar(max(-(2**63), min(2**63 - 1, int(bound))), pa.int64())
    return pa.scalar(float(bound) if float(bound) == bound else math.nan, pa.float64())


def _fit_members(values: pa.Array, domain: EnumeratedDomain | HierarchicalDomain) -> tuple[pa.Array, pa.Array] | None:
    import pyarrow as pa
    from pyarrow import compute

    if not _is_text(values):
        return None
    members = pa.array(domain.values, pa.string())
    names = [*domain.values, *(alias for alias in domain.meaning if alias not in domain.values)]
    keys = compute.index_in(values.cast(pa.string()), value_set=pa.array(names, pa.string()))
    if domain.meaning:
        keys = pa.array([domain.key(name) for name in names], pa.int32()).take(keys)
    fits = compute.or_(compute.is_valid(keys), compute.is_null(values))
    return pa.DictionaryArray.from_arrays(keys.cast(pa.int32()), members), fits


def _fit_addresses(values: pa.Array, domain: IpDomain) -> tuple[pa.Array, pa.Array] | None:
    """Return the addresses in their short form, each distinct one admitted once."""
    import pyarrow as pa
    from pyarrow import compute

    if not _is_text(values):
        return None
    encoded = compute.dictionary_encode(values.cast(pa.string()))
    short: list[str | None] = []
    for text in encoded.dictionary.to_pylist():
        try:
            short.append(domain.admit(text))
        except BadValue:
            short.append(None)
    found = pa.array(short, pa.string()).take(encoded.indices)
    return found, compute.or_(compute.is_valid(found), compute.is_null(values))


def _fit_texts(values: pa.Array, domain: TextDomain) -> tuple[pa.Array, pa.Array] | None:
    import pyarrow as pa
    from pyarrow import compute

    if not _is_text(values):
        return None
    values = values.cast(pa.string())
    if domain.max_length is None:
        return values, _all(values)
    short = compute.less_equal(compute.utf8_length(values), domain.max_length)
    return values, _true_where_null(short)


def _fit_times(values: pa.Array) -> tuple[pa.Array, pa.Array] | None:
    import pyarrow as pa

    kind = values.type
    if _is_text(values):
        return _fit_written_times(values)
    if not pa.types.is_timestamp(kind) or kind.tz is None or kind.unit not in ("s", "ms", "us"):
        return None
    canonical = values.cast(pa.timestamp("us", "UTC"))
    return canonical, _within(canonical.cast(pa.int64()), _YEAR_1_US, _YEAR_9999_US)


# What Python and Arrow read alike; whatever else is a time, the domain says.
_WRITTEN_TIME = r"^\d{4}-\d{2}-\d{2}[T ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$"


def _fit_written_times(values: pa.Array) -> tuple[pa.Array, pa.Array] | None:
    import pyarrow as pa
    from pyarrow import compute

    plain = _true_where_null(compute.match_substring_regex(values, _WRITTEN_TIME))
    try:
        canonical = compute.if_else(plain, values, pa.scalar(None, values.type)).cast(pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:  # some day that there is not
        return None
    return canonical, compute.and_(plain, _within(canonical.cast(pa.int64()), _YEAR_1_US, _YEAR_9999_US))


_YEAR_1_US, _YEAR_9999_US = -62_135_596_800_000_000, 253_402_300_799_999_999


def _fit_points(values: pa.Array) -> tuple[pa.Array, pa.Array] | None:
    import pyarrow as pa
    from pyarrow import compute

    if not pa.types.is_struct(values.type):
        return None
    names = [values.type.field(at).name for at in range(values.type.num_fields)]
    if names not in (["lat", "lon"], ["latitude", "longitude"]):
        return None
    if not all(pa.types.is_floating(values.type.field(at).type) for at in range(2)):
        return None
    lat, lon = (compute.struct_field(values, [at]).cast(pa.float64()) for at in range(2))
    inside = compute.and_(
        compute.and_(compute.is_finite(lat), compute.is_finite(lon)),
        compute.and_(
            compute.less_equal(compute.abs(lat), 90.0),
            compute.less_equal(compute.abs(lon), 180.0),
        ),
    )
    missing = compute.is_null(values)
    fits = compute.or_(compute.fill_null(inside, False), missing)
    zero = pa.scalar(0.0)  # -0.0 + 0.0 is 0.0, as the domain has it
    parts = [compute.add(lat, zero), compute.add(lon, zero)]
    return pa.StructArray.from_arrays(parts, names=["lat", "lon"], mask=missing), fits


def _is_text(values: pa.Array) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(values.type) or pa.types.is_large_string(values.type))


def _all(values: pa.Array) -> Any:
    import numpy as np
    import pyarrow as pa

    return pa.array(np.ones(len(values), np.bool_))


def _true_where_null(mask: pa.Array) -> pa.Array:
    from pyarrow import compute

    return compute.fill_null(mask, True)


# --- JSON and maps ----------------------------------------------------------------------------------------------------


Mask = npt.NDArray[np.bool_]
MAX_NESTED = 8  # objects within objects; deeper ones are rare, and bounded by the slow way
MOST_KEYS = 1_000  # of a map's rows together
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
