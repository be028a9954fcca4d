"""The balanced IBS tree finds exactly the intervals that contain a value, and stays balanced."""

from __future__ import annotations

from math import log2
from random import Random

import numpy as np
import pytest

from tocsin_lab.classic.ibs_tree import IbsForest
from tocsin_lab.classic.labels import HIGHEST, LOWEST
from tocsin_lab.classic.rows import CodedEvent

Interval = tuple[int, int]


def at(value: int, column: int = 0, columns: int = 1) -> CodedEvent:
    present = np.arange(columns) == column
    return CodedEvent(np.concatenate([[0], np.cumsum(present)]).astype(np.int32), np.array([value]), present)


def check(forest: IbsForest, intervals: dict[int, Interval], values: range) -> None:
    """Assert the answers for these values, that no interval is found twice, and the balance."""
    for value in values:
        found = forest.of_event(at(value)).tolist()
        assert sorted(found) == sorted(number for number, (low, high) in intervals.items() if low <= value <= high)
    assert forest.depth(0) <= 1.45 * log2(forest.nodes + 2)


def random_interval(random: Random, span: int) -> Interval:
    low, high = sorted(random.choices(range(span), k=2))
    return random.choice([(low, high), (low, low), (LOWEST, high), (low, HIGHEST)])


def test_an_interval_with_two_values_of_an_event_is_found_once_beside_a_column_without_any() -> None:
    forest = IbsForest()
    forest.insert(1, 0, 10, 20)
    two_values_and_a_text_without_words = CodedEvent(
        np.array([0, 2, 2], np.int32), np.array([12, 15]), np.array([True, True])
    )
    assert forest.of_event(two_values_and_a_text_without_words).tolist() == [1]


@pytest.mark.parametrize("seed", range(5))
def test_random_intervals_come_and_go(seed: int) -> None:
    random = Random(seed)
    span = random.choice([12, 60, 400])
    forest, intervals = IbsForest(), dict[int, Interval]()
    for number in range(400):
        if intervals and random.random() < 0.4:
            gone = random.choice(sorted(intervals))
            forest.remove(gone)
            del intervals[gone]
        intervals[number] = random_interval(random, span)
        forest.insert(number, 0, *intervals[number])
        if number % 50 == 0:
            check(forest, intervals, range(-1, span + 1))
    check(forest, intervals, range(-1, span + 1))


@pytest.mark.parametrize("order", [range(500), range(500, 0, -1)])
def test_end_points_in_order_do_not_make_a_list_of_the_tree(order: range) -> None:
    forest, intervals = IbsForest(), dict[int, Interval]()
    for number, low in enumerate(order):
        intervals[number] = (low, low + number % 7)
        forest.insert(number, 0, *intervals[number])
    check(forest, intervals, range(-1, 510, 3))


def test_the_number_of_marks_stays_within_n_log_n() -> None:
    random = Random(3)
    forest = IbsForest()
    for number in range(2000):
        forest.insert(number, 0, *random_interval(random, 5000))
    marks = int(forest.marks.arrays.length.sum())
    assert marks <= 2000 * 4 * log2(forest.nodes)


def test_columns_have_trees_of_their_own_and_several_labels_find_an_interval_once() -> None:
    forest = IbsForest()
    forest.insert(1, 0, 5, 10)
    forest.insert(2, 1, 5, 10)
    assert forest.of_event(at(7, column=1, columns=2)).tolist() == [2]
    both = CodedEvent(np.array([0, 2, 2], np.int32), np.array([6, 7]), np.array([True, False]))
    assert forest.of_event(both).tolist() == [1]
