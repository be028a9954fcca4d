"""Attributes of no declared type: kept, read as number, text, time or boolean, asked about with or without saying so."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import tocsin
from tocsin.errors import BadDefinition, BindError, EventRejected
from tocsin.language import bind, evaluate, explain, parse, render
from tocsin.schema import DynamicDomain, EventType, Schema, TextDomain, TypeAttribute, files
from tocsin.schema.document import from_document, to_document
from tocsin.schema.readings import joined_values, read

KEPT = Schema.infer([{"n": 1, "host": "a"}], unknown="kept")
MIXED = Schema.infer([{"x": 1, "tags": ["a", 2]}, {"x": "one"}])


@pytest.mark.parametrize(
    ("value", "number", "text", "time", "boolean"),
    [
        (5, 5, "5", None, None),
        (2.5, 2.5, "2.5", None, None),
        ("12", 12, "12", None, None),
        ("-0.5", -0.5, "-0.5", None, None),
        ("1e3", 1000, "1e3", None, None),
        ("007", None, "007", None, None),
        ("NaN", None, "NaN", None, None),
        (" 1", None, " 1", None, None),
        (True, None, "true", None, True),
        ("false", None, "false", None, False),
        ("2026-01-01T00:00Z", None, "2026-01-01T00:00Z", datetime(2026, 1, 1, tzinfo=UTC), None),
        ("2026-01-01T00:00", None, "2026-01-01T00:00", None, None),
        (datetime(2026, 1, 1, tzinfo=UTC), None, "2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC), None),
    ],
)
def test_what_a_value_is_read_as(value: Any, number: Any, text: Any, time: Any, boolean: Any) -> None:
    for kind, wanted in (("number", number), ("text", text), ("time", time), ("boolean", boolean)):
        assert read([value], kind) == (None if wanted is None else (wanted,))


def test_unknown_attributes_are_kept_and_asked_about_with_their_type() -> None:
    raw = {"n": 1, "bytes": "1001", "c-uri": "/index", "deep": {"at": "2026-02-01T00:00Z"}, "bad": float("nan")}
    event = KEPT.admit(raw)
    assert event.values["bytes"] == ("1001",)
    assert set(event.values) == {"event_type", "n", "bytes", "c-uri", "deep.at"}
    for text, wanted in (
        ("bytes as number > 1000", True),
        ("not (bytes as number > 1000)", False),
        ("bytes as time > time '2026-01-01T00:00Z'", False),
        ("\"c-uri\" as text starts with '/in'", True),
        ("deep.at as time > time '2026-01-01T00:00Z' and n = 1", True),
        ("other as number != 5", False),
        ("other as text is absent", True),
        ("bytes as number > 2 * n", True),
        ("any attribute contains text 'index'", True),
        ("not (any attribute contains text 'none such')", True),
    ):
        bound = bind(text, KEPT)
        assert evaluate(bound, event) is wanted, text
        assert explain(bound, event).matched is wanted
        matcher = tocsin.Matcher(KEPT)
        matcher.subscribe("s", text)
        for found in (matcher.match(raw), matcher.match_batch([event])[0], matcher.match(event)):
            assert (found == ["s"]) is wanted, text
        assert parse(render(parse(text))) == parse(text)


def test_what_nobody_keeps_is_not_asked_about() -> None:
    with pytest.raises(BindError, match="bytes as number, as text"):
        bind("bytes > 5", KEPT)
    with pytest.raises(BindError, match="kept = "):
        bind("bytes as number > 5", Schema.infer([{"n": 1}]))
    with pytest.raises(BindError, match="without `as`"):
        bind("n as number > 5", Schema.infer([{"n": 1}]))


def test_an_unknown_attribute_rejects_no_event_and_a_known_one_is_still_judged() -> None:
    assert KEPT.admit({"odd": object(), "n": 2}).values["n"] == (2,)
    with pytest.raises(EventRejected, match="n:"):
        KEPT.admit({"n": "many", "x": 1})


def test_an_attribute_declared_for_other_types_only_is_passed_over() -> None:
    schema = Schema(
        {"text": TextDomain(name="text")},
        {"name": "text"},
        {"log": EventType("log", (), "kept"), "user": EventType("user", (TypeAttribute("name"),))},
    )
    assert set(schema.admit({"event_type": "log", "name": 5, "x": 1}).values) == {"event_type", "x"}


def test_a_dynamic_domain_holds_values_of_mixed_types() -> None:
    assert isinstance(MIXED.domain_of("x"), DynamicDomain)
    matcher = tocsin.Matcher(MIXED)
    for id, text in enumerate(("x = 1", "x = 'one'", "x is present", "x as text = '1'", "tags = 2", "x is absent")):
        matcher.subscribe(id, text)
    for raw, wanted in (
        ({"x": 1}, {0, 2, 3}),
        ({"x": "1"}, {0, 2, 3}),
        ({"x": "one", "tags": ["b", 2]}, {1, 2, 4}),
        ({}, {5}),
    ):
        assert set(matcher.match(raw)) == wanted
        assert set(matcher.match_batch([raw])[0]) == wanted


def test_every_form_of_a_schema_says_what_becomes_of_unknown_attributes() -> None:
    for schema in (KEPT, MIXED, Schema.dynamic(["car"])):
        assert from_document(to_document(schema)) == schema
        assert files.loads(files.dumps(schema, "toml"), "toml") == schema
    with pytest.raises(BadDefinition, match="already"):
        from_document({**to_document(KEPT), "open": ["event"]})
    pytest.importorskip("lxml", reason="needs the extra xml")
    from tocsin.xml.schema_form import from_xml, to_xml

    assert from_xml(to_xml(KEPT)).event_types["event"].unknown == "kept"


def test_a_matcher_needs_no_schema() -> None:
    matcher = tocsin.Matcher()
    matcher.subscribe("ann", "price < 1300")
    matcher.subscribe("bob", "car where brand like 'm%' and sold = false")
    matcher.subscribe("cat", "price < 0.5 * estimate")
    assert matcher.match({"price": 900}) == ["ann"]
    assert matcher.match({"event_type": "car", "brand": "mini", "sold": False}) == ["bob"]
    assert matcher.match({"event_type": "boat", "brand": "mini", "sold": False}) == []
    assert set(matcher.match({"price": "90", "estimate": 200})) == {"ann", "cat"}
    assert "price as number < 1300" in str(matcher.explain("ann", {"price": 2000}))
    (miss,) = [each for each in matcher.near_misses(matcher.admit({"price": 2000})) if each.id == "ann"]
    assert miss.actual == (2000,)
    with pytest.raises(BindError, match="one at a time"):
        matcher.subscribe("dan", "x in (1, 'a')")


def test_columns_without_a_type_are_read_where_arrow_has_them() -> None:
    pa = pytest.importorskip("pyarrow", reason="needs the extra arrow")
    rows: list[dict[str, Any]] = [
        {"price": 900, "estimate": None, "a": {"b": "a needle"}, "w": ["1", "x"]},
        {"price": 1400, "estimate": 9000.5, "a": None, "w": None},
    ]
    matcher = tocsin.Matcher()
    texts = ["price < 1300", "any attribute contains text 'needle'", "price < 0.5 * estimate", "w = 1", "a.b like 'a%'"]
    for id, text in enumerate(texts):
        matcher.subscribe(id, text)
    found = [set(ids) for part in matcher.match_arrow(pa.RecordBatch.from_pylist(rows)) for ids in part.lists()]
    assert found == [set(matcher.match(row)) for row in rows] == [{0, 1, 3, 4}, {2}]


def test_any_attribute_has_the_texts_of_the_event_and_not_what_stands_beside_it() -> None:
    event = KEPT.admit({"host": "a", "note": "b"})
    beside = joined_values(event.values, {"driver.nick": ("needle",)})
    assert set(beside["any attribute"]) == {"a", "b"}
    assert beside["driver.nick"] == ("needle",)
