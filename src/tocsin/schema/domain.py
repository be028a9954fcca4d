"""Domains: named sets of values with their operators (Le Subscribe, section 2.1).

A domain does three things: it says which operators its values have, it admits raw values (from JSON, XML, Arrow) as
canonical ones, and it gives each canonical value a key. Keys are what comparisons are made of, everywhere: two values
are equal when their keys are, and one is less than another when its key is, where the domain is totally ordered.

    kind           canonical value           key
    numeric        int, float or Decimal     the number itself (Python compares the three exactly)
    text           str                       the text, or its case-folded form
    enumerated     str                       its position in the declaration
    hierarchical   str                       its preorder number, so that `kind of` is an interval
    boolean        bool                      0 or 1
    time           aware datetime in UTC     microseconds since 1970
    point          (latitude, longitude)     the pair; not ordered

The kinds with a structure of their own are in hierarchy.py and enumeration.py; this module has the common part and
the plain ones.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, Literal

import msgspec

from tocsin.errors import BadDefinition, BadValue

Number = int | float | Decimal
Point = tuple[float, float]
Value = bool | int | float | Decimal | str | datetime | Point
Key = int | float | Decimal | str | Point

EQUALITY = frozenset({"=", "!="})
ORDER = frozenset({"<", "<=", ">", ">="})

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
LARGEST_EXPONENT = 400  # of decimals: beyond this, comparing 1e999999999 with an integer would take all memory


class Domain(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """What all kinds of domain have in common."""

    name: str
    operators: frozenset[str] | None = None  # None: all that the kind allows

    possible: ClassVar[frozenset[str]] = EQUALITY

    def __post_init__(self) -> None:
        if self.operators is not None and (wrong := self.operators - self.offerable()):
            listed = ", ".join(sorted(wrong))
            raise BadDefinition(
                f"domain {self.name!r}: a {self.kind} domain cannot have the operator {listed}; "
                f"it may have {', '.join(sorted(self.offerable()))}"
            )

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)

    def offerable(self) -> frozenset[str]:
        """Return the operators that a domain like this one may offer."""
        return self.possible

    @property
    def offered(self) -> frozenset[str]:
        """The operators that predicates on this domain may use."""
        return self.offerable() if self.operators is None else self.operators

    def admit(self, raw: object) -> Value:
        """Return the canonical value of `raw`; raises BadValue."""
        raise NotImplementedError

    def key(self, value: Value) -> Key:
        """Return the key of a canonical value."""
        raise NotImplementedError

    def dump(self, value: Value) -> object:
        """Return the value as JSON has it."""
        return value

    def bad(self, raw: object, right: str) -> BadValue:
        return BadValue(raw, self.name, right)


class NumericDomain(Domain, frozen=True, kw_only=True, tag="numeric", omit_defaults=True):
    """Numbers: `int`, `float` (any number; integers stay exact), or `decimal` (as written: 0.1 is a tenth)."""

    type: Literal["int", "float", "decimal"] = "float"
    minimum: int | float | None = None
    maximum: int | float | None = None

    possible: ClassVar[frozenset[str]] = EQUALITY | ORDER

    def __post_init__(self) -> None:
        Domain.__post_init__(self)
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise BadDefinition(f"domain {self.name!r}: minimum {self.minimum} is above maximum {self.maximum}")

    def admit(self, raw: object) -> Number:
        value = self.admit_operand(raw)
        if self.type == "int" and not isinstance(value, int):
            raise self.bad(raw, "a whole number")
        if self.minimum is not None and value < self.minimum:
            raise self.bad(raw, f"at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            raise self.bad(raw, f"at most {self.maximum}")
        return value

    def admit_operand(self, raw: object) -> Number:
        """Return the number to compare with: `quantity < 2.5` makes sense though quantity is whole."""
        number = raw if isinstance(raw, int | float | Decimal) and not isinstance(raw, bool) else self._parse(raw)
        if isinstance(number, float):
            return self._from_float(raw, number)
        if isinstance(number, Decimal):
            return self._from_decimal(raw, number)
        return number

    def _parse(self, raw: object) -> Number:
        if isinstance(raw, str):
            return parse_number(raw) if is_number(raw) else self._refuse(raw)
        return self._refuse(raw)

    def _refuse(self, raw: object) -> Number:
        raise self.bad(raw, "a number")

    def _from_float(self, raw: object, number: float) -> Number:
        if not math.isfinite(number):
            raise self.bad(raw, "a finite number")
        if number.is_integer() and abs(number) < 2**53:
            return int(number)  # 5.0 and 5 are one value, so they are written as one
        return number if self.type != "decimal" else Decimal(repr(number)).normalize()

    def _from_decimal(self, raw: object, number: Decimal) -> Number:
        if not number.is_finite() or abs(number.adjusted()) > LARGEST_EXPONENT:
            raise self.bad(raw, "a finite number of reasonable size")
        if number == number.to_integral_value():
            return int(number)
        if self.type != "decimal" and Decimal(repr(float(number))) == number:
            return float(number)
        return number.normalize() if len(number.as_tuple().digits) <= 28 else number

    def key(self, value: Value) -> Number:
        return value  # type: ignore[return-value]

    def dump(self, value: Value) -> object:
        return str(value) if isinstance(value, Decimal) else value


class TextDomain(Domain, frozen=True, kw_only=True, tag="text", omit_defaults=True):
    """Text, compared by code point, or without regard to case."""

    case: Literal["sensitive", "folded"] = "sensitive"
    max_length: int | None = None

    possible: ClassVar[frozenset[str]] = EQUALITY | ORDER | {"contains", "starts with", "like"}

    def admit(self, raw: object) -> str:
        if not isinstance(raw, str):
            raise self.bad(raw, "a text")
        if self.max_length is not None and len(raw) > self.max_length:
            raise self.bad(raw, f"a text of at most {self.max_length} characters")
        return raw

    def key(self, value: Value) -> str:
        return value.casefold() if self.case == "folded" else value  # type: ignore[union-attr,return-value]


class BooleanDomain(Domain, frozen=True, kw_only=True, tag="boolean", omit_defaults=True):
    """True and false."""

    def admit(self, raw: object) -> bool:
        if isinstance(raw, bool):
            return raw
        if isinstance(raw, str) and raw.casefold() in ("true", "false"):
            return raw.casefold() == "true"
        raise self.bad(raw, "true or false")

    def key(self, value: Value) -> int:
        return int(value)  # type: ignore[arg-type]


class TimeDomain(Domain, frozen=True, kw_only=True, tag="time", omit_defaults=True):
    """Instants, with microseconds. A text needs its zone: '2026-11-15T10:00:00Z', '2026-11-15 10:00+01:00'."""

    possible: ClassVar[frozenset[str]] = EQUALITY | ORDER | {"within"}

    def admit(self, raw: object) -> datetime:
        if isinstance(raw, str):
            try:
                raw = datetime.fromisoformat(raw)
            except ValueError:
                raise self.bad(raw, "a time such as '2026-11-15T10:00:00Z'") from None
        if not isinstance(raw, datetime):
            raise self.bad(raw, "a time such as '2026-11-15T10:00:00Z'")
        if raw.tzinfo is None:
            raise self.bad(raw.isoformat(), "a time with its zone, such as '2026-11-15T10:00:00Z'")
        try:
            return raw.astimezone(UTC)
        except OverflowError:
            raise self.bad(raw.isoformat(), "a time between the years 1 and 9999 in UTC") from None

    def key(self, value: Value) -> int:
        return microseconds(value)  # type: ignore[arg-type]

    def dump(self, value: Value) -> object:
        return value.isoformat().replace("+00:00", "Z")  # type: ignore[union-attr]


class PointDomain(Domain, frozen=True, kw_only=True, tag="point", omit_defaults=True):
    """Places on Earth: (latitude, longitude) in degrees."""

    possible: ClassVar[frozenset[str]] = EQUALITY | {"within", "in box"}

    def admit(self, raw: object) -> Point:
        pair = self._pair(raw)
        if pair is None:
            raise self.bad(raw, 'a point such as [40.85, -73.88] or {"lat": 40.85, "lon": -73.88}')
        latitude, longitude = pair
        if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
            raise self.bad(raw, "a point with latitude -90 .. 90 and longitude -180 .. 180")
        return latitude + 0.0, longitude + 0.0

    def _pair(self, raw: object) -> Point | None:
        if isinstance(raw, dict) and len(raw) == 2:
            raw = (raw.get("lat", raw.get("latitude")), raw.get("lon", raw.get("longitude")))
        elif isinstance(raw, str):
            raw = [float(part) if is_number(part) else None for part in raw.split(",")]
        if isinstance(raw, list | tuple) and len(raw) == 2 and all(map(_is_plain_number, raw)):
            return float(raw[0]), float(raw[1])
        return None

    def key(self, value: Value) -> Point:
        return value  # type: ignore[return-value]

    def dump(self, value: Value) -> object:
        return list(value)  # type: ignore[arg-type]


def _is_plain_number(raw: Any) -> bool:
    return isinstance(raw, int | float) and not isinstance(raw, bool) and math.isfinite(raw)


def microseconds(instant: datetime) -> int:
    """Return the microseconds from 1970-01-01T00:00Z to an aware datetime, exactly."""
    return (instant - _EPOCH) // _MICROSECOND


def is_number(text: str) -> bool:
    """Return whether the text is one decimal number of a reasonable size."""
    if len(text) > 400:
        return False
    try:
        number = Decimal(text)
    except InvalidOperation:
        return False
    return number.is_finite() and abs(number.adjusted()) <= LARGEST_EXPONENT


def parse_number(text: str) -> Number:
    """Return the number that a text means: an int, a float where that is exact to the digits written, else a Decimal.

    0.1 becomes the float that JSON's 0.1 becomes, so that the two are equal; 0.1000000000000000000000001 stays exact.
    """
    decimal = Decimal(text)
    if decimal == decimal.to_integral_value():
        return int(decimal)
    approximate = float(decimal)
    return approximate if Decimal(repr(approximate)) == decimal else decimal
