"""TAMA (Zhao and Wu, ICDCS 2011), in its exact variant, compiled by Numba.

The domain of each attribute is halved again and again, LEVELS times. A range is cut into the largest cells that it covers;
each cell lists the subscriptions of such ranges. An event's value lies in one cell of every level: their lists are walked,
and a subscription whose predicates were all met that way matches. TAMA takes the two cells of the finest level that a
range covers only in part for covered, which makes it approximate; here these cells have lists with the ends of the range,
which are compared. Values that a subscription excludes cut its range in two, of which a value meets one at most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np
import numpy.typing as npt

from benchmarks.peers.bounds import HIGHEST, LOWEST, wide_table
from benchmarks.peers.files import Event, Workload
from benchmarks.peers.program import Match, Prepare, main

LEVELS = 13  # of cells below the whole domain; of 10 to 15 about the fastest on ranges of half the domain

Int64s = npt.NDArray[np.int64]
ABSENT = np.iinfo(np.int64).min


def build(workload: Workload) -> tuple[Prepare, Match]:
    """Return how to match one event by walking the lists of the cells that its values lie in."""
    table = wide_table(workload.subscriptions)
    names = list(table.low)
    coded = [table.codes.of_event(event) for event in workload.events]
    wanted = np.zeros(len(table.ids), np.uint8)
    parts: list[tuple[Int64s, ...]] = []
    least, shift = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
    for a, name in enumerate(names):
        wanted += ~table.free(name)
        bounds = np.concatenate([table.low[name], table.high[name], table.excluded[name]])
        bounds = bounds[(bounds != LOWEST) & (bounds != HIGHEST)]
        values = np.array([event[name] for event in coded if name in event] or [0], np.int64)
        least[a] = min(bounds.min(), values.min()) - 1
        span = int(max(bounds.max(), values.max()) + 1 - least[a])
        shift[a] = max(0, (span + 1).bit_length() - LEVELS)
        parts += _ranges(a, table.low[name], table.high[name], table.excluded[name], int(least[a]), span)
    attribute, subscription, low, high = (np.concatenate(each) for each in zip(*parts, strict=True))
    index = _index(attribute, subscription, low, high, len(names), shift)
    ids, left, found = table.ids, np.empty_like(wanted), np.empty(len(wanted), np.int32)

    def match(values: Int64s) -> Sequence[int]:
        n = _walk(values, shift, *index, wanted, left, found)
        answer: Sequence[int] = ids[found[:n]]  # type: ignore[assignment]
        return answer

    def prepare(events: Sequence[Event]) -> Sequence[Int64s]:
        coded = [np.array([event.get(name, ABSENT) for name in names]) for event in map(table.codes.of_event, events)]
        values = [np.where(row == ABSENT, -1, row - least) for row in coded]
        match(values[0])  # compiled before it is timed
        return values

    return prepare, match


def _ranges(
    attribute: int, low: Int64s, high: Int64s, excluded: Int64s, least: int, span: int
) -> list[tuple[Int64s, ...]]:
    """Return attribute, subscription, low and high (counted from the least) of all ranges; those that are cut are two."""
    bounded = (low != LOWEST) | (high != HIGHEST) | (excluded != LOWEST)
    low, high = np.maximum(low - least, 0), np.minimum(high - least, span)
    cut = excluded != LOWEST
    first, second = high.copy(), low.copy()
    first[cut] = np.minimum(high[cut], excluded[cut] - least - 1)
    second[cut] = np.maximum(low[cut], excluded[cut] - least + 1)
    found = []
    for chosen, start, stop in ((bounded, low, first), (cut, second, high)):
        rows = np.flatnonzero(chosen & (start <= stop))
        found.append((np.full(len(rows), attribute), rows, start[rows], stop[rows]))
    return found


def _index(
    attribute: Int64s, subscription: Int64s, low: Int64s, high: Int64s, attributes: int, shift: Int64s
) -> tuple[npt.NDArray[np.generic], ...]:
    """Return the lists of covered cells (start, subscriptions), and those of the finest cells (start, subscriptions, ends)."""
    counts = np.zeros(attributes << (LEVELS + 1), np.int64), np.zeros(attributes << LEVELS, np.int64)
    nothing, no_ends = np.zeros(0, np.int32), np.zeros((0, 2), np.int64)
    _cut(attribute, subscription, low, high, shift, *counts, nothing, nothing, no_ends)
    covered, partly = (np.concatenate([[0], np.cumsum(count)]) for count in counts)
    members, some = np.empty(covered[-1], np.int32), np.empty(partly[-1], np.int32)
    ends = np.empty((partly[-1], 2), np.int64)
    _cut(attribute, subscription, low, high, shift, covered[:-1].copy(), partly[:-1].copy(), members, some, ends)
    return covered, members, partly, some, ends


@numba.njit
def _cut(attribute, subscription, low, high, shift, covered, partly, members, some, ends):  # type: ignore[no-untyped-def]
    """Cut each range into cells and write its subscription to covered[cell]++ or partly[cell]++; without room, only count.

    Cell k of level d of an attribute is number 2**d + k of its own.
    """
    filling = len(members) + len(some) > 0
    for i in range(len(attribute)):
        a = attribute[i]
        first, last = low[i] >> shift[a], high[i] >> shift[a]
        whole = (np.int64(1) << shift[a]) - 1
        # The finest cells at both ends, where they are covered in part.
        for cell, part in ((first, (low[i] & whole) != 0 or (first == last and (high[i] & whole) != whole)),
                           (last, first != last and (high[i] & whole) != whole)):  # fmt: skip
            if part:
                at = (a << LEVELS) + cell
                if filling:
                    some[partly[at]] = subscription[i]
                    ends[partly[at], 0], ends[partly[at], 1] = low[i], high[i]
                partly[at] += 1
                if cell == first:
                    first += 1
                else:
                    last -= 1
        # What is between them, by the largest cells, as in a segment tree.
        left, right = first + (1 << LEVELS), last + (1 << LEVELS) + 1
        while left < right:
            if left & 1:
                at = (a << (LEVELS + 1)) + left
                if filling:
                    members[covered[at]] = subscription[i]
                covered[at] += 1
                left += 1
            if right & 1:
                right -= 1
                at = (a << (LEVELS + 1)) + right
                if filling:
                    members[covered[at]] = subscription[i]
                covered[at] += 1
            left >>= 1
            right >>= 1


@numba.njit
def _walk(values, shift, covered, members, partly, some, ends, wanted, left, found):  # type: ignore[no-untyped-def]
    """Write the subscriptions that an event matches to found; return how many. A value of -1 is absent."""
    left[:] = wanted
    n = 0
    for a in range(len(values)):
        value = values[a]
        if value < 0 or value >> shift[a] >= 1 << LEVELS:
            continue
        cell = value >> shift[a]
        at = (a << LEVELS) + cell
        for i in range(partly[at], partly[at + 1]):
            if ends[i, 0] <= value <= ends[i, 1]:
                s = some[i]
                left[s] -= 1
                if left[s] == 0:
                    found[n] = s
                    n += 1
        for level in range(LEVELS + 1):
            at = (a << (LEVELS + 1)) + (((1 << LEVELS) + cell) >> level)
            for i in range(covered[at], covered[at + 1]):
                s = members[i]
                left[s] -= 1
                if left[s] == 0:
                    found[n] = s
                    n += 1
    return n


if __name__ == "__main__":
    main(build)
