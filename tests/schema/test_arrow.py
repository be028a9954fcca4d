"""Events as Arrow columns: they read back as they were; nothing is rounded."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.arrow_events import events_to_arrow, fits
from tests.strategies.schemas import raw_events, schemas
from tocsin.errors import EventRejected
from tocsin.schema import EventType, NumericDomain, Schema, TypeAttribute
from tocsin.schema.arrow import events_from_arrow, to_arrow
from tocsin.schema.examples import load_example


def numbers(kind: Any, *, multiple: bool = False, **bounds: Any) -> Schema:
    return Schema(
        {"n": NumericDomain(name="n", type=kind, **bounds)},
        {"x": "n"},
        {"e": EventType("e", (TypeAttribute("x", mandatory=False, multiple=multiple),))},
    )


@given(st.data())
def test_events_read_back_from_arrow_as_they_were(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    events = [schema.admit(raw) for raw in data.draw(st.lists(raw_events(schema), max_size=4))]
    events = [event for event in events if fits(schema, event)]
    batch = events_to_arrow(events, schema)
    batch.validate(full=True)
    assert events_from_arrow(batch, schema) == events


def test_the_columns_of_the_auction_have_the_types_of_their_domains() -> None:
    arrow = to_arrow(load_example("auction"), ["item"])
    words = pa.dictionary(pa.int32(), pa.string())
    assert arrow.field("event_type").type == pa.list_(words)
    assert not arrow.field("event_type").nullable
    assert arrow.field("price").type == pa.string()
    assert arrow.field("year").type == pa.int64()
    assert arrow.field("seller.rating").type == pa.float64()
    assert arrow.field("category").type == words
    assert arrow.field("tags").type == pa.list_(words)
    assert arrow.field("closes").type == pa.timestamp("us", "UTC")
    assert arrow.field("location").type == pa.struct([("lat", pa.float64()), ("lon", pa.float64())])
    assert arrow.field("shipping").type == pa.bool_()
    assert arrow.field("category").metadata == {b"tocsin.domain": b"category", b"tocsin.kind": b"hierarchical"}
    assert arrow.field("price").metadata[b"tocsin.type"] == b"decimal"
    assert arrow.metadata == {b"tocsin.version": b"1", b"tocsin.event_types": b"item"}


@pytest.mark.parametrize("multiple", [False, True])
def test_wide_numbers_read_back_exactly(multiple: bool) -> None:
    wide_float = numbers("float", maximum=2**64, multiple=multiple)
    events = [wide_float.admit({"x": 0.5}), wide_float.admit({})]
    assert events_from_arrow(events_to_arrow(events, wide_float), wide_float) == events
    for schema in (numbers("int", maximum=2**64), numbers("decimal", multiple=multiple)):
        events = [schema.admit({"x": 2**63 + 1}), schema.admit({})]
        assert events_from_arrow(events_to_arrow(events, schema), schema) == events


def test_a_batch_from_another_tool_reads_too() -> None:
    schema = load_example("thesis")
    table = pa.table({"size": [2.0], "material": ["paper"], "event_type": ["painting"], "price": [1], "quantity": [1]})
    (event,) = events_from_arrow(table.to_batches()[0], schema)
    assert event.values["material"] == ("paper",)
    with pytest.raises(EventRejected, match="there is no attribute 'prise'"):
        events_from_arrow(pa.RecordBatch.from_pydict({"event_type": ["car"], "prise": [1]}), schema)


def test_importing_the_schema_leaves_pyarrow_and_lxml_out() -> None:
    code = "import sys, tocsin.schema, tocsin.schema.arrow; print(*{'pyarrow', 'lxml'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
