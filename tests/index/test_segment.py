"""Segments: bytes, files, and what can be read back from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.index.tables import Shape, coded, matches_of, random_events, random_table
from tocsin.compile.bulk import load_bulk
from tocsin.compile.ids import TextIds
from tocsin.index.build import build_segment
from tocsin.index.explain import table_of
from tocsin.index.index_folder import (
    DATA_START,
    CorruptSegment,
    open_segment,
    write_segment,
)
from tocsin.index.layout import Section
from tocsin.index.plan import PlanCosts
from tocsin.matching.columnar.segment_matcher import SegmentMatcher
from tocsin.matching.matcher import Matcher
from tocsin.schema import Event
from tocsin.schema.examples import load_example

EAGER = PlanCosts(row=10.0, probe=1.0)


def no_domain(attribute: str) -> Any:
    """Return nothing: these tests are about codes, which need no domain."""


def some_segment(seed: Any = 0, **shape: Any) -> Any:
    rng = np.random.default_rng(seed)
    table = random_table(rng, Shape(**shape))
    return rng, table, build_segment(table, costs=EAGER)


@pytest.mark.parametrize("seed", range(20))
def test_random_segments_keep_their_invariants(seed: Any) -> None:
    shape = {
        "subscriptions": [0, 1, 17, 300][seed % 4],
        "columns": 1 + seed % 6,
        "constants": 1 + 3 * seed,
        "checks": seed % 3,
    }
    some_segment(seed, **shape)[2].check()


def test_the_same_table_gives_the_same_bytes() -> None:
    first, second = some_segment(3, checks=2)[2], some_segment(3, checks=2)[2]
    assert np.array_equal(first.buffer, second.buffer)
    assert np.array_equal(first.directory, second.directory)


def test_a_stored_segment_answers_as_the_one_in_memory(tmp_path: Any) -> None:
    rng, table, segment = some_segment(4)
    path = tmp_path / "a.segment"
    write_segment(segment, path)
    opened = open_segment(path, no_domain)
    opened.check()
    assert opened.ids.tolist() == table.ids.tolist()
    assert [c.attribute for c in opened.columns] == [c.attribute for c in table.columns]
    assert all(np.array_equal(a.constants, b.constants) for a, b in zip(opened.columns, table.columns, strict=True))
    events = random_events(rng, table, 30)
    for codes in events:
        assert sorted(SegmentMatcher(opened).match_one(coded(table, [codes]))) == matches_of(table, codes)


def test_killing_rows_of_a_mapped_segment_does_not_reach_the_file(tmp_path: Any) -> None:
    _, table, segment = some_segment(5)
    path = tmp_path / "a.segment"
    write_segment(segment, path)
    before = path.read_bytes()
    opened = open_segment(path, no_domain)
    opened.kill(np.arange(len(table.ids)))
    assert not opened.alive_rows().any()
    assert path.read_bytes() == before
    assert open_segment(path, no_domain).alive_rows().all()


def test_any_flipped_byte_is_refused(tmp_path: Any) -> None:
    _, _, segment = some_segment(6, subscriptions=30, checks=1)
    path = tmp_path / "a.segment"
    write_segment(segment, path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    positions = [0, 8, 16, 100, DATA_START, len(whole) - 1, *rng.integers(0, len(whole), 150).tolist()]
    for position in positions:
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(damaged)
        with pytest.raises(CorruptSegment, match=r"a\.segment"):
            open_segment(path, no_domain)


@pytest.mark.parametrize("left", [0, 10, DATA_START - 1, DATA_START, DATA_START + 64, -64, -1])
def test_a_truncated_file_is_refused(tmp_path: Any, left: Any) -> None:
    _, _, segment = some_segment(7, subscriptions=30)
    path = tmp_path / "a.segment"
    write_segment(segment, path)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(CorruptSegment, match=r"a\.segment"):
        open_segment(path, no_domain)


@pytest.mark.parametrize("seed", range(4))
def test_the_table_can_be_read_back(seed: Any) -> None:
    rng, table, segment = some_segment(seed, checks=3)
    dead = set(rng.choice(len(table.ids), 40, replace=False).tolist())
    segment.kill(np.array(sorted(dead)))
    again = table_of(segment)
    assert not dead & set(again.subscription.tolist())
    for event, codes in enumerate(random_events(rng, table, 40)):
        alive = [number for number in matches_of(table, codes, event) if number not in dead]
        assert matches_of(again, codes, event) == alive


def test_plan_and_stats_show_the_choice() -> None:
    _, _, segment = some_segment(8, subscriptions=400, generic=0.0, multiple=0.0)
    stats = segment.stats()
    assert stats.subscriptions == 400
    assert stats.schemas
    assert stats.clusters > 1
    plans = [plan for number in range(400) for plan in segment.plan(number)]
    assert len(plans) == stats.rows
    assert any(plan.access in stats.schemas for plan in plans)
    assert all(plan.cluster_rows >= 1 for plan in plans)


def test_texts_and_mixed_numbers_survive_in_the_file(tmp_path: Any) -> None:
    from dataclasses import replace
    from decimal import Decimal

    _, table, _ = some_segment(9, columns=2, constants=3)
    mixed = np.empty(3, object)
    mixed[:] = [Decimal("0.1"), 2**70, float(2**71)]
    texts = np.empty(3, object)
    texts[:] = ["", "straße", "\U0001f600"]
    columns = [replace(table.columns[0], constants=mixed), replace(table.columns[1], constants=texts)]
    ids = TextIds.of([f"s{i}" if i % 3 else i for i in range(len(table.ids))])
    path = tmp_path / "a.segment"
    write_segment(build_segment(replace(table, columns=columns, ids=ids)), path)
    opened = open_segment(path, no_domain)
    assert opened.columns[0].constants.tolist() == mixed.tolist()
    assert opened.columns[1].constants.tolist() == texts.tolist()
    assert opened.ids.tolist() == ids.tolist()
    assert opened.directory[2 * Section.ID_OFFSET + 1] == 8 * (len(ids) + 1)


def test_a_segment_whose_conjunctions_are_all_found_by_their_access_predicate_has_nothing_left_to_check() -> None:
    schema = load_example("auction")
    prices = [number % 40 for number in range(600)]
    loaded = load_bulk(
        (b'{"id":%d,"event_types":["item"],"predicates":[["price","=",%d]]}' % pair for pair in enumerate(prices)),
        schema,
    )
    segment = build_segment(loaded.table, costs=EAGER)
    segment.check()
    matcher = Matcher(schema)
    matcher.load_table(loaded.table)
    found = matcher.match(Event({"event_type": ("item",), "price": (7,)}))
    assert sorted(found) == [id for id, price in enumerate(prices) if price == 7]
