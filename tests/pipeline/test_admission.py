"""Admission by columns gives what admission by rows does, whatever types the columns have."""

import json
import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tests.strategies.worlds import random_event, random_schema
from tocsin.errors import EventRejected
from tocsin.pipeline.admission import Admission, admit_batch
from tocsin.pipeline.plan import Layout
from tocsin.schema import Event, EventType, NumericDomain, PointDomain, Schema, TextDomain, TimeDomain, TypeAttribute
from tocsin.schema.arrow import events_from_arrow


def outcome(admission: Admission, schema: Schema, row: int) -> Event | str:
    """Return the event of a row, or why it is none."""
    if row in admission.rejected:
        return str(admission.rejected[row])
    if row in admission.events:
        return admission.events[row]
    at = admission.rows.tolist().index(row)
    (event,) = events_from_arrow(admission.columns.slice(at, 1), schema)
    return event


def expected(schema: Schema, raw: dict[str, Any]) -> Event | str:
    try:
        return schema.admit(raw)
    except EventRejected as error:
        return str(error)


def column_of(random_: random.Random, values: list[Any]) -> pa.Array:
    """Return a column that holds the values that Arrow can hold together; the others are left out."""
    kept: list[Any] = []
    for value in values:
        try:
            pa.array([*kept, value])
            kept.append(value)
        except (pa.ArrowTypeError, ValueError, OverflowError):
            kept.append(None)
    return pa.array(kept)


@pytest.mark.parametrize("seed", range(30))
def test_columns_are_admitted_as_rows_are(seed: int) -> None:
    rng = random.Random(seed)
    schema = random_schema(rng)
    raws = [random_event(rng, schema) for _ in range(40)]
    for raw in raws:  # some that are wrong
        if rng.random() < 0.2:
            raw.pop(rng.choice(list(raw)))
        if rng.random() < 0.2:
            raw[rng.choice([*schema.attributes, "nobody"])] = rng.choice(["x", 1, 2.5, float("nan"), True, None, []])
    names = sorted({name for raw in raws for name in raw})
    single = {name for name in names if rng.random() < 0.5}  # scalar columns where a value stands alone
    values = {name: [_scalar(raw.get(name)) if name in single else raw.get(name) for raw in raws] for name in names}
    batch = pa.RecordBatch.from_arrays([column_of(rng, values[name]) for name in names], names=names)
    admission = admit_batch(batch, schema, Layout(plain=tuple(names)))
    decided = sorted([*admission.rows.tolist(), *admission.events, *admission.rejected])
    assert decided == list(range(len(raws)))
    for row, raw in enumerate(batch.to_pylist()):
        assert outcome(admission, schema, row) == expected(schema, raw)


@pytest.mark.parametrize("seed", range(30))
def test_finding_11_json_and_maps_are_admitted_by_columns_as_rows_are(seed: int) -> None:
    rng = random.Random(seed)
    schema = random_schema(rng)
    odd = ["x", 1, 2.5, 2**70, 2**53 + 1, True, None, [], {}, [None], {"a": {"b": 1}}, "2026-02-30T00:00:00Z", ["x", 1]]
    raws = [random_event(rng, schema) for _ in range(40)]
    for raw in raws:
        if rng.random() < 0.2:
            raw.pop(rng.choice(list(raw)))
        if rng.random() < 0.2:
            raw[rng.choice([*schema.attributes, "nobody"])] = rng.choice(odd)
    texts: list[str | None] = [json.dumps(raw, default=_written) for raw in raws]
    texts[7:7] = [None, "{", '{"a":1}{"b":2}', "[1]", '{"event": {"price": 1}}', '"\\ud800"']
    batch = pa.RecordBatch.from_pydict({"body": pa.array(texts, pa.string())})
    admission = admit_batch(batch, schema, Layout(whole="body"))
    assert sorted([*admission.rows.tolist(), *admission.events, *admission.rejected]) == list(range(len(texts)))
    for row, text in enumerate(texts):
        try:
            wanted = expected(schema, msgspec.json.decode(text or "null"))
        except msgspec.DecodeError:
            assert row in admission.rejected
        else:
            found = outcome(admission, schema, row)
            assert found == wanted or (text is None and row in admission.rejected)
    single = rng.choice(list(schema.attributes))
    held = pa.array([[(single, str(raw.get(single)))] for raw in raws], pa.map_(pa.string(), pa.string()))
    mapped = admit_batch(pa.RecordBatch.from_pydict({"x": held.slice(3)}), schema, Layout(plain=("x",)))
    for row, value in enumerate(held.slice(3).to_pylist()):
        assert outcome(mapped, schema, row) == expected(schema, {"x": dict(value)})


def _written(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def test_finding_11_json_maps_and_written_times_go_the_columnar_way(shop: Schema) -> None:
    raws: list[dict[str, Any]] = [
        {"price": 3, "item": {"title": "chair", "tags": ["oak", "old"]}, "at": "2026-11-15T10:00:00.5+01:00"},
        {"price": 2.5, "item": {"tags": "one"}, "where": {"lat": 1.0, "lon": 2.0}, "stock": 7},
        {"item": {"title": "table"}, "total": 12, "at": "2026-11-15 10:00:00Z"},
        {},
    ]
    texts = [json.dumps(raw) for raw in raws]
    for column in (pa.array(texts), pa.array([text.encode() for text in texts])):
        admission = admit_batch(pa.RecordBatch.from_pydict({"body": column}), shop, Layout(whole="body"))
        assert admission.rows.tolist() == [0, 1, 2, 3]
        assert events_from_arrow(admission.columns, shop) == [shop.admit(raw) for raw in raws]
    items = pa.array([json.dumps({"title": "chair"}), None])
    embedded = admit_batch(pa.RecordBatch.from_pydict({"item": items}), shop, Layout(json=("item",)))
    assert events_from_arrow(embedded.columns, shop) == [shop.admit({"item": {"title": "chair"}}), shop.admit({})]
    titles = pa.array([[("title", "chair")], None], pa.map_(pa.string(), pa.string()))
    mapped = admit_batch(pa.RecordBatch.from_pydict({"item": titles}), shop, Layout(plain=("item",)))
    assert mapped.rows.tolist() == [0, 1]


def _scalar(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


@pytest.fixture
def shop() -> Schema:
    domains = [
        NumericDomain(name="number", minimum=0),
        NumericDomain(name="money", type="decimal"),
        NumericDomain(name="count", type="int"),
        TextDomain(name="text"),
        TimeDomain(name="time"),
        PointDomain(name="place"),
    ]
    attributes = {
        "price": "number",
        "total": "money",
        "stock": "count",
        "item.title": "text",
        "item.tags": "text",
        "at": "time",
        "where": "place",
    }
    entries = tuple(TypeAttribute(name, mandatory=False, multiple=name == "item.tags") for name in attributes)
    return Schema({domain.name: domain for domain in domains}, attributes, {"offer": EventType("offer", entries)})


def test_plain_columns_go_the_columnar_way(shop: Schema) -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "price": pa.array([1, None, 3], pa.int32()),
            "total": pa.array([Decimal("0.10"), None, Decimal("1.00")], pa.decimal128(10, 2)),
            "stock": pa.array([1.0, 2.0, None]),
            "item": pa.array([{"title": "chair", "tags": ["old", "oak"]}, {"title": None, "tags": []}, None]),
            "at": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 3, pa.timestamp("ms", "Europe/Paris")),
            "where": pa.array([{"lat": 1.0, "lon": 2.0}, None, {"lat": -0.0, "lon": 180.0}]),
        }
    )
    admission = admit_batch(batch, shop, Layout(plain=("price", "total", "stock", "item", "at", "where")))
    assert admission.rows.tolist() == [0, 1, 2]
    assert events_from_arrow(admission.columns, shop) == [shop.admit(raw) for raw in batch.to_pylist()]


def test_rows_that_columns_cannot_decide_go_the_exact_way(shop: Schema) -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "price": pa.array([1.5, -1.0, float("nan"), 2.0]),
            "total": pa.array(["0.10", None, None, None]),
        }
    )
    admission = admit_batch(batch, shop, Layout(plain=("price", "total")))
    assert admission.rows.tolist() == [3]
    assert admission.events == {0: shop.admit({"price": 1.5, "total": "0.10"})}
    assert sorted(admission.rejected) == [1, 2]
    assert "at least 0" in str(admission.rejected[1])


def test_maps_and_embedded_json_are_read(shop: Schema) -> None:
    titles = pa.array([[("title", "chair")], None], pa.map_(pa.string(), pa.string()))
    mapped = admit_batch(pa.RecordBatch.from_pydict({"item": titles}), shop, Layout(plain=("item",)))
    assert outcome(mapped, shop, 0) == shop.admit({"item": {"title": "chair"}})
    texts = pa.RecordBatch.from_pydict({"item": ['{"title": "chair", "tags": ["a"]}', "{", None]})
    embedded = admit_batch(texts, shop, Layout(json=("item",)))
    assert outcome(embedded, shop, 0) == shop.admit({"item": {"title": "chair", "tags": ["a"]}})
    assert "not JSON" in str(embedded.rejected[1])
    assert embedded.rows.tolist() == [0, 2]


def test_whole_events_as_json_are_read(shop: Schema) -> None:
    texts = [json.dumps({"price": 3}), "[1]", None, "nonsense"]
    admission = admit_batch(pa.RecordBatch.from_pydict({"value": texts}), shop, Layout(whole="value"))
    assert outcome(admission, shop, 0) == shop.admit({"price": 3})
    assert sorted(admission.rejected) == [1, 2, 3]
