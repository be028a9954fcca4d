"""Selectors of JMS and CESQL, compared with evaluators of their own semantics, written here."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest

import tocsin
from tocsin.language.imports import import_rules
from tocsin.schema import Schema

EVENTS: list[dict[str, Any]] = [
    {
        name: value
        for name, value in zip(("region", "priority", "urgent", "size"), values, strict=True)
        if value is not None
    }
    for values in product((None, "eu", "EU", "e%u"), (None, 3, 5), (None, True, False), (None, 2.5))
]
SCHEMA = Schema.infer(EVENTS)
UNKNOWN = object()  # JMS: neither true nor false
Tree = Any  # ("and", a, b), ("or", a, b), ("xor", a, b), ("not", a), ("null", name), ("=", name, constant), …

LEAVES: dict[str, Tree] = {
    "region = 'eu'": ("=", "region", "eu"),
    "region <> 'eu'": ("<>", "region", "eu"),
    "region LIKE 'e%'": ("like", "region", "e%"),
    "priority > 3": (">", "priority", 3),
    "4 >= priority": ("<=", "priority", 4),
    "urgent": ("=", "urgent", True),
    "region IN ('eu', 'us')": ("in", "region", ("eu", "us")),
    "size * 2 = 5": ("double", "size", 5),
}
JMS_ONLY: dict[str, Tree] = {
    "region IS NULL": ("null", "region"),
    "priority IS NOT NULL": ("not", ("null", "priority")),
    "priority BETWEEN 4 AND 6": ("and", (">=", "priority", 4), ("<=", "priority", 6)),
    "region NOT LIKE 'e%'": ("not", ("like", "region", "e%")),
    "region LIKE 'e!%u' ESCAPE '!'": ("=", "region", "e%u"),
}
CESQL_ONLY: dict[str, Tree] = {
    "EXISTS region": ("exists", "region"),
    'region = "eu"': ("=", "region", "eu"),
    "region LIKE 'e\\%u'": ("=", "region", "e%u"),
}


def leaf(tree: Tree, event: dict[str, Any]) -> bool:
    value = event[tree[1]]
    match tree[0]:
        case "=" | "in":
            return value == tree[2] if tree[0] == "=" else value in tree[2]
        case "<>":
            return bool(value != tree[2])
        case "like":
            return re.fullmatch(tree[2].replace("%", ".*"), value, re.DOTALL) is not None
        case "double":
            return bool(value * 2 == tree[2])
        case _:
            return bool({">": value > tree[2], "<=": value <= tree[2], ">=": value >= tree[2]}[tree[0]])


def jms(tree: Tree, event: dict[str, Any]) -> Any:
    """Return true, false or UNKNOWN: the logic of three values of SQL-92."""
    match tree[0]:
        case "and" | "or":
            sides = [jms(part, event) for part in tree[1:]]
            decisive = tree[0] == "or"
            if decisive in sides:
                return decisive
            return UNKNOWN if UNKNOWN in sides else not decisive
        case "not":
            inner = jms(tree[1], event)
            return inner if inner is UNKNOWN else not inner
        case "null":
            return tree[1] not in event
        case _:
            return leaf(tree, event) if tree[1] in event else UNKNOWN


class MissingAttributeError(Exception):
    """CESQL: evaluation ends here."""


def cesql(tree: Tree, event: dict[str, Any]) -> bool:
    """Return true or false; raises MissingAttributeError. From left to right, and no further than needed."""
    match tree[0]:
        case "and":
            return cesql(tree[1], event) and cesql(tree[2], event)
        case "or":
            return cesql(tree[1], event) or cesql(tree[2], event)
        case "xor":
            return cesql(tree[1], event) != cesql(tree[2], event)
        case "not":
            return not cesql(tree[1], event)
        case "exists":
            return tree[1] in event
        case _:
            if tree[1] not in event:
                raise MissingAttributeError
            return leaf(tree, event)


def delivered(dialect: str, tree: Tree, event: dict[str, Any]) -> bool:
    if dialect == "jms":
        return jms(tree, event) is True
    try:
        return cesql(tree, event)
    except MissingAttributeError:
        return False


def combined(leaves: dict[str, Tree], words: tuple[str, ...]) -> dict[str, Tree]:
    """Return the leaves, their negations, and pairs of them, joined and negated."""
    found = dict(leaves)
    found.update({f"NOT {text}": ("not", tree) for text, tree in leaves.items()})
    for at, ((a, left), (b, right)) in enumerate(product(leaves.items(), leaves.items())):
        word = words[at % len(words)]
        found[f"{a} {word} {b}"] = (word.lower(), left, right)
        found[f"NOT ({a} {word} NOT {b})"] = ("not", (word.lower(), left, ("not", right)))
    return found


@pytest.mark.parametrize("dialect", ["jms", "cesql"])
def test_selectors_mean_what_they_mean_there(dialect: str) -> None:
    leaves = {**LEAVES, **(JMS_ONLY if dialect == "jms" else CESQL_ONLY)}
    rules = combined(leaves, ("AND", "OR") if dialect == "jms" else ("AND", "OR", "XOR"))
    matcher = tocsin.Matcher(SCHEMA)
    taken = list(import_rules(dialect, "\n".join(rules), source="f", schema=SCHEMA))
    assert [each.reason for each in taken] == [""] * len(rules)
    for each in taken:
        assert each.subscription is not None
        matcher.subscribe(each.id, each.subscription)
    for event in EVENTS:
        wanted = {f"{dialect}:f#{at}" for at, tree in enumerate(rules.values()) if delivered(dialect, tree, event)}
        assert set(matcher.match(event)) == wanted, event


@pytest.mark.parametrize(
    ("dialect", "selector", "reason"),
    [
        ("jms", "priority / 2 = 1", "fraction"),
        ("jms", "region < 'a'", "= and <> only"),
        ("jms", "region = 'a' XOR urgent", "XOR"),
        ("jms", "region IN (1, 2)", "texts"),
        ("jms", "region =", "the end"),
        ("jms", "(region = 'a'", r"\) was expected"),
        ("jms", "1 = 1", "constants"),
        ("jms", "#", "not understood"),
        ("cesql", "LOWER(region) = 'a'", "function LOWER"),
        ("cesql", "priority % 2 = 1", "fraction"),
        ("cesql", "NOT " * 300 + "urgent", "nested"),
        ("cesql", "5", "condition"),
    ],
)
def test_what_cannot_be_said_is_reported_with_the_reason(dialect: str, selector: str, reason: str) -> None:
    (found,) = import_rules(dialect, selector, source="f", schema=SCHEMA)
    assert found.subscription is None
    assert re.search(reason, found.reason), found.reason


def test_ids_lead_back_to_the_rule() -> None:
    text = '[{"id": "a", "name": "A", "selector": "urgent"}, {"sql": "NOT urgent"}]'
    assert [(each.id, each.name) for each in import_rules("jms", text, source="rules.json")] == [
        ("jms:a", "A"),
        ("jms:rules.json#1", "jms:rules.json#1"),
    ]
    assert [each.id for each in import_rules("eventbridge", '[{"a": ["x"]}]', source="f.json")] == [
        "eventbridge:f.json#0"
    ]


def test_numbers_are_cast_to_the_text_that_they_are_compared_with() -> None:
    (found,) = import_rules("cesql", "region = 5", source="f", schema=SCHEMA)
    assert found.subscription is not None
    matcher = tocsin.Matcher(SCHEMA)
    matcher.subscribe("s", found.subscription)
    assert matcher.match({"region": "5"}) == ["s"]
