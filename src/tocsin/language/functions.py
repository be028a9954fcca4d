"""The functions that every formula may call: parts of dates, bits, and the time of an event's arrival.

    hour(closes, 'Europe/Berlin') >= 18        weekday(now()) <= 5        bit_and(flags, 4) = 4
    closes < now() + 2 days                    opened >= today('Europe/Berlin')

`now()` is when the event arrived: one reading of the clock for each event, which stays with it, so that who matches it again
gets the same answers. `today()` is the midnight before, which the day began with. A day is that of a time zone, UTC where none is named; the zones and
their history are those of the IANA database. bind.py looks functions up here; `now()` becomes an attribute of that name
(schema/event.py), and `today(…)` is `start_of_day(now(), …)`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from tocsin.errors import BindError, FormulaFailed, did_you_mean, nearest
from tocsin.language.formula import INT, TIME, Function
from tocsin.schema import Domain, Number, NumericDomain, TextDomain, Value

ZONE = TextDomain(name="time zone")
WHOLE = NumericDomain(name="whole number", type="decimal")  # of any type, as it is
_MOST_BITS = 1_024


@functools.lru_cache(maxsize=1_000)
def zone_of(name: str) -> tzinfo:
    """Return the time zone of that name; raises BindError."""
    if name == "UTC":
        return UTC
    if name not in available_timezones():
        hint = did_you_mean(nearest(name, sorted(available_timezones()))) or "; one is written like 'Europe/Berlin'"
        raise BindError(f"there is no time zone {name!r}{hint}")
    return ZoneInfo(name)


def _local(instant: datetime, zone: str) -> datetime:
    try:
        return instant.astimezone(zone_of(zone))
    except OverflowError:
        raise FormulaFailed("the time is not between the years 1 and 9999 in its zone") from None


def start_of_day(instant: datetime, zone: str) -> datetime:
    """Return the first moment of the day that an instant is of; of a midnight that there is twice, the first."""
    try:
        midnight = _local(instant, zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        return midnight.astimezone(UTC)
    except OverflowError:
        raise FormulaFailed("the time is not between the years 1 and 9999 in its zone") from None


_PARTS: Mapping[str, Callable[[datetime], int]] = {
    "year": lambda local: local.year,
    "quarter": lambda local: (local.month + 2) // 3,
    "month": lambda local: local.month,
    "week": lambda local: local.isocalendar().week,
    "day": lambda local: local.day,
    "weekday": lambda local: local.isoweekday(),
    "hour": lambda local: local.hour,
    "minute": lambda local: local.minute,
    "second": lambda local: local.second,
}


def _whole(number: Number) -> int | None:
    """Return a number as an integer, None where it is none, or has more bits than there is room for."""
    whole = int(number)
    return whole if whole == number and whole.bit_length() <= _MOST_BITS else None


def _bits(op: Callable[[int, int], int]) -> Callable[[Number, Number], int | None]:
    def of(left: Number, right: Number) -> int | None:
        a, b = _whole(left), _whole(right)
        return None if a is None or b is None else op(a, b)

    return of


def _shifted(op: Callable[[int, int], int]) -> Callable[[Number, Number], int | None]:
    return _bits(lambda bits, by: op(bits, by) if 0 <= by <= _MOST_BITS // 2 else _no_shift(by))


def _no_shift(by: int) -> int:
    raise FormulaFailed(f"bits are shifted by 0 to {_MOST_BITS // 2} places, not by {by}")


def _function(
    name: str, parameters: tuple[Domain, ...], returns: Domain, scalar: Callable[..., Value | None]
) -> Function:
    return Function(name, parameters, returns, scalar, lasting=True)


def _part(name: str, part: Callable[[datetime], int]) -> list[Function]:
    return [
        _function(name, (TIME,), INT, part),
        _function(name, (TIME, ZONE), INT, lambda instant, zone: part(_local(instant, zone))),
    ]


# By name and number of arguments.
FUNCTIONS: Mapping[tuple[str, int], Function] = {
    (function.name, len(function.parameters)): function
    for function in (
        *(function for name, part in _PARTS.items() for function in _part(name, part)),
        _function("start_of_day", (TIME,), TIME, lambda instant: start_of_day(instant, "UTC")),
        _function("start_of_day", (TIME, ZONE), TIME, start_of_day),
        _function("bit_and", (WHOLE, WHOLE), INT, _bits(int.__and__)),
        _function("bit_or", (WHOLE, WHOLE), INT, _bits(int.__or__)),
        _function("bit_xor", (WHOLE, WHOLE), INT, _bits(int.__xor__)),
        _function("shift_left", (WHOLE, WHOLE), INT, _shifted(int.__lshift__)),
        _function("shift_right", (WHOLE, WHOLE), INT, _shifted(int.__rshift__)),
    )
}
NAMES = frozenset(name for name, _ in FUNCTIONS)
