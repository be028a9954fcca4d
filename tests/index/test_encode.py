"""Events become the codes that the head of compile/table.py describes, from Arrow as from Python."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from tests.compile.reference import codes_of
from tests.strategies.arrow_events import events_to_arrow, fits
from tests.strategies.schemas import NUMBERS
from tests.strategies.worlds import random_event, random_schema, random_subscription, worlds
from tocsin.compile import Column, ConjunctionTable, compile_table, normalise
from tocsin.compile.table_builder import key_array
from tocsin.errors import BadValue, TooLarge
from tocsin.index.coded_batch import CodedBatch
from tocsin.index.coder import Coder
from tocsin.index.encode import EventColumns, EventObjects, EventSource, SegmentEncoder
from tocsin.index.key_column import KeyColumn
from tocsin.language import bind
from tocsin.schema import (
    BooleanDomain,
    EnumeratedDomain,
    Event,
    EventType,
    NumericDomain,
    PointDomain,
    Schema,
    TextDomain,
    TimeDomain,
    TypeAttribute,
)


class Columns:
    """A stand-in for a segment: all that encoding reads of one."""

    def __init__(self, table: ConjunctionTable) -> None:
        self.columns = table.columns


def encoder_of(table: ConjunctionTable) -> SegmentEncoder:
    return SegmentEncoder(Columns(table))


def random_table(random: Random, schema: Schema, count: int) -> ConjunctionTable:
    forms = []
    for id in range(count):
        try:
            forms.append((id, normalise(bind(random_subscription(random, schema), schema))))
        except TooLarge:
            continue
    return compile_table(schema, forms)


def assert_codes(table: ConjunctionTable, batch: CodedBatch, events: list[Event]) -> None:
    """Assert that the batch has the codes of the plain reference."""
    for position, column in enumerate(table.columns):
        for number, event in enumerate(events):
            expected = codes_of(column, event)
            if column.multiple:
                found = batch.multiples.get(position)
                present = found is not None and bool(found.present[number])
                assert present == (expected is not None)
                if found is not None and expected is not None:
                    codes = found.codes[found.offset[number] : found.offset[number + 1]].tolist()
                    known = {code for code in expected if column.derivation != "words" or code % 2}
                    assert codes == sorted(known)
            else:
                assert batch.codes[position, number] == (-1 if expected is None else expected[0])


@given(world=worlds())
def test_admitted_events_are_coded_alike_in_a_batch_and_alone(world: tuple[Schema, Random]) -> None:
    schema, random = world
    table = random_table(random, schema, 8)
    events = [schema.admit(random_event(random, schema)) for _ in range(6)]
    encoder = encoder_of(table)
    assert_codes(table, encoder.encode(EventObjects(events)), events)
    for event in events:
        assert_codes(table, encoder.encode_one(event), [event])


@pytest.mark.parametrize("seed", range(4))
def test_arrow_batches_are_coded_as_their_events_are(seed: int) -> None:
    random = Random(seed)
    schema = random_schema(random)
    table = random_table(random, schema, 80)
    events: list[Event] = []
    while len(events) < 40:
        event = schema.admit(random_event(random, schema))
        if fits(schema, event):
            events.append(event)
    batch = events_to_arrow(events, schema)
    assert_codes(table, encoder_of(table).encode(EventColumns(batch, schema)), events)


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["int", "float", "decimal"])
def test_numbers_of_every_type_are_coded_exactly_against_constants_of_every_type(kind: Any) -> None:
    domain = NumericDomain(name="n", type=kind)
    constants = sorted({domain.key(domain.admit_operand(number)) for number in NUMBERS})
    coder = Coder(Column("a", domain, False, "value", key_array(constants)))
    integers = [number for number in NUMBERS if isinstance(number, int) and -(2**63) <= number < 2**63]
    floats = [number for number in NUMBERS if isinstance(number, float)]
    near = [float(number) for number in NUMBERS if number < 1e300]
    floats += (
        near + [np.nextafter(number, np.inf) for number in near] + [np.nextafter(number, -np.inf) for number in near]
    )

    if kind == "int":  # only whole numbers are of the domain
        floats = [number for number in floats if float(number).is_integer()]

    def expected(number: int | float) -> int:
        return coder.code_of(domain.key(domain.admit_operand(number)))

    ones = np.ones(len(integers), np.bool_)
    coded = coder.code(KeyColumn(np.array(integers, np.int64), ones))
    assert coded.tolist() == [expected(number) for number in integers]
    ones = np.ones(len(floats), np.bool_)
    coded = coder.code(KeyColumn(np.array(floats, np.float64), ones, as_written=kind != "float"))
    assert coded.tolist() == [expected(float(number)) for number in floats]


def test_dense_integer_constants_use_a_table_and_far_values_its_ends() -> None:
    coder = Coder(Column("a", NumericDomain(name="n"), False, "value", np.arange(10, 20)))
    values = np.array([-(2**63), 9, 10, 15, 19, 20, 2**63 - 1], np.int64)
    assert coder.code(KeyColumn(values, np.ones(7, np.bool_))).tolist() == [0, 0, 1, 11, 19, 20, 20]


# --- what other tools leave in Arrow ----------------------------------------------------------------------------------

SCHEMA = Schema(
    {
        "number": NumericDomain(name="number"),
        "money": NumericDomain(name="money", type="decimal"),
        "text": TextDomain(name="text"),
        "colour": EnumeratedDomain(name="colour", values=("red", "green")),
        "flag": BooleanDomain(name="flag"),
        "time": TimeDomain(name="time"),
        "place": PointDomain(name="place"),
    },
    {
        "n": "number",
        "m": "money",
        "t": "text",
        "c": "colour",
        "f": "flag",
        "at": "time",
        "p": "place",
        "s.name": "text",
        "many": "number",
    },
    {
        "e": EventType(
            "e",
            (
                *(TypeAttribute(name, mandatory=False) for name in ("n", "m", "t", "c", "f", "at", "p", "s.name")),
                TypeAttribute("many", mandatory=False, multiple=True),
            ),
        )
    },
)
TEXTS = [
    "n between 3 and 5 and m < 0.3 and m >= 0.1",
    "t = 'mini' or t contains 'old'",
    "c = 'green' and f = true",
    "at < time '2026-11-15T10:00:00Z'",
    "p in box (40, -74, 41, -73)",
    "s.name = 'ann' and many = 7 and many > 8",
]


def small_table() -> ConjunctionTable:
    from tocsin.language import parse

    return compile_table(SCHEMA, [(at, normalise(bind(parse(text), SCHEMA))) for at, text in enumerate(TEXTS)])


def coded(source: EventSource) -> CodedBatch:
    return encoder_of(small_table()).encode(source)


@pytest.mark.parametrize(
    ("name", "array", "raws"),
    [
        ("n", pa.array([3, None, 5], pa.int32()), [3, None, 5]),
        ("n", pa.array([3.5, None, 5.0], pa.float32()), [3.5, None, 5]),
        ("n", pa.array([2**63, 4, None], pa.uint64()), [2**63, 4, None]),
        ("n", pa.array([[3], [], None], pa.list_(pa.int64())), [3, None, None]),
        ("m", pa.array([0.1, 0.3, 0.2]), [0.1, 0.3, 0.2]),
        ("m", pa.array([Decimal("0.10"), None, Decimal("0.29")], pa.decimal128(10, 2)), ["0.10", None, "0.29"]),
        ("t", pa.array(["mini", "an old mini", None]), ["mini", "an old mini", None]),
        ("t", pa.array(["mini", "old", None]).dictionary_encode(), ["mini", "old", None]),
        ("t", pa.array(["mini", "OLD", None], pa.large_string()), ["mini", "OLD", None]),
        ("c", pa.array(["red", None, "green"]), ["red", None, "green"]),
        ("f", pa.array([True, False, None]), [True, False, None]),
        (
            "at",
            pa.array([0, 10**15, None], pa.timestamp("ns", "UTC")),
            ["1970-01-01T00:00Z", "1970-01-12T13:46:40Z", None],
        ),
        (
            "at",
            pa.array(["2026-11-15T10:00:00Z", None, "2026-11-15T10:00:00+01:00"]),
            ["2026-11-15T10:00:00Z", None, "2026-11-15T10:00:00+01:00"],
        ),
        (
            "p",
            pa.array([{"lat": 40.85, "lon": -73.88}, None, {"lat": 0.0, "lon": 0.0}]),
            [[40.85, -73.88], None, [0, 0]],
        ),
        ("p", pa.array([[40.85, -73.88], None, [0.0, 0.0]]), [[40.85, -73.88], None, [0, 0]]),
        ("many", pa.array([[7, 9, 7], [None], []], pa.list_(pa.int64())), [[7, 9], None, None]),
        ("many", pa.array([7, None, 9]), [7, None, 9]),
    ],
)
def test_arrow_types_are_read_as_the_values_they_hold(name: str, array: pa.Array, raws: list[Any]) -> None:
    events = [SCHEMA.admit({name: raw}) for raw in raws]
    batch = coded(EventColumns(pa.RecordBatch.from_arrays([array], names=[name]), SCHEMA))
    assert_codes(small_table(), batch, events)


def test_nested_structs_are_dotted_names() -> None:
    array = pa.array([{"name": "ann"}, {"name": None}, None])
    batch = coded(EventColumns(pa.RecordBatch.from_arrays([array], names=["s"]), SCHEMA))
    assert_codes(small_table(), batch, [SCHEMA.admit({"s": {"name": "ann"}}), SCHEMA.admit({}), SCHEMA.admit({})])


def test_unknown_columns_are_ignored_and_missing_ones_absent() -> None:
    batch = coded(EventColumns(pa.RecordBatch.from_arrays([pa.array([object.__name__])], names=["unknown"]), SCHEMA))
    assert (batch.codes == -1).all()


def test_an_empty_batch_has_no_codes() -> None:
    assert coded(EventColumns(pa.RecordBatch.from_arrays([pa.array([], pa.int64())], names=["n"]), SCHEMA)).size == 0
    assert coded(EventObjects([])).size == 0


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("n", pa.array([1.0, float("nan")]), "finite.*row 1"),
        ("n", pa.array([float("inf")]), "finite"),
        ("c", pa.array(["red", None, "blue"]), "one of red, green.*row 2"),
        ("n", pa.array(["three"]), "a number.*row 0"),
        ("n", pa.array([[1], [1, 2]]), "row 1 has 2"),
        ("at", pa.array([datetime(2026, 1, 1, tzinfo=UTC)]).cast(pa.timestamp("us")), "zone"),
    ],
)
def test_values_that_are_not_of_the_domain_are_refused_with_their_row(name: str, array: pa.Array, message: str) -> None:
    with pytest.raises(BadValue, match=message):
        coded(EventColumns(pa.RecordBatch.from_arrays([array], names=[name]), SCHEMA))


def test_times_before_1970_are_cut_downwards() -> None:
    instant = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC) - timedelta(days=1)
    nanoseconds = pa.array([-(10**9) * 86_400 - 1], pa.timestamp("ns", "UTC"))
    batch = coded(EventColumns(pa.RecordBatch.from_arrays([nanoseconds], names=["at"]), SCHEMA))
    assert_codes(small_table(), batch, [SCHEMA.admit({"at": instant})])
