"""What numpy, pandas, polars and Arrow hand over, as plain Python; none of them is imported.

A number of numpy is the number; what pandas has for no value (NaT, NA) is none. `rows_of` reads a table as events, for who
proposes a schema of it: in a table of pandas NaN is no value too, since pandas has nothing else for a missing number. Everywhere
else NaN is refused, as a number that is none. Used by event.py and infer.py; tables are matched by matching/frames.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from tocsin.errors import BadDefinition

_NUMPY_KINDS = "biufUO"  # of dtypes: what has the same value in plain Python; times of numpy have no zone
_MISSING = ("NAType", "NaTType")
ZONE_REMEDY = (
    "say in which zone it is: pd.to_datetime(frame[{name!r}]).dt.tz_localize('UTC') in pandas, "
    "pl.col({name!r}).cast(pl.Datetime).dt.replace_time_zone('UTC') in polars"
)


def plain(value: Any) -> Any:
    """Return a value as plain Python, None where it stands for no value; what cannot be is returned as it is."""
    module = type(value).__module__
    if module == "builtins":
        return value
    if module == "numpy":
        return (
            value.tolist() if getattr(value, "dtype", None) is not None and value.dtype.kind in _NUMPY_KINDS else value
        )
    if module.startswith("pandas.") and type(value).__name__ in _MISSING:
        return None
    return value


def is_like_json(value: object) -> bool:
    """Return whether a value is of a type that JSON has: what cannot be read of those is passed over, if nobody declared it."""
    return isinstance(value, str | bool | int | Decimal) or (isinstance(value, float) and value - value == 0)


def has_no_zone(value: object) -> bool:
    """Return whether a value is a time, or a date, of which nobody knows in which zone it is."""
    return isinstance(value, date) and not (isinstance(value, datetime) and value.tzinfo is not None)


def rows_of(table: Any) -> Iterable[Any]:
    """Return a DataFrame of pandas or polars, or an Arrow table or batch, as dicts; whatever else it is, as it is."""
    kind = type(table).__module__.partition(".")[0]
    if kind == "pandas" and type(table).__name__ == "DataFrame":
        return table.astype(object).where(table.notna(), None).to_dict("records")  # type: ignore[no-any-return]
    if kind == "polars" and type(table).__name__ in ("DataFrame", "LazyFrame"):
        table = table.collect() if type(table).__name__ == "LazyFrame" else table
        return table.iter_rows(named=True)  # type: ignore[no-any-return]
    if kind == "pyarrow":
        if not hasattr(table, "to_pylist") or not hasattr(table, "schema"):
            raise BadDefinition(
                f"a {type(table).__name__} is read piece by piece: give some of it, such as dataset.head(10_000)"
            )
        return table.to_pylist()  # type: ignore[no-any-return]
    if isinstance(table, str | bytes | Mapping):
        raise BadDefinition("samples are a list of events, or a DataFrame of pandas or polars, or an Arrow table")
    return table  # type: ignore[no-any-return]


def plain_row(row: Any) -> Any:
    """Return a row with plain values."""
    return {name: plain(value) for name, value in row.items()} if isinstance(row, Mapping) else row
