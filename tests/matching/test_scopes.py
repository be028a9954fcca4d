"""Scopes over arrays of objects: in every form, by every way of matching, and how they are found."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from tests.strategies.arrow_events import events_to_arrow
from tocsin import Matcher
from tocsin.compile.analysis import warnings_of
from tocsin.compile.normalise import normalise
from tocsin.errors import BindError, EventRejected
from tocsin.index.index_folder import IndexFolder
from tocsin.language import attributes as a
from tocsin.language import bind, evaluate, from_bulk, from_json, parse, render, subscription, to_bulk, to_json
from tocsin.language.documents import from_document
from tocsin.pipeline.admission import admit_batch
from tocsin.pipeline.plan import Layout
from tocsin.schema import Schema, loads
from tocsin.schema.arrow import events_from_arrow

RAW = [
    {"id": 1, "limit": 3, "items": [{"sku": "A", "qty": 1}, {"sku": "B", "qty": 5, "tags": ["x", "y"]}]},
    {"id": 2, "items": {"sku": "A", "qty": 4}},
    {"id": 3, "orders": [{"no": 4, "lines": [{"n": 1}, {"n": 2}]}, {"no": 5, "lines": [{"n": 3}, None]}]},
    {"id": 4, "items": [], "orders": [{}]},
    {"id": 5, "items": [{"sku": "C", "qty": 2**60}], "orders": [{"no": 1, "lines": [{"n": 1}]}]},
]
SCHEMA = Schema.infer(RAW, mandatory=False)
EVENTS = [SCHEMA.admit(raw) for raw in RAW]
MATCHING = {
    "some items (sku = 'A' and qty > 3)": {2},
    "some items (sku = 'B' and qty > 3)": {1},
    "items.sku = 'A' and items.qty > 3": {1, 2},
    "every items (qty >= 4)": {2, 5},
    "no items (sku = 'C')": {1, 2},
    "not some items (sku = 'A')": {5},
    "not every items (qty < 3)": {1, 2, 5},
    "not no items (tags contains text 'x')": {1},
    "items is absent or no items (sku = 'C')": {1, 2, 3, 4},
    "some items (sku = 'A' and tags is absent)": {1, 2},
    "some items (qty > limit)": {1},
    "some items (qty * 2 > limit * 3 and tags is present)": {1},
    "some items (sku like 'A%' or sku matches '^C')": {1, 2, 5},
    "some orders (no = 4 and some lines (n = 3))": set(),
    "some orders (no = 5 and some lines (n = 3))": {3},
    "some orders (every lines (n < no))": {3},
    "some orders (no lines (n > 1))": {5},
    "some orders (lines is absent)": {4},
    "some orders.lines (n = 3)": {3},
    "some orders (id = 3 and no = 5)": {3},
    "id = 9 or some items (sku = 'C') and not some items (qty < 9)": {5},
}


@pytest.mark.parametrize("text", MATCHING)
def test_a_scope_means_the_same_in_every_form(text: str) -> None:
    bound = bind(text, SCHEMA)
    assert {1 + at for at, event in enumerate(EVENTS) if evaluate(bound, event)} == MATCHING[text]
    assert parse(render(parse(text))) == parse(text)
    assert bind(render(bound.subscription), SCHEMA) == bound
    assert from_json(to_json(bound.subscription)) == bound.subscription


def test_every_way_of_matching_finds_the_same() -> None:
    matcher = Matcher(SCHEMA)
    for id, text in enumerate(MATCHING):
        matcher.subscribe(id, text)
    expected = [[id for id, found in enumerate(MATCHING.values()) if 1 + at in found] for at in range(len(RAW))]
    listed = [RAW[0], {"id": 2, "items": [RAW[1]["items"]]}, *RAW[2:]]
    structs = pa.RecordBatch.from_pylist(listed, schema=_arrow_schema())
    own = events_to_arrow(EVENTS, SCHEMA)
    assert events_from_arrow(own, SCHEMA) == EVENTS
    with tempfile.TemporaryDirectory() as folder:
        IndexFolder(Path(folder)).save(matcher.index, 1)
        again = Matcher(SCHEMA, IndexFolder(Path(folder)).load(SCHEMA)[0])
        for one in (matcher, again):
            assert [sorted(one.match(raw)) for raw in RAW] == expected
            assert [sorted(ids) for ids in one.match_batch(RAW)] == expected
            for batch in (own, structs):
                assert [sorted(ids) for part in one.match_arrow(batch) for ids in part.lists()] == expected


def _arrow_schema() -> pa.Schema:
    item = pa.struct([("sku", pa.string()), ("qty", pa.int64()), ("tags", pa.list_(pa.string()))])
    order = pa.struct([("no", pa.int64()), ("lines", pa.list_(pa.struct([("n", pa.int32())])))])
    raws = [("id", pa.int64()), ("limit", pa.int64()), ("orders", pa.list_(order))]
    return pa.schema([*raws, ("items", pa.list_(item))])


def test_columns_of_structs_become_events_with_elements_where_workers_admit_them() -> None:
    batch = pa.RecordBatch.from_pylist([{**raw, "items": None if raw["id"] == 2 else raw.get("items")} for raw in RAW],
                                       schema=_arrow_schema())  # fmt: skip
    admission = admit_batch(batch, SCHEMA, Layout(tuple(batch.schema.names)))
    assert admission.events[0] == EVENTS[0]
    assert admission.events[2] == EVENTS[2]


def test_the_builder_the_tree_and_the_bulk_form_are_the_text() -> None:
    text = parse("some items (sku = 'A' and qty > 3)")
    assert subscription(where=a.items.some((a.sku == "A") & (a.qty > 3))) == text
    assert subscription(where=~a.items.no(a.sku == "A")) == parse("not no items (sku = 'A')")
    assert subscription(where=a.items.every(a.sku == "A")) == parse("every items (sku = 'A')")
    bulk = {"predicates": [["id", "<", 9], {"some": "items", "where": ["qty", ">", 3]}]}
    assert to_bulk(from_bulk(bulk)) == bulk
    assert from_document({"id": "s", **bulk})[1] == parse("id < 9 and some items (qty > 3)")
    matcher = Matcher(SCHEMA)
    assert (
        matcher.load(['{"id": 7, "predicates": [["id", "<", 9], {"some": "items", "where": ["qty", ">", 4]}]}']) == []
    )
    assert [matcher.match(raw) for raw in RAW] == [[7], [], [], [], [7]]


def test_a_scope_is_found_by_the_values_that_it_needs() -> None:
    form = normalise(bind("some items (sku = 'A' and (qty > 3 or tags != 'x'))", SCHEMA))
    found = {atom.attribute for conjunction in form.conjunctions for atom in conjunction if hasattr(atom, "attribute")}
    assert found == {"items.sku", "items.qty", "items.tags"}


def test_only_plain_attributes_of_one_array_are_warned_about() -> None:
    plain = warnings_of(normalise(bind("items.sku = 'A' and items.qty > 3", SCHEMA)))
    assert "some items (…)" in plain[0]
    assert warnings_of(normalise(bind("some items (sku = 'A' and qty > 3)", SCHEMA))) == []


def test_an_explanation_tells_which_element() -> None:
    event, bound = EVENTS[0], bind("some items (sku = 'A' and qty > 3)", SCHEMA)
    matcher = Matcher(SCHEMA)
    matcher.add("s", bound)
    told = matcher.explain("s", event)
    assert not told.matched
    assert told.changes[0].element == 1
    assert "of element 1, items.qty > 3, where items.qty is 1" in str(told)
    matcher.subscribe("t", "every items (qty > 3)")
    assert matcher.explain("t", event).changes[0].element == 1
    assert matcher.explain("s", EVENTS[1]).matched


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("some items (foo = 3)", "there is no attribute 'foo'"),
        ("some id (x = 3)", "some asks about an array of objects; id is a number"),
        ("some items (mob(?x))", "there is no function mob here"),
        ("items = 3", "items is an array of objects, which are not compared"),
        ("items < items", "items is an array of objects, which has no one value"),
        ("some items (qty = 'a')", "qty is numeric; 'a' is text"),
    ],
)
def test_what_makes_no_sense_is_refused_at_its_place(text: str, said: str) -> None:
    with pytest.raises(BindError, match=said) as caught:
        bind(text, SCHEMA)
    assert caught.value.span is not None


def test_elements_are_objects_and_have_known_attributes() -> None:
    with pytest.raises(EventRejected, match="items: 3 is not an object"):
        SCHEMA.admit({"items": [3, {"sku": "A"}]})
    with pytest.raises(EventRejected, match=r"there is no attribute 'items.foo'") as caught:
        SCHEMA.admit({"items": [{"foo": 1}, {"foo": 2}]})
    assert len(caught.value.violations) == 1


def test_some_every_and_no_are_names_where_no_array_follows() -> None:
    schema = Schema.infer([{"no": 3, "some": "x", "every": 1}], mandatory=False)
    bound = bind("no in (3, 4) and (some = 'x' or every > no and (no > 2))", schema)
    assert evaluate(bound, schema.admit({"no": 3, "some": "x"}))


def test_elements_without_a_type_are_read_as_what_is_asked() -> None:
    document = {
        "domains": {"object": {"kind": "object"}, "any": {"kind": "dynamic"}},
        "attributes": {"items": "object", "items.qty": "any", "items.parts": "object", "items.parts.n": "any"},
        "event_types": {
            "order": dict.fromkeys(["items", "items.qty", "items.parts", "items.parts.n"], "optional multiple")
        },
    }
    schema = loads(json.dumps(document), "json")
    wanted = {
        "some items (qty as number > 3)": {0, 2},
        "some items (qty > 3)": {0, 2},
        "every items (qty as text = '4')": {0},
        "no items (qty as number > 3)": {1, 3},
        "some items (qty as number > 1 and some parts (n as number > qty as number))": {3},
    }
    raws: list[dict[str, object]] = [
        {"items": [{"qty": "4"}]},
        {"items": [{"qty": 2}, {"parts": {"n": 3}}]},
        {"items": [{"qty": "x"}, {"qty": [5, "4"]}]},
        {"items": [{"qty": 2, "parts": [{"n": "3"}, {"n": 1}]}]},
    ]
    events = [schema.admit(raw) for raw in raws]
    matcher = Matcher(schema)
    for text in wanted:
        matcher.subscribe(text, text)
    for text, numbers in wanted.items():
        assert {at for at, event in enumerate(events) if evaluate(bind(text, schema), event)} == numbers, text
    singly = [set(matcher.match(event)) for event in events]
    assert singly == [{text for text, numbers in wanted.items() if at in numbers} for at in range(len(events))]
    assert [set(ids) for ids in matcher.match_batch(events)] == singly
