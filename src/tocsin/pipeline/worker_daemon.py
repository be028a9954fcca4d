"""Spark's Python daemon with the engine already loaded: workers are forked from it ready to match.

Spark starts this in place of `pyspark.daemon` (setting spark.python.daemon.module, see session.py). Loading Numba and
the compiled kernels takes seconds, and a streaming task needs two workers, of which each may be asked to match; so it
is done once, before the forks. Nothing here may start a thread or import Arrow: a fork copies neither well. NumPy's linear
algebra, which nothing here uses, would start one for each core. Words, which are cut where Arrow has them, are left out.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported

from tocsin.index.encode import EventObjects
from tocsin.language import bind, from_json
from tocsin.matching.matcher import Matcher
from tocsin.pipeline import match_batches, stored_matching  # noqa: F401 - loaded for the workers
from tocsin.schema.examples import load_example

SUBSCRIPTIONS = (
    {"event_types": ["item"], "where": {"and": [["price", "<", 100], ["year", "between", [1900, 2000]]]}},
    {"event_types": ["item"], "where": {"and": [["title", "starts with", "old"], ["brand", "=", "Leica"]]}},
    {"event_types": ["bid"], "where": ["item", "in", ["i1", "i2"]]},
)
EVENT = {"event_type": "bid", "item": "i1", "title": "sofa", "category": "sofa", "price": 20, "bids": 1, "bidder": "b"}


def load_kernels() -> int:
    """Match something small, so that the kernels that every match takes are loaded; return the matches found."""
    schema = load_example("auction")
    matcher = Matcher(schema, merge_beside=False)
    matcher.add_all((number, bind(from_json(tree), schema)) for number, tree in enumerate(SUBSCRIPTIONS))
    events = [schema.admit({**EVENT, "at": "2026-01-01T00:00:00Z"})] * 2
    one_by_one = len(matcher.match(events[0]))
    return one_by_one + sum(len(part) for part in matcher.match_source(EventObjects(events)))


if __name__ == "__main__":
    from pyspark.daemon import manager

    load_kernels()
    manager()
