"""Domains: what each kind admits, as which value, under which key."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.schemas import domains, raw_values
from tocsin.errors import BadDefinition, BadValue
from tocsin.schema import (
    BooleanDomain,
    Domain,
    EnumeratedDomain,
    HierarchicalDomain,
    NumericDomain,
    PointDomain,
    TextDomain,
    TimeDomain,
)
from tocsin.schema.domain import as_number, parse_number

INT = NumericDomain(name="int", type="int")
FLOAT = NumericDomain(name="float")
DECIMAL = NumericDomain(name="decimal", type="decimal")
BOUNDED = NumericDomain(name="bounded", minimum=0, maximum=9.5)
TENTHS = NumericDomain(name="tenths", type="decimal", minimum=0.1, maximum=0.3)
TEXT = TextDomain(name="text")
FOLDED = TextDomain(name="folded", case="folded", max_length=4)
BOOLEAN = BooleanDomain(name="boolean")
TIME = TimeDomain(name="time")
POINT = PointDomain(name="point")
SIZES = EnumeratedDomain(name="sizes", values=("S", "M", "L"), order="total")
ROOMS = HierarchicalDomain(name="rooms", tree={"house": {"bedroom": {}, "dining room": {"corner": {}}}, "garden": {}})


class Zoneless(tzinfo):
    """A zone that does not know its offset."""

    def utcoffset(self, when: datetime | None) -> None:
        return None

    def dst(self, when: datetime | None) -> None:
        return None

    def tzname(self, when: datetime | None) -> None:
        return None


def instant(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


ADMITTED: list[tuple[Domain, Any, Any, Any]] = [
    (INT, 5, 5, 5),
    (INT, 5.0, 5, 5),
    (INT, -0.0, 0, 0),
    (INT, Decimal("5.00"), 5, 5),
    (INT, 2**70, 2**70, 2**70),
    (INT, 1e23, 10**23, 10**23),
    (FLOAT, 0.1, 0.1, 0.1),
    (FLOAT, 3, 3, 3),
    (FLOAT, 2**53 + 1, 2**53 + 1, 2**53 + 1),
    (FLOAT, 1e23, 1e23, 1e23),
    (FLOAT, Decimal("1E+23"), 1e23, 1e23),
    (FLOAT, Decimal("0.1"), 0.1, 0.1),
    (FLOAT, Decimal("0.1000000000000000000000001"), 0.1, 0.1),
    (FLOAT, Decimal("1e-400"), 0, 0),
    (DECIMAL, 0.1, Decimal("0.1"), Decimal("0.1")),
    (DECIMAL, "0.10", Decimal("0.1"), Decimal("0.1")),
    (DECIMAL, "1e3", 1000, 1000),
    (DECIMAL, Decimal("0E+999999"), 0, 0),
    (DECIMAL, Decimal("0.1000000000000000000000001"), Decimal("0.1000000000000000000000001"), None),
    (BOUNDED, 0, 0, 0),
    (BOUNDED, 9.5, 9.5, 9.5),
    (TENTHS, 0.1, Decimal("0.1"), None),
    (TENTHS, "0.3", Decimal("0.3"), None),
    (TEXT, "", "", ""),
    (TEXT, "Straße", "Straße", "Straße"),
    (TEXT, "\x00", "\x00", "\x00"),
    (FOLDED, "ẞa", "ẞa", "ssa"),
    (BOOLEAN, True, True, 1),
    (BOOLEAN, False, False, 0),
    (TIME, "1970-01-01T00:00:00Z", instant(1970, 1, 1), 0),
    (TIME, "1970-01-01T01:00:00.000001+01:00", instant(1970, 1, 1, 0, 0, 0, 1), 1),
    (TIME, "1969-12-31 23:59:59.999999Z", instant(1969, 12, 31, 23, 59, 59, 999999), -1),
    (TIME, datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=-5))), instant(2026, 1, 1, 5), None),
    (POINT, [40, -73.5], (40.0, -73.5), (40.0, -73.5)),
    (POINT, (-0.0, 180), (0.0, 180.0), (0.0, 180.0)),
    (POINT, {"lat": 1, "lon": 2}, (1.0, 2.0), (1.0, 2.0)),
    (POINT, {"latitude": Decimal("1.5"), "longitude": 2}, (1.5, 2.0), (1.5, 2.0)),
    (SIZES, "M", "M", 1),
    (ROOMS, "dining room", "dining room", 2),
]

REFUSED: list[Any] = [
    (INT, 2.5, "2.5 is not a whole number"),
    (INT, "5", "'5' is not a number"),
    (INT, True, "True is not a number"),
    (INT, None, "None is not a number"),
    (INT, 10**500, "reasonable size"),
    pytest.param(INT, 10**5000, "an int too long to show is not", id="5001 digits"),
    (FLOAT, "1.5", "'1.5' is not a number"),
    (FLOAT, math.nan, "nan is not a finite number"),
    (FLOAT, math.inf, "inf is not a finite number"),
    (FLOAT, Decimal("NaN"), "finite number"),
    (FLOAT, Decimal("sNaN"), "finite number"),
    (FLOAT, Decimal("-Infinity"), "finite number"),
    (FLOAT, Decimal("1e999999"), "finite number of reasonable size"),
    (DECIMAL, math.nan, "finite number"),
    (DECIMAL, "NaN", "'NaN' is not a number"),
    (DECIMAL, "1e999999999", "is not a number"),
    (DECIMAL, "twelve", "'twelve' is not a number"),
    (DECIMAL, Decimal("0." + "1" * 900), "reasonable size"),
    (BOUNDED, -1, "-1 is not at least 0"),
    (BOUNDED, 9.500001, "9.500001 is not at most 9.5"),
    (TENTHS, "0.09", "at least 0.1"),
    (TENTHS, "0.3000001", "at most 0.3"),
    (TEXT, 5, "5 is not a text"),
    (TEXT, "\ud800", "half a surrogate pair"),
    (FOLDED, "12345", "at most 4 characters"),
    (BOOLEAN, "true", "'true' is not true or false"),
    (BOOLEAN, 1, "1 is not true or false"),
    (TIME, "2026-11-15T10:00:00", "a time with its zone"),
    (TIME, "2026-11-15", "a time with its zone"),
    (TIME, "yesterday", "a time such as '2026-11-15T10:00:00Z'"),
    (TIME, 1763200000, "a time such as"),
    (TIME, datetime(2026, 1, 1), "a time with its zone"),  # noqa: DTZ001
    (TIME, datetime(2026, 1, 1, tzinfo=Zoneless()), "a time with its zone"),
    (TIME, "0001-01-01T00:00:00+01:00", "between the years 1 and 9999"),
    (POINT, [91, 0], "latitude -90 .. 90"),
    (POINT, [0, 181], "latitude -90 .. 90"),
    (POINT, [math.nan, 0], "a point such as"),
    (POINT, [10**400, 0], "a point such as"),
    (POINT, [True, 0], "a point such as"),
    (POINT, [1, 2, 3], "a point such as"),
    (POINT, {"lat": 1}, "a point such as"),
    (POINT, "1,2", "a point such as"),
    (SIZES, "XL", "'XL' is not one of S, M, L"),
    (SIZES, 1, "1 is not one of S, M, L"),
    (ROOMS, "dinning room", "in the hierarchy 'rooms'; did you mean dining room"),
    (ROOMS, ["house"], "in the hierarchy"),
]


@pytest.mark.parametrize(("domain", "raw", "value", "key"), ADMITTED)
def test_a_domain_admits(domain: Domain, raw: object, value: object, key: object) -> None:
    admitted = domain.admit(raw)
    assert admitted == value
    assert type(admitted) is type(value)
    if key is not None:
        assert domain.key(admitted) == key


@pytest.mark.parametrize(("domain", "raw", "message"), REFUSED)
def test_a_domain_refuses(domain: Domain, raw: object, message: str) -> None:
    with pytest.raises(BadValue, match=message.replace("(", r"\(")) as caught:
        domain.admit(raw)
    assert caught.value.domain == domain.name


@given(st.data())
def test_what_is_dumped_is_admitted_as_the_same_value(data: st.DataObject) -> None:
    domain = data.draw(domains())
    value = domain.admit(data.draw(raw_values(domain)))
    assert domain.admit(domain.dump(value)) == value
    assert domain.admit(value) == value
    assert hash(domain.key(value)) == hash(domain.key(domain.admit(domain.dump(value))))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_the_same_written_as_text_and_in_json(number: float) -> None:
    for domain in (FLOAT, DECIMAL):
        assert domain.admit(domain.from_text(repr(number))) == domain.admit(number)
    assert parse_number(repr(number)) == FLOAT.admit(number)


@given(st.integers() | st.sampled_from([2**53 + 1, 10**23, -(2**64)]))
def test_integers_stay_exact_in_every_numeric_domain(number: int) -> None:
    for domain in (INT, FLOAT, DECIMAL):
        assert domain.admit(number) == domain.admit(Decimal(number)) == number
        assert domain.admit(domain.from_text(str(number))) == number


def test_equal_numbers_of_different_types_have_one_key() -> None:
    for raws in ((0.5, Decimal("0.5")), (5, 5.0, Decimal("5.0")), (2**60, float(2**60))):
        assert len({FLOAT.key(FLOAT.admit(raw)) for raw in raws}) == 1


def test_operands_may_lie_between_the_values_but_must_be_numbers() -> None:
    assert INT.admit_operand(2.5) == 2.5
    assert BOUNDED.admit_operand(-100) == -100
    assert FLOAT.admit_operand(Decimal("0.1000000000000000000000001")) == Decimal("0.1000000000000000000000001")
    with pytest.raises(BadValue):
        DECIMAL.admit_operand("12")


def test_a_decimal_becomes_the_number_that_its_digits_mean() -> None:
    assert as_number(Decimal(12)) == 12
    assert isinstance(as_number(Decimal("12.0")), int)
    assert isinstance(as_number(Decimal("0.1")), float)
    assert as_number(Decimal("123456789012345678.0")) == 123456789012345678
    assert isinstance(as_number(Decimal("0.12345678901234567890")), Decimal)
    assert as_number(Decimal("1e400")) == 10**400


# --- definitions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (NumericDomain, {"minimum": 3, "maximum": 2}, "minimum 3 is above maximum 2"),
        (NumericDomain, {"minimum": math.nan}, "the bound nan is not a finite number"),
        (NumericDomain, {"maximum": math.inf}, "the bound inf is not a finite number"),
        (NumericDomain, {"operators": frozenset({"contains"})}, "numeric domain cannot have the operator contains"),
        (TextDomain, {"max_length": 0}, "max_length 0 leaves no text"),
        (TextDomain, {"operators": frozenset({"kind of"})}, "text domain cannot have the operator kind of"),
        (BooleanDomain, {"operators": frozenset({"<"})}, "boolean domain cannot have the operator <"),
        (EnumeratedDomain, {"values": ()}, "needs at least one value"),
        (EnumeratedDomain, {"values": ("a", "b", "a")}, "listed twice: a"),
        (EnumeratedDomain, {"values": ("a", " b")}, "' b' cannot be a value"),
        (EnumeratedDomain, {"values": ("a", "")}, "'' cannot be a value"),
        (EnumeratedDomain, {"values": ("a\x00",)}, "cannot be a value"),
        (EnumeratedDomain, {"values": ("a", "b"), "less": (("a", "b"),)}, "`less` needs order = 'partial'"),
        (EnumeratedDomain, {"values": ("a",), "order": "partial", "less": (("a", "c"),)}, "'c' in `less` is not one"),
        (EnumeratedDomain, {"values": ("a",), "order": "partial", "less": (("a", "a"),)}, "in a circle through a"),
        (EnumeratedDomain, {"values": ("a",), "operators": frozenset({"<"})}, "cannot have the operator <"),
        (HierarchicalDomain, {"tree": {}}, "needs at least one value"),
        (HierarchicalDomain, {"tree": {"a": {"b": {}}, "c": {"b": {}}}}, "'b' stands in two places"),
        (HierarchicalDomain, {"tree": {"a": ["b"]}}, "a hierarchy is a mapping"),
        (HierarchicalDomain, {"tree": {"a": {1: {}}}}, "a hierarchy is a mapping"),
    ],
)
def test_a_definition_that_contradicts_itself_is_refused(
    kind: type[Domain], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadDefinition, match=message):
        kind(name="x", **fields)


def test_each_kind_says_which_operators_it_has() -> None:
    equality, order = {"=", "!="}, {"<", "<=", ">", ">="}
    assert FLOAT.offered == equality | order
    assert TEXT.offered == equality | order | {"contains", "starts with", "like"}
    assert BOOLEAN.offered == equality
    assert TIME.offered == equality | order | {"within"}
    assert POINT.offered == equality | {"within", "in box", "in polygon"}
    assert SIZES.offered == equality | order
    assert EnumeratedDomain(name="e", values=("a",)).offered == equality
    assert ROOMS.offered == equality | order | {"kind of"}


# --- orders -----------------------------------------------------------------------------------------------------------


def test_a_partial_order_holds_what_follows_and_nothing_else() -> None:
    domain = EnumeratedDomain(
        name="d",
        values=("S", "M", "L", "packet", "freight"),
        order="partial",
        less=(("S", "M"), ("M", "L"), ("packet", "freight")),
    )
    greater = {low: {domain.values[at] for at in domain.above[domain.key(low)]} for low in domain.values}
    assert greater == {"S": {"M", "L"}, "M": {"L"}, "L": set(), "packet": {"freight"}, "freight": set()}


def test_a_total_order_is_that_of_the_list_and_none_has_no_order() -> None:
    assert SIZES.above == (frozenset({1, 2}), frozenset({2}), frozenset())
    assert EnumeratedDomain(name="e", values=("a", "b")).above == (frozenset(), frozenset())


def test_kind_of_is_an_interval_of_preorder_numbers() -> None:
    assert ROOMS.intervals == {
        "house": (0, 3),
        "bedroom": (1, 1),
        "dining room": (2, 3),
        "corner": (3, 3),
        "garden": (4, 4),
    }
    assert ROOMS.ancestors("corner") == ("house", "dining room")
    assert ROOMS.parents == {
        "house": None,
        "bedroom": "house",
        "dining room": "house",
        "corner": "dining room",
        "garden": None,
    }
    assert ROOMS.values[ROOMS.key("garden")] == "garden"


@given(domains(("hierarchical",)))
def test_a_value_lies_below_another_exactly_when_its_number_is_in_the_interval(domain: HierarchicalDomain) -> None:
    for value, (low, high) in domain.intervals.items():
        below = {other for other in domain.values if value in domain.ancestors(other)}
        assert below == {other for other in domain.values if low < domain.key(other) <= high}


def test_equal_hierarchies_have_equal_hashes() -> None:
    left = HierarchicalDomain(name="h", tree={"a": {}, "b": {}})
    right = HierarchicalDomain(name="h", tree={"b": {}, "a": {}})
    assert (left == right) <= (hash(left) == hash(right))
