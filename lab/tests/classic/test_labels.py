"""Labels keep the order of keys of any type, also when they run out of room and are spread anew."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from tocsin.language import bind, parse
from tocsin.matching import engine_of
from tocsin.schema import EventType, NumericDomain, Schema, TypeAttribute
from tocsin_lab.classic.labels import HIGHEST, LOWEST, SparseLabels, WholeLabels, moved_labels


def test_labels_keep_the_order_and_leave_room_between_constants() -> None:
    random = Random(1)
    labels = SparseLabels()
    keys = [
        random.choice([random.randint(-50, 50), random.uniform(-50, 50), 2**60 + random.randint(0, 5)])
        for _ in range(500)
    ]
    for key in keys:
        labels.of_constant(key)
    assert labels.keys == sorted(set(keys))
    assert all(high - low >= 2 for low, high in zip(labels.labels, labels.labels[1:], strict=False))


def test_a_value_lies_where_its_key_does() -> None:
    labels = SparseLabels()
    for key in (Decimal("0.1"), 5, 2**53 + 1):
        labels.of_constant(key)
    below, tenth, between, five, above = (labels.of_value(key) for key in (-1, Decimal("0.1"), 3, 5, 2**70))
    assert below < tenth < between < five < above
    assert tenth == labels.of_constant(Decimal("0.1"))
    assert labels.of_value(2**53) < labels.of_value(2**53 + 1) == labels.of_constant(2**53 + 1)


def test_halving_one_gap_again_and_again_spreads_the_labels_anew() -> None:
    labels = SparseLabels()
    keys = [Fraction(1), *(Fraction(1, 2**power) for power in range(1, 200)), Fraction(0)]
    held = {}
    moves = 0
    for key in [keys[0], keys[-1], *keys[1:-1]]:
        held[key] = labels.of_constant(key)
        if (move := labels.spread_if_needed()) is not None:
            moves += 1
            ends = np.array([held[found] for found in sorted(held) if found != key] + [LOWEST, HIGHEST])
            moved = moved_labels(ends, *move)
            held.update(zip((found for found in sorted(held) if found != key), moved.tolist(), strict=False))
            assert moved[-2:].tolist() == [LOWEST, HIGHEST]
    assert moves > 0
    assert [held[key] for key in sorted(held)] == labels.labels


def test_whole_numbers_with_limits_are_their_own_labels_and_others_lie_beside_the_limits() -> None:
    labels = WholeLabels(1, 10)
    assert [labels.of_constant(key) for key in (1, 7, 10, -5, 10**30)] == [1, 7, 10, 0, 11]


@pytest.mark.parametrize("engine", ["counting", "equality-preferred", "quarantining", "hanson", "propagation", "gough"])
def test_engines_follow_labels_that_were_spread_anew(engine: str) -> None:
    schema = Schema(
        {"number": NumericDomain(name="number", type="decimal")},
        {"a": "number"},
        {"e": EventType("e", (TypeAttribute("a"),))},
    )
    matcher = engine_of(engine)(schema)
    matcher.add("one", bind(parse("a >= 1"), schema))
    matcher.add("zero", bind(parse("a in (0, 7)"), schema))
    power = 80
    for step in range(1, power):
        matcher.add(step, bind(parse(f"a <= {Decimal(1) / 2**step:f}"), schema))
    assert sorted(map(str, matcher.match(schema.admit({"a": 1})))) == ["one"]
    assert set(matcher.match(schema.admit({"a": Decimal(1) / 2**40}))) == set(range(1, 41))
    assert set(matcher.match(schema.admit({"a": 0}))) == {"zero", *range(1, power)}
    assert set(matcher.match(schema.admit({"a": 7}))) == {"one", "zero"}
