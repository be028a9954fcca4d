"""docs/language.md: its examples run, its messages are the real ones, and nothing that exists goes unmentioned."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tocsin.errors import LanguageError
from tocsin.language import Op, bind, bounds, evaluate, from_bulk, from_json, parse, subscription
from tocsin.language import attributes as a
from tocsin.language.bounds import children
from tocsin.language.syntax import Node, Predicate, Subscription
from tocsin.language.tokens import RESERVED, UNITS
from tocsin.schema import EVENT_TYPE, Schema, arrived
from tocsin.schema.files import loads

DOC = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")


ARRIVAL = 1_794_736_800_000_000  # 2026-11-15T10:00Z, as the page says


def blocks(tag: str) -> list[str]:
    """Return the contents of the fenced blocks with that tag."""
    return re.findall(rf"^```{tag}\n(.*?)^```$", DOC, re.MULTILINE | re.DOTALL)


SCHEMA = loads(blocks("toml")[0], "toml")
EXAMPLES = blocks("example")


@pytest.mark.parametrize("example", blocks("loose"), ids=lambda example: example.split("\n")[0])
def test_an_example_without_a_schema_matches_the_events_marked_plus_and_no_other(example: str) -> None:
    text, *events = example.splitlines()
    schema = Schema.dynamic()
    assert len({line[0] for line in events}) == 2
    for line in events:
        assert evaluate(bind(text, schema), schema.admit(json.loads(line[2:]))) is (line[0] == "+"), line


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.split("\n")[0])
def test_an_example_matches_the_events_marked_plus_and_no_other(example: str) -> None:
    lines = example.splitlines()
    text = "\n".join(line for line in lines if line[:2] not in ("+ ", "- "))
    events = [
        (line[0] == "+", {EVENT_TYPE: "sale", **json.loads(line[2:])}) for line in lines if line[:2] in ("+ ", "- ")
    ]
    bound = bind(parse(text), SCHEMA, text=text)
    assert events
    for expected, raw in events:
        assert evaluate(bound, arrived(SCHEMA.admit(raw), ARRIVAL)) is expected, raw


@pytest.mark.parametrize("example", blocks("refused"), ids=lambda example: example.split("\n")[0])
def test_a_message_is_the_one_that_users_see(example: str) -> None:
    text = example.split("\n", 1)[0]
    with pytest.raises(LanguageError) as caught:
        bind(parse(text), SCHEMA, text=text)
    assert str(caught.value) == example.rstrip("\n")


def _operators(tree: Subscription | Node) -> Iterator[Op]:
    waiting: list[bounds.Tree] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Predicate):
            yield node.op
        waiting.extend(children(node))


def test_every_operator_has_an_example() -> None:
    shown = {op for example in EXAMPLES for op in _operators(parse(re.split(r"\n[+-] ", example)[0]))}
    assert shown == set(Op)


def test_the_four_forms_are_one_subscription() -> None:
    [text], [code], [tree], [bulk] = (blocks(f"{form}-form") for form in ("text", "python", "json", "bulk"))
    forms = [
        parse(text),
        eval(code, {"subscription": subscription, "a": a}),  # noqa: S307  (our own documentation)
        from_json(json.loads(tree)),
        from_bulk(json.loads(bulk)),
    ]
    assert all(form == forms[0] for form in forms)


def test_every_bound_is_stated() -> None:
    limits = {name: value for name, value in vars(bounds).items() if name.startswith("MAX_")}
    table = DOC.split("## Bounds")[1].split("## Grammar")[0]
    missing = [name for name, value in limits.items() if f"| {value:,} |" not in table]
    assert limits
    assert missing == []


def test_every_reserved_word_and_unit_is_stated() -> None:
    listed = re.search(r"Reserved are:\n`([a-z ]+)`", DOC)
    assert listed is not None
    assert set(listed[1].split()) == RESERVED
    assert all(f'"{unit}"' in DOC for unit in UNITS.values())
