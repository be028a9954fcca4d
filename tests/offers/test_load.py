"""Loading many subscribers at once gives what holding them one by one gives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.symmetric.worlds import MARKET, Random, programs, random_offer
from tocsin.symmetric import Matchmaker, load, load_subscribers
from tocsin.symmetric.load import Loader

PREDICATES = [
    ["price", "<=", 40], ["price", ">", 1.5], ["size", "=", "M"], ["count", "between", [0, 7]], ["title", "=", "a"],
    ["kind", "kind of", "x"], ["title", "starts with", "a"], ["price", "!=", 2], ["open", "=", True], ["count", "=", 1],
]  # fmt: skip


def document(random: Random, id: int) -> dict[str, Any]:
    drawn = {"age": random.choice([1, 7, 40, 10**17]), "years": 3, "budget": random.choice([1, 2.5]), "city": "a"}
    properties = {name: value for name, value in drawn.items() if random.random() < 0.8}
    return {"id": id, "predicates": random.sample(PREDICATES, random.randint(0, 3)), "properties": properties}


def lines(documents: list[Any]) -> list[str]:
    return [json.dumps(one) for one in documents]


@settings(max_examples=30)
@given(st.randoms(use_true_random=False), st.booleans())
def test_bulk_loading_holds_what_one_by_one_holds(random: Random, asked_before: bool) -> None:
    at_once, singly = Matchmaker(MARKET, programs=programs()), Matchmaker(MARKET, programs=programs())
    loader = Loader(singly)
    documents = [document(random, id) for id in range(30)]
    plain = [one for one in documents if all(p in PREDICATES[:6] for p in one["predicates"])]
    if asked_before:  # engines and bitmaps that are there take in what comes
        at_once.match(random_offer(random))
    for group in (plain[: len(plain) // 2], plain[len(plain) // 2 :], [d for d in documents if d not in plain]):
        assert load_subscribers(at_once, lines(group)) == []
        for one in group:
            singly.add(loader.bind(0, one))
    assert {one.id: one for one in at_once.roster} == {one.id: one for one in singly.roster}
    for _ in range(4):
        offer = random_offer(random)
        found, wanted = at_once.match(offer), singly.match(offer)
        assert sorted(map(str, found.notifications())) == sorted(map(str, wanted.notifications()))
        assert sorted(map(str, found.failures)) == sorted(map(str, wanted.failures))


def test_a_bad_line_is_told_and_the_others_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "CHUNK", 4)
    matchmaker = Matchmaker(MARKET)
    good = [{"id": id, "predicates": [["price", "<=", id]], "properties": {"age": id}} for id in range(12)]
    bad: list[Any] = [
        {"id": 50, "predicates": [], "properties": {"aeg": 1}},
        {"id": 51, "predicates": [], "properties": {"age": "old"}},
        {"id": 52, "predicates": [["price", "<=", True]], "properties": {}},
        {"id": 3, "predicates": [], "properties": {}},
        {"id": [1], "predicates": [], "properties": {}},
        {"id": 53, "predicates": [], "properties": {}, "extra": 1},
        {"id": 54, "predicates": 3, "properties": {}},
        17,
    ]
    mixed = [one for pair in zip(good, [*bad, *good[8:]], strict=False) for one in pair][:16] + good[8:]
    found = load_subscribers(matchmaker, [*lines(mixed), "{", ""])
    assert [one.line for one in found] == [2, 4, 6, 8, 10, 12, 14, 16, 21]
    assert "aeg" in str(found[0])
    assert len(matchmaker) == 12
    matched = matchmaker.match({"event": {"price": 8}, "rules": ["age < 11"]})
    assert sorted(matched.ids, key=str) == [10, 8, 9]
