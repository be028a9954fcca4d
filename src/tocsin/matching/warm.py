"""Warming up: compile every kernel of the engine once, so that what starts later finds them in the cache.

    python -m tocsin.matching.warm

Numba keeps compiled kernels beside the source, or in NUMBA_CACHE_DIR. Set-up runs this; a worker that starts with a
warm cache loads the kernels in a fraction of a second instead of compiling them for a minute.
"""

from __future__ import annotations

import time

import numpy as np

from tocsin.index.subscription_index import Lifetime
from tocsin.language import bind, parse
from tocsin.matching.matcher import Matcher
from tocsin.plugins import is_there
from tocsin.schema import Event, EventType, NumericDomain, PointDomain, Schema, TextDomain, TypeAttribute

TEXTS = (
    "a = {n} and b > {n}",
    "a < {n} and b between 1 and {n} and t = 'x{n}'",
    "many = {n} and many > 2",
    "a in (1, {n}, 7) or b != {n}",
    "t contains 'word{n} other' and a is present and b is absent",
    "t like '%{n}%' and p within {n} km of (1, 2)",
    "a > {n}",
)


_DISTINCT = 280  # texts: seven with forty numbers each; to parse more takes longer than to load the kernels


def warm(*, everything: bool = True) -> None:
    """Run each kernel on a small index; else only those by which a broker matches."""
    schema = _schema()
    matcher = Matcher(schema)
    bound = [bind(parse(TEXTS[at % len(TEXTS)].format(n=at % 40)), schema) for at in range(_DISTINCT)]
    for number in range(3_000):
        matcher.add(number, bound[number % _DISTINCT], Lifetime(created=0))
    events = [
        {"a": number % 9, "b": number % 7, "t": f"x{number} word1 other", "many": [number % 5, 3], "p": [1, 2]}
        for number in range(200)
    ]
    admitted = [schema.admit(event) for event in events]
    matcher.match_batch(admitted)
    matcher.match(admitted[0])
    if everything:
        _warm_library(matcher, admitted[0])
    for number in range(100):
        matcher.remove(number)
        matcher.remove(number + 100, seq=5)
    matcher.match_batch(admitted)
    matcher.index.merge(everything=True)


def _warm_library(matcher: Matcher, event: Event) -> None:
    """Run the kernels of what only the library offers."""
    matcher.near_misses(event)
    matcher.explain(0, event)
    plain = Matcher(matcher.schema)
    for number in range(100):
        plain.add(number, bind(parse(f"a = {number % 9} and b > {number}"), plain.schema))
    plain.match_raw({"a": 1, "b": 2})
    if is_there("pyarrow"):
        _warm_columns(matcher, plain)


def _warm_columns(matcher: Matcher, plain: Matcher) -> None:
    """Run the kernels that read Arrow's memory."""
    import pyarrow as pa

    batch = pa.RecordBatch.from_pydict({"a": np.arange(300) % 9, "b": np.arange(300) / 2})
    list(matcher.match_arrow(batch, seq=np.arange(300)))
    plain.count_arrow(batch)
    list(matcher.match_arrow(batch, seq=np.arange(300), arrival=np.arange(300)))


def _schema() -> Schema:
    domains = {"n": NumericDomain(name="n"), "t": TextDomain(name="t"), "p": PointDomain(name="p")}
    attributes = {"a": "n", "b": "n", "t": "t", "many": "n", "p": "p"}
    entries = tuple(TypeAttribute(name, mandatory=False, multiple=name == "many") for name in attributes)
    return Schema(domains, attributes, {"e": EventType("e", entries)})


if __name__ == "__main__":
    started = time.perf_counter()
    warm()
    print(f"kernels ready after {time.perf_counter() - started:.1f} s")  # noqa: T201
