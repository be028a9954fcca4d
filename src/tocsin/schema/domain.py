"""Domains: named sets of values with their operators (Le Subscribe, section 2.1).

A domain does three things: it says which operators its values have, it admits raw values (from JSON, Arrow, Python) as
canonical ones, and it gives each canonical value a key. XML has text only: `from_text` makes raw values of it. Keys are
what comparisons are made of, everywhere: two values are equal when their keys are, and one is less than another when its
key is, where the domain is totally ordered.

    kind           canonical value           key
    numeric        int, float or Decimal     the number itself (Python compares the three exactly)
    text           str                       the text, or its case-folded form
    enumerated     str                       its position in the declaration
    hierarchical   str                       its preorder number, so that `kind of` is an interval
    boolean        bool                      0 or 1
    time           aware datetime in UTC     microseconds since 1970
    point          (latitude, longitude)     the pair; not ordered
    ip             str, as RFC 5952 has it   its version and bits as a text, so that a network is an interval
    dynamic        any of the plain ones     its type and itself; asked about by readings (readings.py)
    object         Element                   0: objects are not compared, only asked about by scopes

The kinds with a structure of their own are in finite_domains.py; this module has the common part and the plain ones.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, Literal

import msgspec

from tocsin.errors import BadDefinition, BadValue

Number = int | float | Decimal
Point = tuple[float, float]


class Element(dict[str, Any]):
    """One object of an array: its attributes by their whole names (`items.sku`), each with its distinct canonical values.

    An array within it is there twice, as everywhere: as elements, and as the values of these.
    """

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def as_document(self, array: str) -> dict[str, Any]:
        """Return the object as it came, of the array of that name: names within it, a single value without a list."""
        arrays = tuple(f"{name}." for name, values in self.items() if isinstance(values[0], Element))
        return {
            name[len(array) + 1 :]: found[0] if len(found) == 1 else found
            for name, values in self.items()
            if not name.startswith(arrays)
            for found in [[each.as_document(name) if isinstance(each, Element) else each for each in values]]
        }

    def __str__(self) -> str:
        inner = (
            f"{name.rpartition('.')[2]}: {', '.join(map(str, values))}"
            for name, values in self.items()
            if not isinstance(values[0], Element) and name.rpartition(".")[0] not in self
        )
        return f"{{{', '.join(inner)}}}"


Value = bool | int | float | Decimal | str | datetime | Point | Element
Key = int | float | Decimal | str | Point

EQUALITY = frozenset({"=", "!="})
ORDER = frozenset({"<", "<=", ">", ">="})

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
LARGEST_EXPONENT = 400  # of numbers: beyond this, comparing 1e999999999 with an integer would take all memory
LARGEST_DIGITS = 800
LARGEST_INTEGER = 10 ** (LARGEST_EXPONENT + 1)


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
        if self.operators == self.offerable():  # one meaning, one form: definitions are compared
            msgspec.structs.force_setattr(self, "operators", None)

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
        raise NotImplementedError  # abstract: every kind of domain has its own

    def key(self, value: Value) -> Key:
        """Return the key of a canonical value."""
        raise NotImplementedError  # abstract: every kind of domain has its own

    def dump(self, value: Value) -> object:
        """Return the value as JSON has it; admitting that gives the value again."""
        return value

    def from_text(self, text: str) -> object:
        """Return the raw value that a text, such as an XML element's, stands for.

        A text of the wrong form comes back as it is, for `admit` to refuse.
        """
        return text.strip()

    def bad(self, raw: object, right: str) -> BadValue:
        return BadValue(raw, self.name, right)


class NumericDomain(Domain, frozen=True, kw_only=True, tag="numeric", omit_defaults=True):
    """Numbers: `int`, `float` (any number; integers stay exact), or `decimal` (as written: 0.1 is a tenth).

    A text is not a number, except that decimal domains admit "0.10": JSON has no other exact way to write one.
    """

    type: Literal["int", "float", "decimal"] = "float"
    minimum: int | float | None = None
    maximum: int | float | None = None

    possible: ClassVar[frozenset[str]] = EQUALITY | ORDER

    def __post_init__(self) -> None:
        Domain.__post_init__(self)
        for bound in (self.minimum, self.maximum):
            if bound is not None and (isinstance(bound, bool) or not is_finite(bound)):
                raise BadDefinition(f"domain {self.name!r}: the bound {bound} is not a finite number")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise BadDefinition(f"domain {self.name!r}: minimum {self.minimum} is above maximum {self.maximum}")

    def admit(self, raw: object) -> Number:
        if isinstance(raw, str) and self.type == "decimal" and is_number(raw):
            value = self.admit_operand(Decimal(raw))
        else:
            value = self.admit_operand(raw)
        if self.type == "int" and not isinstance(value, int):
            raise self.bad(raw, "a whole number")
        if self.type == "float" and isinstance(value, Decimal):
            value = self._from_float(raw, float(value))
        if self.minimum is not None and value < self._bound(self.minimum):
            raise self.bad(raw, f"at least {self.minimum}")
        if self.maximum is not None and value > self._bound(self.maximum):
            raise self.bad(raw, f"at most {self.maximum}")
        return value

    def _bound(self, bound: int | float) -> Number:
        # As written: a tenth is not below the bound 0.1, though it is below the float.
        return Decimal(repr(bound)) if isinstance(bound, float) and self.type == "decimal" else bound

    def admit_operand(self, raw: object) -> Number:
        """Return the number to compare with: `quantity < 2.5` makes sense though quantity is whole."""
        if isinstance(raw, bool) or not isinstance(raw, int | float | Decimal):
            raise self.bad(raw, "a number")
        if isinstance(raw, float):
            return self._from_float(raw, raw)
        if isinstance(raw, Decimal):
            return self._from_decimal(raw, raw)
        if abs(raw) >= LARGEST_INTEGER:
            raise self.bad(raw, "a finite number of reasonable size")
        return raw

    def _from_float(self, raw: object, number: float) -> Number:
        if not math.isfinite(number):
            raise self.bad(raw, "a finite number")
        if number.is_integer() and abs(number) < 2**53:
            return int(number)  # 5.0 and 5 are one value, so they are written as one
        return number if self.type == "float" else self._from_decimal(raw, Decimal(repr(number)))

    def _from_decimal(self, raw: object, number: Decimal) -> Number:
        if number.is_zero():
            return 0
        if not is_reasonable(number):
            raise self.bad(raw, "a finite number of reasonable size")
        if self.type != "float" and number == number.to_integral_value():
            return int(number)
        if self.type != "decimal":
            return as_number(number)
        return number.normalize() if len(number.as_tuple().digits) <= 28 else number

    def key(self, value: Value) -> Number:
        return value  # type: ignore[return-value]

    def dump(self, value: Value) -> object:
        return str(value) if isinstance(value, Decimal) else value

    def from_text(self, text: str) -> object:
        if not is_number(text.strip()):
            return text
        return Decimal(text.strip())


class TextDomain(Domain, frozen=True, kw_only=True, tag="text", omit_defaults=True):
    """Text, compared by code point, or without regard to case."""

    case: Literal["sensitive", "folded"] = "sensitive"
    max_length: int | None = None

    possible: ClassVar[frozenset[str]] = EQUALITY | ORDER | {"contains", "starts with", "like"}

    def __post_init__(self) -> None:
        Domain.__post_init__(self)
        if self.max_length is not None and self.max_length < 1:
            raise BadDefinition(f"domain {self.name!r}: max_length {self.max_length} leaves no text")

    def admit(self, raw: object) -> str:
        if not isinstance(raw, str):
            raise self.bad(raw, "a text")
        if not is_unicode(raw):
            raise self.bad(raw, "a text: it has half a surrogate pair")
        if self.max_length is not None and len(raw) > self.max_length:
            raise self.bad(raw, f"a text of at most {self.max_length} characters")
        return raw

    def key(self, value: Value) -> str:
        return value.casefold() if self.case == "folded" else value  # type: ignore[union-attr,return-value]

    def from_text(self, text: str) -> object:
        return text


class BooleanDomain(Domain, frozen=True, kw_only=True, tag="boolean", omit_defaults=True):
    """True and false."""

    def admit(self, raw: object) -> bool:
        if not isinstance(raw, bool):
            raise self.bad(raw, "true or false")
        return raw

    def key(self, value: Value) -> int:
        return int(value)  # type: ignore[arg-type]

    def from_text(self, text: str) -> object:
        return {"true": True, "false": False}.get(text.strip().casefold(), text)


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
        if raw.utcoffset() is None:
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

    possible: ClassVar[frozenset[str]] = EQUALITY | {"within", "in box", "in polygon"}

    def admit(self, raw: object) -> Point:
        pair = self._pair(raw)
        if pair is None:
            raise self.bad(raw, 'a point such as [40.85, -73.88] or {"lat": 40.85, "lon": -73.88}')
        latitude, longitude = pair
        if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
            raise self.bad(raw, "a point with latitude -90 .. 90 and longitude -180 .. 180")
        return latitude + 0.0, longitude + 0.0

    def _pair(self, raw: object) -> Point | None:
        if isinstance(raw, Mapping) and len(raw) == 2:
            raw = (raw.get("lat", raw.get("latitude")), raw.get("lon", raw.get("longitude")))
        if isinstance(raw, list | tuple) and len(raw) == 2 and all(map(is_finite, raw)):
            return float(raw[0]), float(raw[1])
        return None

    def key(self, value: Value) -> Point:
        return value  # type: ignore[return-value]

    def dump(self, value: Value) -> object:
        return list(value)  # type: ignore[arg-type]

    def from_text(self, text: str) -> object:
        parts = [part.strip() for part in text.split(",")]
        return [float(part) for part in parts] if all(map(is_number, parts)) else text


class IpDomain(Domain, frozen=True, kw_only=True, tag="ip", omit_defaults=True):
    """Addresses of IPv4 and IPv6, in the short form: '10.1.2.3', '2001:db8::1'. All of IPv4 come before those of IPv6."""

    possible: ClassVar[frozenset[str]] = EQUALITY | ORDER | {"in network"}

    def admit(self, raw: object) -> str:
        if isinstance(raw, str | ipaddress.IPv4Address | ipaddress.IPv6Address) and "%" not in str(raw):
            try:
                return str(ipaddress.ip_address(raw))
            except ValueError:
                pass
        raise self.bad(raw, "an address such as '10.1.2.3' or '2001:db8::1'")

    def key(self, value: Value) -> str:
        return _address_key(ipaddress.ip_address(value))  # type: ignore[arg-type]

    def from_key(self, key: str) -> str:
        """Return the address that has this key."""
        bits = int(key[1:], 16)
        return str(ipaddress.IPv4Address(bits) if key[0] == "4" else ipaddress.IPv6Address(bits))

    def network_keys(self, network: str) -> tuple[str, str]:
        """Return the keys of the first and the last address of a network."""
        found = ipaddress.ip_network(network)
        return _address_key(found[0]), _address_key(found[-1])


def _address_key(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    return f"{address.version}{int(address):0{address.max_prefixlen // 4}x}"


class DynamicDomain(Domain, frozen=True, kw_only=True, tag="dynamic", omit_defaults=True):
    """Texts, numbers, truth values and times, as they come: for columns of mixed types. Asked about as one of these."""

    possible: ClassVar[frozenset[str]] = frozenset()

    def admit(self, raw: object) -> Value:
        if isinstance(raw, str):
            return _ANY_TEXT.admit(raw)
        if isinstance(raw, bool):
            return raw
        if isinstance(raw, datetime):
            return _ANY_TIME.admit(raw)
        if isinstance(raw, int | float | Decimal):
            return _ANY_NUMBER.admit(raw)
        raise self.bad(raw, "a text, a number, true, false or a time")

    def key(self, value: Value) -> Key:
        return type(value).__name__, value  # type: ignore[return-value]

    def dump(self, value: Value) -> object:
        return _ANY_TIME.dump(value) if isinstance(value, datetime) else _ANY_NUMBER.dump(value)

    def from_text(self, text: str) -> object:
        return text


_ANY_TEXT, _ANY_NUMBER, _ANY_TIME = TextDomain(name="text"), NumericDomain(name="number"), TimeDomain(name="time")


class ObjectDomain(Domain, frozen=True, kw_only=True, tag="object", omit_defaults=True):
    """Objects: what an array of objects has for elements. An object's attributes are those of the schema below its name.

    `items` of this domain and `items.sku` of another: elements of `items` have a `sku`. Scopes ask about elements; `items.sku`
    by itself is all values there are.
    """

    possible: ClassVar[frozenset[str]] = frozenset()

    def admit(self, raw: object) -> Element:
        if not isinstance(raw, Element):  # event.py makes them, since it knows their attributes
            raise self.bad(raw, "an object")
        return raw

    def key(self, value: Value) -> int:
        del value
        return 0


def check_member(domain: Domain, value: str) -> None:
    """Raise BadDefinition unless `value` can be one of a domain's listed values, in every form of a schema."""
    if not value or value != value.strip() or _NOT_IN_XML.search(value):
        raise BadDefinition(
            f"domain {domain.name!r}: {value!r} cannot be a value: it needs at least one character, "
            "no space at its ends, and no control characters"
        )


def is_finite(raw: object) -> bool:
    """Return whether `raw` is a number, neither infinite nor NaN, that a float can approximate."""
    if isinstance(raw, bool) or not isinstance(raw, int | float | Decimal):
        return False
    try:
        return math.isfinite(raw)
    except OverflowError:
        return False


def is_unicode(text: str) -> bool:
    """Return whether the text has no half of a surrogate pair, which no file and no network can carry."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def microseconds(instant: datetime) -> int:
    """Return the microseconds from 1970-01-01T00:00Z to an aware datetime, exactly."""
    return (instant - _EPOCH) // _MICROSECOND


def instant(us: int) -> datetime:
    """Return the time that is so many microseconds after 1970-01-01T00:00Z."""
    return _EPOCH + timedelta(microseconds=int(us))


def is_number(text: str) -> bool:
    """Return whether the text is one decimal number of a reasonable size."""
    if len(text) > 400:
        return False
    try:
        number = Decimal(text)
    except InvalidOperation:
        return False
    return is_reasonable(number)


def is_reasonable(number: Decimal) -> bool:
    """Return whether the number is finite, and short enough to be compared and written."""
    return (
        number.is_finite()
        and abs(number.adjusted()) <= LARGEST_EXPONENT
        and len(number.as_tuple().digits) <= LARGEST_DIGITS
    )


def parse_number(text: str) -> Number:
    """Return the number that a text means, as `as_number` has it."""
    return as_number(Decimal(text))


def as_number(decimal: Decimal) -> Number:
    """Return an int, a float where that is exact to the digits written, else the Decimal.

    0.1 and 1e23 become the floats that JSON's 0.1 and 1e23 become, so that they are equal;
    0.1000000000000000000000001 stays exact, and so does every number written as an integer.
    """
    if decimal.as_tuple().exponent == 0:
        return int(decimal)
    approximate = float(decimal)
    if Decimal(repr(approximate)) == decimal:
        return int(approximate) if approximate.is_integer() and abs(approximate) < 2**53 else approximate
    return int(decimal) if decimal == decimal.to_integral_value() else decimal
