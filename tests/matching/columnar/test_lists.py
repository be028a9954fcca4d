"""Lists as access: `in`, `contains any` and alternatives on one attribute are found by their values, told once."""

from __future__ import annotations

from random import Random

import pytest

from tocsin.language import bind, evaluate, parse
from tocsin.matching.matcher import Matcher
from tocsin.schema import EventType, NumericDomain, Schema, TextDomain, TypeAttribute

WORDS = [f"w{number}" for number in range(60)]


def schema() -> Schema:
    entries = (
        TypeAttribute("a", mandatory=False),
        TypeAttribute("b", mandatory=False),
        TypeAttribute("many", mandatory=False, multiple=True),
        TypeAttribute("body", mandatory=False),
    )
    return Schema(
        {"n": NumericDomain(name="n"), "t": TextDomain(name="t")},
        {"a": "n", "b": "n", "many": "n", "body": "t"},
        {"e": EventType("e", entries)},
    )


def some_text(random: Random) -> str:
    def numbers(count: int) -> str:
        return ", ".join(str(number) for number in random.sample(range(200), count))

    def words(count: int) -> str:
        return ", ".join(f"'{word}'" for word in random.sample(WORDS, count))

    leaves = [
        f"a in ({numbers(random.randint(2, 20))})",
        f"b in ({numbers(3)})",
        f"(a in ({numbers(2)}) or a between 150 and {random.randint(150, 160)})",
        f"many in ({numbers(4)})",
        f"many between {random.randint(0, 100)} and {random.randint(100, 110)}",
        f"body contains any ({words(4)})",
        f"body contains '{random.choice(WORDS)} {random.choice(WORDS)}'",
        f"a not in ({numbers(random.randint(2, 40))})",
        f"many not in ({numbers(3)})",
        f"b = {random.randint(0, 20)}",
        f"not (body contains any ({words(2)}))",
    ]
    parts = random.sample(leaves, random.randint(1, 3))
    text = " and ".join(parts)
    return text if random.random() < 0.8 else f"{text} or ({random.choice(leaves)})"


@pytest.mark.parametrize("seed", range(4))
def test_lists_are_found_by_their_values_and_told_once(seed: int) -> None:
    random, world = Random(seed), schema()
    matcher = Matcher(world, merge_beside=False)
    bounds = {id: bind(parse(some_text(random)), world) for id in range(1_500)}
    for id, bound in bounds.items():
        matcher.add(id, bound)
        if id in (600, 900):
            matcher.index.tiers()
    events = []
    for _ in range(60):
        raw = {
            "a": random.randrange(220), "b": random.randrange(25), "many": random.sample(range(210), random.randint(1, 6)),
            "body": " ".join(random.choices(WORDS, k=8)),
        }  # fmt: skip
        for name in random.sample(sorted(raw), random.choice([0, 0, 1, 2])):
            del raw[name]
        events.append(world.admit(raw))
    for _ in range(2):
        expected = [sorted(id for id, bound in bounds.items() if evaluate(bound, event)) for event in events]
        assert [sorted(ids) for ids in matcher.match_batch(events)] == expected
        assert [sorted(matcher.match(event)) for event in events] == expected
        for tier in matcher.index.tiers():
            tier.segment.check()
        for id in random.sample(sorted(bounds), 300):
            del bounds[id]
            matcher.remove(id)
        matcher.index.merge(everything=True)


def test_a_list_is_looked_up_not_looked_through() -> None:
    random, world = Random(1), schema()
    matcher = Matcher(world)
    for id in range(3_000):
        values = ", ".join(str(number) for number in random.sample(range(10_000), 10))
        matcher.subscribe(id, f"a in ({values})")
    events = [world.admit({"a": number}) for number in range(0, 10_000, 100)]
    found = sum(map(len, matcher.match_batch(events)))
    assert found > 100
    assert matcher.work.details["tile_rows"] + matcher.work.details["direct_rows"] < 3 * found


def test_a_list_that_is_nearly_met_is_told_whole() -> None:
    world = schema()
    matcher = Matcher(world)
    for id in range(3_000):
        matcher.subscribe(id, f"a in ({id}, {id + 5_000}) and b = {id % 7}")
    (miss,) = [miss for miss in matcher.near_misses(world.admit({"a": 4_999, "b": 6}), 10_000) if miss.id == 13]
    assert miss.wanted == "a = 13 or a = 5013"
    assert miss.actual == (4_999,)
