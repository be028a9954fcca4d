"""GrowingArray: what was seen of it stays as it was."""

from __future__ import annotations

import numpy as np

from tocsin.operators.questions import GrowingArray


def test_an_array_that_grows_leaves_what_was_seen_as_it_was() -> None:
    grown = GrowingArray(np.int32)
    seen = []
    for number in range(100):
        grown.extend([number] * (number % 4))
        seen.append((grown.view, grown.view.copy()))
    assert all(np.array_equal(view, copy) for view, copy in seen)
    assert len(grown) == sum(number % 4 for number in range(100))
