"""What was unsubscribed is known in few bytes."""

from __future__ import annotations

import random

from tocsin.broker import live_index
from tocsin.broker.live_index import Unsubscribed


def test_unsubscribed_are_known_until_the_retention_is_over_in_sixteen_bytes_each() -> None:
    known, draw = Unsubscribed(), random.Random(1)
    ids = draw.sample(range(1, 10**9), 50_000)
    for at, id in enumerate(ids):
        known.add({id: at})
        assert id in known
    assert all(id in known for id in ids)
    assert len(known) == len(ids)
    assert not any(id in known for id in draw.sample(range(10**9, 2 * 10**9), 100))
    assert len(known._newest) <= live_index.NEWEST
    assert sum(one.nbytes for one in known._older) <= 16 * len(ids)
    known.forget_through(40_000)
    assert len(known) == 9_999
    assert ids[40_000] not in known
    assert ids[40_001] in known
    assert ids[-1] in known
