"""Memory for matches that is used again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tocsin.matching.columnar.matches import Matches
from tocsin.matching.columnar.workspace import SPARE, Gathered, borrowed


def matches(first: int, lists: list[list[Any]], kind: Any = np.int32) -> Matches:
    offset = np.cumsum([0, *map(len, lists)])
    return Matches(first, offset, np.array([id for each in lists for id in each], kind))


def test_successive_events_are_gathered_and_the_memory_is_used_again() -> None:
    memory = Gathered()
    for last in range(3):
        memory.clear()
        memory.add(matches(0, [[1, 2], []]))
        memory.add(matches(2, [[3] * 10_000, [last]]))
        found = memory.matches(0)
        assert found.lists() == [[1, 2], [], [3] * 10_000, [last]]
        assert len(memory.with_spare(len(found))) == len(found) + SPARE
    memory.clear()
    assert memory.matches(0).lists() == []


@pytest.mark.parametrize(
    ("kinds", "result"),
    [((np.int32, np.int32), np.int32), ((np.int32, np.int64), np.int64), ((np.int64, np.int64), np.int64)],
)
def test_tiers_are_joined_whatever_the_type_of_their_ids(kinds: Any, result: Any) -> None:
    memory = Gathered()
    for _ in range(2):
        parts = [matches(5, [[1], [2, 3], []], kinds[0]), matches(5, [[], [4], [5]], kinds[1])]
        found = memory.joined(parts, 5, 3)
        assert found.lists() == [[1], [2, 3, 4], [5]]
        assert found.ids.dtype == result
    assert memory.joined([], 5, 3).lists() == [[], [], []]


def test_ids_of_another_type_widen_what_is_there() -> None:
    memory = Gathered()
    memory.add(matches(0, [[1]]))
    memory.add(matches(1, [[2**40]], np.int64))
    assert memory.matches(0).lists() == [[1], [2**40]]


def test_memory_is_lent_to_one_at_a_time() -> None:
    with borrowed(2) as first:
        with borrowed(3) as second:
            assert not {id(each) for each in first} & {id(each) for each in second}
        inner = {id(each) for each in second}
    with borrowed(4) as again:
        assert {id(each) for each in again} & (inner | {id(each) for each in first})
