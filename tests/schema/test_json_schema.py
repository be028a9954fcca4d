"""The JSON Schema of a view lets every event pass that the schema admits, and stops the common mistakes.

Checked by a validator of the few keywords that json_schema uses, written here from their specification.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schema.test_examples import AUCTION_ITEM
from tests.strategies.schemas import raw_events, schemas
from tocsin.schema import BooleanDomain, EventType, Schema, TypeAttribute
from tocsin.schema.examples import load_example
from tocsin.schema.json_schema import json_schema

TYPES: dict[str, Any] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "null": lambda v: v is None,
    "boolean": lambda v: isinstance(v, bool),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "integer": lambda v: isinstance(v, int | float) and not isinstance(v, bool) and v == int(v),
}
KNOWN = {
    *("$schema", "title", "format", "type", "enum", "const", "minimum", "maximum", "maxLength", "pattern", "not"),
    *("required", "properties", "additionalProperties", "items", "prefixItems", "minItems", "maxItems", "contains"),
    *("anyOf", "oneOf", "allOf", "if", "then"),
}


def valid(rule: dict[str, Any], value: Any) -> bool:
    assert set(rule) <= KNOWN
    wanted = rule.get("type", [])
    if wanted and not any(TYPES[name](value) for name in ([wanted] if isinstance(wanted, str) else wanted)):
        return False
    checks = [
        "enum" not in rule or any(_same(value, other) for other in rule["enum"]),
        "const" not in rule or _same(value, rule["const"]),
        "not" not in rule or not valid(rule["not"], value),
        "anyOf" not in rule or any(valid(inner, value) for inner in rule["anyOf"]),
        "oneOf" not in rule or sum(valid(inner, value) for inner in rule["oneOf"]) == 1,
        all(valid(inner, value) for inner in rule.get("allOf", [])),
        "if" not in rule or not valid(rule["if"], value) or valid(rule["then"], value),
    ]
    if TYPES["number"](value):
        checks += [value >= rule.get("minimum", value), value <= rule.get("maximum", value)]
    if isinstance(value, str):
        checks += [len(value) <= rule.get("maxLength", len(value)), bool(re.search(rule.get("pattern", ""), value))]
    if isinstance(value, dict):
        checks += [name in value for name in rule.get("required", [])]
        known = rule.get("properties", {})
        checks += [valid(known[name], inner) for name, inner in value.items() if name in known]
        checks.append(rule.get("additionalProperties", True) or set(value) <= set(known))
    if isinstance(value, list):
        checks += [rule.get("minItems", 0) <= len(value) <= rule.get("maxItems", len(value))]
        checks += [valid(inner, item) for inner, item in zip(rule.get("prefixItems", []), value, strict=False)]
        checks += [valid(rule["items"], item) for item in value if "items" in rule]
        checks.append("contains" not in rule or any(valid(rule["contains"], item) for item in value))
    return all(checks)


def _same(left: object, right: object) -> bool:
    return left == right and type(left) is type(right)


def as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_json(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(inner) for inner in value]
    return value.isoformat() if isinstance(value, datetime) else float(value) if isinstance(value, Decimal) else value


@given(st.data())
def test_every_event_that_the_schema_admits_is_valid(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    rules = json_schema(schema)
    json.dumps(rules)
    raw = as_json(data.draw(raw_events(schema)))
    for name, value in list(raw.items()):  # a unique attribute stands as one value in this form
        if isinstance(value, list) and len(value) == 1 and name in schema.view().attributes:
            raw[name] = value if schema.view()[name].multiple else value[0]
        elif value == [] and not schema.view()[name].multiple:
            raw[name] = None
        elif isinstance(value, dict) and name not in schema.attributes:
            raw[name] = {
                key: (inner[0] if inner else None)
                if isinstance(inner, list) and len(inner) < 2 and not schema.view()[f"{name}.{key}"].multiple
                else inner
                for key, inner in value.items()
            }
    assert valid(rules, raw)


@pytest.mark.parametrize(
    "change",
    [
        {"event_type": "car"},
        {"event_type": []},
        {"price": -1},
        {"price": "cheap"},
        {"price": None},
        {"title": 7},
        {"category": "furnitur"},
        {"seller": {}},
        {"seller": {"name": None}},
        {"seller": {"name": "x", "rating": 6}},
        {"seller": {"name": "x", "nick": "y"}},
        {"tags": ["vintage", "new"]},
        {"condition": ["new", "poor"]},
        {"location": [91, 0]},
        {"location": {"lat": 1}},
        {"unheard": 1},
    ],
)
def test_common_mistakes_are_not_valid(change: dict[str, Any]) -> None:
    rules = json_schema(load_example("auction"))
    assert valid(rules, AUCTION_ITEM)
    assert not valid(rules, AUCTION_ITEM | change)


def test_a_name_below_another_attribute_stays_dotted() -> None:
    flag = BooleanDomain(name="flag")
    kind = EventType("e", (TypeAttribute("a.b"), TypeAttribute("c.d")))
    rules = json_schema(Schema({"flag": flag}, dict.fromkeys(["a", "a.b", "c.d"], "flag"), {"e": kind}))
    assert set(rules["properties"]) == {"event_type", "a.b", "c"}
    assert valid(rules, {"a.b": True, "c": {"d": True}})
    assert not valid(rules, {"a.b": True, "c": {}})
    assert not valid(rules, {"c": {"d": True}})


def test_a_view_has_only_the_attributes_of_its_types() -> None:
    rules = json_schema(load_example("auction"), ["bid"])
    assert rules["properties"]["event_type"]["anyOf"][0] == {"enum": ["bid"]}
    assert set(rules["properties"]) == {
        "event_type",
        "item",
        "title",
        "category",
        "price",
        "bids",
        "bidder",
        "at",
        "closes",
    }
