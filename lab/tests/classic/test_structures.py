"""The small structures below the engines, compared with plain Python."""

from __future__ import annotations

from random import Random

import numpy as np

from tocsin_lab.classic.lists import Lists
from tocsin_lab.classic.numbering import Numbering
from tocsin_lab.classic.rows import SOME_IN, CodedPredicate, PredicateColumns, Rows


def test_lists_are_lists() -> None:
    random = Random(2)
    lists, plain = Lists(), dict[int, list[int]]()
    for step in range(3000):
        chosen = random.sample(range(40), random.randint(0, 3))
        if random.random() < 0.3 and plain:
            number = random.choice(sorted(plain))
            if plain[number]:
                gone = random.choice(plain[number])
                lists.remove(np.array([number]), gone)
                plain[number].remove(gone)
        lists.append(np.array(chosen, np.int64), step)
        for number in chosen:
            plain.setdefault(number, []).append(step)
        if step % 500 == 0:
            keys, values = np.array(random.choices(range(40), k=50)), np.arange(50) + 10_000 * step
            lists.extend(keys, values)
            for number, value in zip(keys.tolist(), values.tolist(), strict=True):
                plain.setdefault(number, []).append(value)
    assert {number: lists.of(number) for number in plain} == plain


def test_keys_have_one_number_each() -> None:
    random = Random(3)
    numbering, plain = Numbering(), dict[tuple[int, ...], int]()
    for _ in range(2000):
        key = tuple(random.choice([-1, 0, 1, 2**40, random.randint(0, 30)]) for _ in range(4))
        assert numbering.number(*key) == plain.setdefault(key, len(plain))
    keys = np.array(list(plain), np.int64)
    assert numbering.numbers(*(keys[:, column].copy() for column in range(4))).tolist() == list(plain.values())


def test_row_numbers_are_used_again_and_rows_keep_their_predicates() -> None:
    random = Random(4)
    rows, plain = Rows(), dict[int, list[CodedPredicate]]()
    for step in range(4000):
        if plain and random.random() < 0.49:
            gone = random.choice(sorted(plain))
            assert rows.of(gone) == plain.pop(gone)
            rows.remove(gone)
        else:
            predicates = [CodedPredicate(column, SOME_IN, step, step) for column in range(random.randint(0, 4))]
            plain[rows.add(predicates)] = predicates
    assert {row: rows.of(row) for row in plain} == plain
    assert rows.live().tolist() == sorted(plain)
    assert len(rows) < 4000 // 2


def test_many_rows_at_once_are_rows() -> None:
    rows = Rows()
    columns = PredicateColumns.empty(3)
    for at in range(3):
        columns.put(at, CodedPredicate(at, SOME_IN, at, at))
    added = rows.extend(np.array([0, 2, 2, 3]), columns)
    assert [[predicate.column for predicate in rows.of(row)] for row in added] == [[0, 1], [], [2]]
