"""A merged table means what its parts mean, without what was left out."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.compile.reference import matching_ids
from tests.compile.test_table import check_invariants
from tests.strategies.worlds import random_event, random_schema, random_subscription
from tocsin.compile import compile_table, normalise
from tocsin.index.merge_tables import merge_tables
from tocsin.language import BoundSubscription, bind, evaluate


@pytest.mark.parametrize("seed", range(6))
def test_merging_keeps_the_meaning_of_what_is_kept(seed: int) -> None:
    random = Random(seed)
    schema = random_schema(random)
    live: dict[int, BoundSubscription] = {}
    tables, kept = [], []
    for first in (0, 100, 200):
        bounds = {
            first + at: bind(random_subscription(random, schema), schema) for at in range(random.choice([0, 1, 40]))
        }
        tables.append(compile_table(schema, [(id, normalise(bound)) for id, bound in bounds.items()]))
        keep = np.array([random.random() < 0.7 for _ in bounds], np.bool_)
        kept.append(keep)
        live |= {id: bound for (id, bound), stays in zip(bounds.items(), keep.tolist(), strict=True) if stays}
    merged = merge_tables(tables, kept)
    check_invariants(merged)
    assert merged.ids.tolist() == list(live)
    for _ in range(20):
        event = schema.admit(random_event(random, schema))
        expected = [id for id, bound in live.items() if evaluate(bound, event)]
        assert matching_ids(merged, event, schema) == expected


def test_merging_merged_tables_gives_the_same_as_merging_at_once() -> None:
    random = Random(1)
    schema = random_schema(random)
    tables = [
        compile_table(
            schema, [(f"{part}-{at}", normalise(bind(random_subscription(random, schema), schema))) for at in range(20)]
        )
        for part in range(3)
    ]
    everything = [np.ones(20, np.bool_)] * 3
    at_once = merge_tables(tables, everything)
    step = merge_tables(
        [merge_tables(tables[:2], everything[:2]), tables[2]], [np.ones(40, np.bool_), np.ones(20, np.bool_)]
    )
    for name in ("subscription", "offset", "column", "kind", "low", "high", "set_low", "set_high"):
        assert np.array_equal(getattr(at_once, name), getattr(step, name)), name
