"""Ids of tables and segments: exact types, whatever the mixture, and none decoded before it is asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.compile.ids import Ids, TextIds, ids_of, joined_ids, kept_ids
from tocsin.index.coder import IdPlaces, first_repeated

ids = st.one_of(st.integers(-(2**70), 2**70), st.text(max_size=12), st.sampled_from(["1", 1, "", "ÿ1", "\ud800"]))


@given(st.lists(ids))
def test_ids_come_back_as_they_were(listed: list[int | str]) -> None:
    kept = ids_of(listed)
    assert kept.tolist() == listed
    assert [type(id) for id in kept.tolist()] == [type(id) for id in listed]


@given(st.lists(st.lists(ids, max_size=8), min_size=1), st.randoms(use_true_random=False))
def test_joining_and_keeping_are_those_of_lists(parts: list[list[int | str]], random: object) -> None:
    joined = joined_ids([ids_of(part) for part in parts])
    flat = [id for part in parts for id in part]
    assert joined.tolist() == flat
    keep = np.array([random.random() < 0.5 for _ in flat], np.bool_)  # type: ignore[attr-defined]
    assert kept_ids(joined, keep).tolist() == [id for id, stays in zip(flat, keep, strict=True) if stays]


@given(st.lists(ids), st.lists(ids))
def test_an_id_is_found_at_its_last_place(listed: list[int | str], wanted: list[int | str]) -> None:
    places = IdPlaces(ids_of(listed))
    last = {(type(id), id): at for at, id in enumerate(listed)}
    asked = wanted + listed
    assert [places.of(id) for id in asked] == [last.get((type(id), id)) for id in asked]
    assert places.of_all(ids_of(asked)).tolist() == [last.get((type(id), id), -1) for id in asked]
    again = first_repeated(ids_of(listed))
    assert (again is None) == (len(last) == len(listed))
    assert again is None or listed[again] in listed[again + 1 :]


@pytest.mark.parametrize("stranger", [1.0, True, None, b"1", 2**64])
def test_what_is_no_id_is_not_found(stranger: object) -> None:
    for listed in ([1, 2], [1, "1"]):
        assert IdPlaces(ids_of(listed)).of(stranger) is None


def test_taking_decodes_only_what_is_asked_for() -> None:
    held: Ids = ids_of([f"name {number}" for number in range(1_000)])
    assert isinstance(held, TextIds)
    assert held.take(np.array([5, 7, 5])).tolist() == ["name 5", "name 7", "name 5"]
    assert int(held._decoded[0].sum()) == 2
