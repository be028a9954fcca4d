"""Imported rules mean what they mean where they come from: each language has an evaluator of its own here."""

from __future__ import annotations

import fnmatch
import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

import tocsin
from tocsin.errors import LanguageError, NotSupported
from tocsin.language import bind, evaluate, parse, render
from tocsin.language.imports import Imported, import_rules
from tocsin.schema import Schema

EVENTS: list[dict[str, Any]] = [
    {"image": "C:\\Windows\\CMD.exe", "line": "cmd -enc HTTP://x", "user": "SYSTEM", "n": 4624, "ok": True},
    {"image": "C:\\Temp\\power1.exe", "line": "say foo bar", "n": 5, "ip": "10.1.2.3"},
    {"line": "cmd /enc http", "user": "ann", "ip": "11.0.0.1", "other": "ann"},
    {"user": "Ann", "n": 7, "other": "bob", "ok": False},
    {"image": "*star?", "line": "", "n": 0},
    {},
]
SCHEMA = Schema.infer([{**each, "event_type": "log"} for each in EVENTS if each] + [{"event_type": "log"}])


def answers(rule: Imported) -> list[bool]:
    assert rule.subscription is not None, rule.reason
    assert parse(render(rule.subscription)) == rule.subscription
    bound = bind(rule.subscription, SCHEMA)
    return [evaluate(bound, SCHEMA.admit({**event, "event_type": "log"})) for event in EVENTS]


def only(kind: str, text: str) -> Imported:
    (found,) = import_rules(kind, text, schema=SCHEMA)
    return found


# --- Sigma: on the parsed condition, two-valued, absent fields satisfy nothing ----------------------------------------


def sigma(node: Any, event: Mapping[str, Any]) -> bool:
    kind = type(node).__name__
    if kind == "ConditionAND":
        return all(sigma(each, event) for each in node.args)
    if kind == "ConditionOR":
        return any(sigma(each, event) for each in node.args)
    if kind == "ConditionNOT":
        return not sigma(node.args[0], event)
    if kind == "ConditionValueExpression":
        return any(sigma_value(node.value, value, keyword=True) for value in event.values() if isinstance(value, str))
    return sigma_field(node.field, node.value, event)


def sigma_field(field: str, value: Any, event: Mapping[str, Any]) -> bool:
    kind = type(value).__name__
    if kind == "SigmaNull":
        return field not in event
    if kind == "SigmaExists":
        return bool((field in event) == value.exists)
    if field not in event:
        return False
    if kind == "SigmaExpansion":
        return any(sigma_field(field, each, event) for each in value.values)
    if kind == "SigmaFieldReference":
        return bool(value.field in event and event[field] == event[value.field])
    return sigma_value(value, event[field])


def sigma_value(value: Any, actual: Any, *, keyword: bool = False) -> bool:
    match type(value).__name__:
        case "SigmaString":
            wild = "".join(part if isinstance(part, str) else "*?"[part.value - 1] for part in value.s)
            parts = [re.escape(part) if isinstance(part, str) else (".*", ".")[part.value - 1] for part in value.s]
            assert wild is not None
            found = re.compile("".join(parts), re.IGNORECASE | re.DOTALL)
            return (found.search if keyword else found.fullmatch)(str(actual)) is not None
        case "SigmaNumber":
            return bool(actual == value.number)
        case "SigmaBool":
            return bool(actual is value.boolean)
        case "SigmaRegularExpression":
            return re.search(value.regexp.original, actual) is not None
        case "SigmaCIDRExpression":
            return ipaddress.ip_address(actual) in value.network
        case "SigmaCompareExpression":
            number = value.number.number
            return bool(
                {"LT": actual < number, "LTE": actual <= number, "GT": actual > number, "GTE": actual >= number}[
                    value.op.name
                ]
            )
    raise AssertionError(value)


SIGMA = [
    ("sel: {image|endswith: '\\cmd.exe'}", "sel"),
    ("sel: {image|contains: ['\\temp\\', 'star']}", "sel"),
    ("sel: {line|contains|all: ['-ENC ', 'http']}", "sel"),
    ("sel: {line|windash|contains: ' -enc '}", "sel"),
    ("sel: {n: 4624}\n  fil: {user: system}", "sel and not fil"),
    ("fil: {user: ann, n: 7}", "not fil"),
    ("fil: {user|startswith: a}\n  two: {image: '*'}", "not (fil or two)"),
    ("a_1: {user: ann}\n  a_2: {ok: true}", "1 of a_*"),
    ("a_1: {user: ann}\n  a_2: {other: ann}", "all of a_*"),
    ("sel: ['foo b?r', 'TEMP']", "sel"),
    ("sel: {ip|cidr: 10.0.0.0/9}", "sel"),
    ("sel: {user: null}", "sel"),
    ("sel: {user|exists: false}", "not sel"),
    ("sel: {n|gte: 5}", "sel"),
    ("sel: {line|re: '^cmd\\s+[-/]enc'}", "sel"),
    ("sel: {user|fieldref: other}", "sel"),
    ("sel: {image: '\\*star\\?'}", "sel"),
]


@pytest.mark.parametrize(("detection", "condition"), SIGMA)
def test_rules_of_sigma_mean_what_they_mean_there(detection: str, condition: str) -> None:
    collection = pytest.importorskip("sigma.collection", reason="needs the extra sigma")
    text = (
        "title: t\nid: 6f3e2987-db24-4c78-a860-b4f4095a7095\nlogsource: {category: x}\n"
        f"detection:\n  {detection}\n  condition: {condition}\n"
    )
    rule = only("sigma", text)
    assert rule.id == "sigma:6f3e2987-db24-4c78-a860-b4f4095a7095"
    parsed = collection.SigmaCollection.from_yaml(text).rules[0].detection.parsed_condition[0].parsed
    assert answers(rule) == [sigma(parsed, event) for event in EVENTS]


def test_a_rule_of_sigma_that_cannot_be_said_is_reported() -> None:
    pytest.importorskip("sigma.collection", reason="needs the extra sigma")
    head = "title: t\nlogsource: {category: x}\ndetection:\n  "
    assert "(?=" in only("sigma", f"{head}sel: {{line|re: 'a(?=b)'}}\n  condition: sel\n").reason
    assert "placeholder" in only("sigma", f"{head}sel: {{ip|expand: '%network%'}}\n  condition: sel\n").reason


# --- EventBridge: as its documentation says ---------------------------------------------------------------------------


def bridge(pattern: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    return all(
        any(bridge(each, event) for each in inner)
        if name == "$or"
        else any(bridge_leaf(each, event, name) for each in inner)
        for name, inner in pattern.items()
    )


def bridge_leaf(leaf: Any, event: Mapping[str, Any], name: str) -> bool:
    value = event.get(name)
    if not isinstance(leaf, Mapping):
        return bool(value == leaf) and (type(value) is type(leaf) or not isinstance(leaf, bool))
    [(kind, wanted)] = leaf.items()
    if kind == "exists":
        return bool((name in event) == wanted)
    if value is None:
        return False
    tests: dict[str, Callable[[], Any]] = {
        "prefix": lambda: value.lower().startswith(wanted["equals-ignore-case"].lower()) if isinstance(wanted, Mapping) else value.startswith(wanted),
        "suffix": lambda: value.endswith(wanted),
        "equals-ignore-case": lambda: value.lower() == wanted.lower(),
        "cidr": lambda: ipaddress.ip_address(value) in ipaddress.ip_network(wanted),
        "wildcard": lambda: fnmatch.fnmatchcase(value, wanted),
        "numeric": lambda: all({"<": value < n, "<=": value <= n, ">": value > n, ">=": value >= n, "=": value == n}[op] for op, n in zip(wanted[::2], wanted[1::2], strict=True)),
        "anything-but": lambda: not any(bridge_leaf(each, event, name) for each in (wanted if isinstance(wanted, list) else [wanted])),
    }  # fmt: skip
    return bool(tests[kind]())


BRIDGE: list[dict[str, Any]] = [
    {"user": ["ann", "SYSTEM"]},
    {"user": [{"equals-ignore-case": "ANN"}], "n": [{"numeric": [">", 5, "<=", 7]}]},
    {"user": [{"anything-but": ["ann", "bob"]}]},
    {"user": [{"anything-but": {"prefix": "A"}}]},
    {"line": [{"wildcard": "cmd*http*"}, {"suffix": "bar"}]},
    {"line": [{"prefix": {"equals-ignore-case": "CMD"}}]},
    {"user": [{"exists": False}], "n": [5, 7, 0]},
    {"$or": [{"n": [5]}, {"ok": [True]}], "image": [{"exists": True}]},
    {"other": [None, "ann"]},
    {"ip": [{"cidr": "10.0.0.0/8"}]},
    {},
]


@pytest.mark.parametrize("pattern", BRIDGE)
def test_patterns_of_eventbridge_mean_what_they_mean_there(pattern: dict[str, Any]) -> None:
    assert answers(only("eventbridge", json.dumps(pattern))) == [bridge(pattern, event) for event in EVENTS]


def test_names_of_eventbridge_are_kept_and_nested_fields_are_joined() -> None:
    (rule,) = import_rules("eventbridge", json.dumps([{"Name": "r", "EventPattern": {"detail": {"a": {"b": [1]}}}}]))
    assert rule.name == "r"
    assert rule.subscription == parse("detail.a.b = 1")


# --- the percolator ---------------------------------------------------------------------------------------------------


def percolated(query: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    [(kind, body)] = query.items()
    if kind == "match_all":
        return True
    if kind == "exists":
        return body["field"] in event
    if kind == "bool":
        clauses = {key: [percolated(each, event) for each in (found if isinstance(found, list) else [found])]
                   for key, found in body.items() if key != "minimum_should_match"}  # fmt: skip
        needed = [*clauses.get("must", []), *clauses.get("filter", [])]
        least = body.get("minimum_should_match", 0 if needed else min(1, len(clauses.get("should", []))))
        return all(needed) and not any(clauses.get("must_not", [])) and sum(clauses.get("should", [])) >= least
    [(field, value)] = body.items()
    if field not in event:
        return False
    actual = event[field]
    match kind:
        case "term":
            if isinstance(value, Mapping):
                return bool(str(actual).lower() == str(value["value"]).lower())
            return bool(actual == value)
        case "terms":
            return actual in value
        case "match":
            asked = value["query"] if isinstance(value, Mapping) else value
            found = [word in re.findall(r"\w+", str(actual).lower()) for word in re.findall(r"\w+", asked.lower())]
            return all(found) if isinstance(value, Mapping) and value.get("operator") == "and" else any(found)
        case "match_phrase":
            return f" {value.lower()} " in f" {' '.join(re.findall(r'[a-z0-9]+', str(actual).lower()))} "
        case "range":
            return all(
                {"lt": actual < n, "lte": actual <= n, "gt": actual > n, "gte": actual >= n}[op]
                for op, n in value.items()
            )
        case "prefix":
            return str(actual).startswith(value)
        case "wildcard":
            return fnmatch.fnmatchcase(str(actual), value["value"])
        case "regexp":
            return re.fullmatch(value, str(actual), re.DOTALL) is not None
    raise AssertionError(kind)


QUERIES: list[dict[str, Any]] = [
    {"term": {"user": "ann"}},
    {"term": {"user": {"value": "ANN", "case_insensitive": True}}},
    {"terms": {"n": [5, 7]}},
    {"match": {"line": "foo ENC"}},
    {"match": {"line": {"query": "foo bar", "operator": "and"}}},
    {"match_phrase": {"line": "say foo"}},
    {"range": {"n": {"gte": 5, "lt": 100}}},
    {"prefix": {"image": "C:\\W"}},
    {"wildcard": {"image": {"value": "C:*power?.exe"}}},
    {"regexp": {"line": "cmd.*x"}},
    {"match_all": {}},
    {"bool": {"must_not": [{"term": {"user": "ann"}}, {"exists": {"field": "ip"}}]}},
    {"bool": {"must": {"exists": {"field": "n"}}, "should": [{"term": {"n": 5}}]}},
    {"bool": {"should": [{"term": {"n": 5}}, {"term": {"user": "ann"}}]}},
    {"bool": {"should": [{"term": {"n": 5}}, {"exists": {"field": "image"}}, {"exists": {"field": "ip"}}], "minimum_should_match": 2}},
]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_queries_of_the_percolator_mean_what_they_mean_there(query: dict[str, Any]) -> None:
    assert answers(only("percolator", json.dumps({"query": query}))) == [percolated(query, event) for event in EVENTS]


@pytest.mark.parametrize("seed", range(30))
def test_random_queries_mean_what_they_mean_there(seed: int) -> None:
    random = Random(seed)

    def some(depth: int) -> dict[str, Any]:
        if depth == 0 or random.random() < 0.3:
            return random.choice(QUERIES[:11])
        keys = random.sample(["must", "filter", "must_not", "should"], random.randint(1, 3))
        return {"bool": {key: [some(depth - 1) for _ in range(random.randint(1, 2))] for key in keys}}

    query = some(3)
    assert answers(only("percolator", json.dumps(query))) == [percolated(query, event) for event in EVENTS]


def test_what_cannot_be_said_is_reported() -> None:
    assert "anything-but" in only_reason("eventbridge", {"tags": [{"anything-but": "x"}]})
    assert "fuzzy" in only_reason("percolator", {"fuzzy": {"user": "x"}})
    assert "Lucene" in only_reason("percolator", {"regexp": {"user": "a~b"}})


def only_reason(kind: str, rule: dict[str, Any]) -> str:
    schema = tocsin.Schema.infer([{"tags": ["a", "b"], "ip": "x", "user": "y"}])
    (found,) = import_rules(kind, json.dumps(rule), schema=schema)
    assert found.subscription is None
    return found.reason


def test_a_file_that_is_none_and_a_language_that_is_unknown_are_refused() -> None:
    with pytest.raises(LanguageError, match="no JSON"):
        list(import_rules("eventbridge", "{"))
    with pytest.raises(NotSupported, match="there are: sigma"):
        import_rules("other", "")
