"""A JSON Schema (2020-12) of the raw events of a view, for editors, forms and other people's validators.

It describes the nested form of an event, in which `seller.name` is {"seller": {"name": …}}. Every event that the schema
admits in that form is valid; the few rules that JSON Schema says badly (that an attribute belongs to the event's own
types, calendars, half surrogate pairs) are left to Schema.admit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tocsin.schema.domain import Domain, NumericDomain, TextDomain
from tocsin.schema.event_type import EVENT_TYPE, ViewAttribute
from tocsin.schema.finite_domains import EnumeratedDomain, HierarchicalDomain
from tocsin.schema.schema import Schema

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NULL = {"type": "null"}
_BOUND: dict[str, Any] = {"not": {"enum": [None, []]}}


def json_schema(schema: Schema, event_types: Iterable[str] = ()) -> dict[str, Any]:
    """Return the JSON Schema of events of these types; of all types where none is named."""
    view = schema.view(event_types)
    names = [name for name in schema.event_types if name in view.event_types]
    document: dict[str, Any] = {
        "$schema": _DIALECT,
        "title": f"Event: {', '.join(names)}",
        "type": "object",
        "properties": {EVENT_TYPE: _one_or_several({"enum": names}, at_least_one=True)},
        "additionalProperties": view.is_open,
    }
    for entry in view.attributes.values():
        if entry.name != EVENT_TYPE:
            path = _path(schema, entry.name)
            _object_at(document, path[:-1], is_open=view.is_open)["properties"][path[-1]] = _attribute(entry)
    if len(schema.event_types) > 1:
        document["required"] = [EVENT_TYPE]
    rules = [rule for name in names if (rule := _mandatory_rule(schema, name))]
    return document | ({"allOf": rules} if rules else {})


# --- attributes -------------------------------------------------------------------------------------------------------


def _path(schema: Schema, name: str) -> list[str]:
    """Return the keys that lead to an attribute; one key where a shorter attribute takes the name above it."""
    keys = name.split(".")
    above = [".".join(keys[:count]) for count in range(1, len(keys))]
    return [name] if not all(keys) or any(other in schema.attributes for other in above) else keys


def _object_at(document: dict[str, Any], path: Iterable[str], *, is_open: bool) -> dict[str, Any]:
    for key in path:
        document = document["properties"].setdefault(
            key, {"type": ["object", "null"], "properties": {}, "additionalProperties": is_open}
        )
    return document


def _attribute(entry: ViewAttribute) -> dict[str, Any]:
    value = value_schema(entry.domain)
    whole = _one_or_several(value) if entry.multiple else value
    return {"anyOf": [*whole.get("anyOf", [whole]), _NULL]}


def _one_or_several(value: dict[str, Any], *, at_least_one: bool = False) -> dict[str, Any]:
    several: dict[str, Any] = {"type": "array", "items": value if at_least_one else {"anyOf": [value, _NULL]}}
    return {"anyOf": [value, several | ({"minItems": 1} if at_least_one else {})]}


def value_schema(domain: Domain) -> dict[str, Any]:
    """Return the JSON Schema of one value of a domain."""
    if isinstance(domain, NumericDomain):
        return _number(domain)
    if isinstance(domain, TextDomain):
        return {"type": "string"} | ({"maxLength": domain.max_length} if domain.max_length is not None else {})
    if isinstance(domain, EnumeratedDomain | HierarchicalDomain):
        return {"enum": list(dict.fromkeys([*domain.values, *domain.meaning]))}
    if domain.kind == "point":
        return {"oneOf": [_pair_schema(), *(_place_schema(*names) for names in _PLACES)]}
    if domain.kind == "ip":
        return {"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}
    return {
        "boolean": {"type": "boolean"},
        "time": {"type": "string", "format": "date-time"},
        "object": {"type": "object"},
    }[domain.kind]


_PLACES = (("lat", "lon"), ("latitude", "longitude"))
_LATITUDE = {"type": "number", "minimum": -90, "maximum": 90}
_LONGITUDE = {"type": "number", "minimum": -180, "maximum": 180}


def _pair_schema() -> dict[str, Any]:
    return {"type": "array", "prefixItems": [_LATITUDE, _LONGITUDE], "minItems": 2, "maxItems": 2}


def _place_schema(latitude: str, longitude: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {latitude: _LATITUDE, longitude: _LONGITUDE},
        "required": [latitude, longitude],
        "additionalProperties": False,
    }


def _number(domain: NumericDomain) -> dict[str, Any]:
    number: dict[str, Any] = {"type": "integer" if domain.type == "int" else "number"}
    if domain.minimum is not None:
        number["minimum"] = domain.minimum
    if domain.maximum is not None:
        number["maximum"] = domain.maximum
    if domain.type != "decimal":
        return number
    return {"anyOf": [number, {"type": "string", "pattern": r"^\s*[+-]?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"}]}


# --- mandatory attributes ---------------------------------------------------------------------------------------------


def _mandatory_rule(schema: Schema, event_type: str) -> dict[str, Any] | None:
    """Return the rule: an event of this type binds the type's mandatory attributes."""
    then: dict[str, Any] = {"properties": {}}
    for entry in schema.event_type(event_type).attributes:
        if entry.mandatory and not any(entry.attribute.startswith(f"{each}.") for each in schema.object_attributes):
            *above, last = _path(schema, schema.meaning(entry.attribute))
            place = then
            for key in above:
                place.setdefault("required", []).append(key)
                place = place["properties"].setdefault(key, {"type": "object", "properties": {}})
            place.setdefault("required", []).append(last)
            place["properties"][last] = _BOUND
    if "required" not in then:
        return None
    _without_repeats(then)
    if len(schema.event_types) == 1:  # such events need not name their type
        return then
    named = {"anyOf": [{"const": event_type}, {"type": "array", "contains": {"const": event_type}}]}
    return {"if": {"properties": {EVENT_TYPE: named}, "required": [EVENT_TYPE]}, "then": then}


def _without_repeats(rule: dict[str, Any]) -> None:
    rule["required"] = list(dict.fromkeys(rule["required"]))
    for inner in rule["properties"].values():
        if "required" in inner:
            _without_repeats(inner)
