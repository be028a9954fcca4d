"""A binary heap of predicates by falling score, for compiled schedules whose scores only fall.

Scores that fell are not moved in the heap: whoever looks at the top compares its key with the score of now, and calls
`lower_top`. So a fall costs nothing until it matters.

    make_heap O(size), lower_top and drop_top O(log size)
"""

from __future__ import annotations

from tocsin.index.jit import helper
from tocsin.operators.problem import Float64s, Int32s


@helper
def make_heap(keys: Float64s, ids: Int32s, size: int) -> None:
    """Order the first `size` entries as a heap."""
    for at in range(size // 2 - 1, -1, -1):
        _sift_down(keys, ids, size, at)


@helper
def lower_top(keys: Float64s, ids: Int32s, size: int, key: float) -> None:
    """Give the top a lower key, and move it to where it belongs."""
    keys[0] = key
    _sift_down(keys, ids, size, 0)


@helper
def drop_top(keys: Float64s, ids: Int32s, size: int) -> int:
    """Remove the top; return how many are left."""
    size -= 1
    keys[0], ids[0] = keys[size], ids[size]
    _sift_down(keys, ids, size, 0)
    return size


@helper
def _sift_down(keys: Float64s, ids: Int32s, size: int, at: int) -> None:
    """Move an entry below every greater one; equal keys go by number, so that runs are repeatable."""
    key, id = keys[at], ids[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (keys[right] > keys[child] or (keys[right] == keys[child] and ids[right] < ids[child])):
            child = right
        if keys[child] < key or (keys[child] == key and ids[child] > id):
            break
        keys[at], ids[at] = keys[child], ids[child]
        at = child
    keys[at], ids[at] = key, id
