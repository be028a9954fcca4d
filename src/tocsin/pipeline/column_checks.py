"""Column checks: for one column of raw values, the same values in their canonical Arrow column, and which rows fit.

What schema/domain.py says of one raw value, said of a column at a time, for the types that data usually comes in. A
row that does not fit here is not wrong: admission.py asks the domain itself about it, which then tells the reason.
Canonical columns are those of schema/arrow.py.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

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
