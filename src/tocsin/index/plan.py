"""The planner: which access schemas a segment has, and under which of them each conjunction lives.

An access schema is one to three columns (or bucket grids of columns) whose values form a key; conjunctions with the
same key are a cluster, which only events with that key visit. Rule: minimise, over a sample of the conjunctions,

    sum over conjunctions of P(an event visits its cluster) * row cost  +  schemas * probe cost

greedily: take the schema that saves most, until none saves more than its probe costs; then drop those that later
ones made useless. What no schema improves lives in the root cluster, which every event visits. A conjunction whose key has
a list lives in the cluster of each of its values.
Input from index/lowering.py; the result goes to index/build.py.
"""

# The kernels below take arrays only, named after what they hold; Numba, not mypy, checks their arithmetic.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tocsin.compile.table import PredicateKind
from tocsin.index.jit import kernel
from tocsin.index.layout import GENERIC

if TYPE_CHECKING:
    from tocsin.compile.table import ConjunctionTable
    from tocsin.index.lowering import Lowered

MAX_WIDTH = 3
MAX_SCHEMAS = 64
MAX_KEYS = 2**62
SAMPLE = 20_000
LISTED_TOGETHER = 32  # rows that a conjunction may become by lists in a key of several columns
SOME_IN = int(PredicateKind.SOME_IN)
_NO_ACCESS = np.float32(2.0)

Schema = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlanCosts:
    """Estimated nanoseconds per event: for a row of a visited cluster, and for the probe of a schema.

    A list that is tested costs `listed` for each row and event: it is looked up.
    A block has filters (index/rows.py) where they let at most `passing` of the pairs of an event and a row through.
    Rows with at least `ranged` ranges over columns of more than `many_codes` codes are stored in bands (index/ranges.py) where that saves
    more, for a tile of 64 events: an end that is an atom of its block costs `local`, an interval in bands `interval`, and
    the words of a column's bands `bands`.
    """

    row: float = 0.1
    listed: float = 20.0
    probe: float = 250.0
    passing: float = 1 / 128
    ranged: int = 4
    many_codes: int = 510  # of fewer, atoms are dense (index/build.py)
    local: float = 1.5
    interval: float = 0.5
    bands: float = 150.0


@dataclass(frozen=True, slots=True)
class Placement:
    """The rows that conjunctions become: of each its schema (-1: the root cluster), and its key there.

    A conjunction is one row, but for lists in its key: then it has a row for each of the values.
    """

    schemas: list[Schema]
    conjunction: npt.NDArray[np.int64]  # per row, ascending
    schema: npt.NDArray[np.int32]
    key: npt.NDArray[np.uint64]
    replaced: npt.NDArray[np.bool_]  # per atom: the key says it
    several: npt.NDArray[np.bool_]  # per conjunction: an event may find it by more than one of its rows


@dataclass(frozen=True, slots=True)
class AccessColumns:
    """What keys are made of: the columns, then the bucket grids; `values` is the number of values of each."""

    values: npt.NDArray[np.int64]
    multiple: npt.NDArray[np.bool_]

    def allows(self, schema: Schema) -> bool:
        """Return whether keys of the schema fit 62 bits and have at most one multiple column."""
        keys = 1
        for access in schema:
            keys *= int(self.values[access])
        return keys < MAX_KEYS and sum(bool(self.multiple[access]) for access in schema) <= 1


def choose_schemas(lowered: Lowered, access: AccessColumns, costs: PlanCosts) -> list[Schema]:
    """Return the access schemas by the rule in the module's head, most useful first."""
    n = len(lowered.never)
    lists = np.zeros(len(lowered.access.codes) + 1, np.int64)
    np.cumsum(lowered.access.codes > 1, out=lists[1:])
    looked_up = np.diff(lists[lowered.access.offset]).astype(np.float64)
    # What else is looked up costs a block once for all rows that ask the same.
    generic = lowered.atoms.kind == GENERIC
    if generic.any():
        distinct = len(np.unique(lowered.atoms.value[generic])) / generic.sum()
        asked = np.concatenate([np.zeros(1, np.int64), np.cumsum(generic)])
        looked_up = np.maximum(looked_up, distinct * np.diff(asked[lowered.atoms.offset]))
    cost = costs.row + costs.listed * looked_up
    if cost.sum() <= costs.probe or not len(lowered.access.column):
        return []
    # Evenly spaced, not random: the same conjunctions give the same plan.
    sample = np.arange(0, n, max(1, -(-n // SAMPLE)))
    weight = n / len(sample) * cost[sample]
    selectivity = _selectivity_matrix(
        sample, len(access.values), lowered.access.offset, lowered.access.column, lowered.access.selectivity
    )
    return _Greedy(selectivity, access, weight, costs.probe).run()


class _Greedy:
    """The greedy choice over a sample; `share[row]` is the probability that an event visits the row so far."""

    def __init__(
        self,
        selectivity: npt.NDArray[np.float32],
        access: AccessColumns,
        weight: npt.NDArray[np.float64],
        probe: float,
    ) -> None:
        self.selectivity, self.access, self.weight, self.probe = selectivity, access, weight, probe
        self.has = selectivity < 1.5
        # A schema must save more than its probe, so that its rows must cost as much at least.
        self.useful = [int(a) for a in np.flatnonzero(weight @ self.has >= probe) if self.has[:, a].any()]
        self.candidates: dict[Schema, tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]] = {}

    def run(self) -> list[Schema]:
        share = np.ones(len(self.selectivity), np.float32)
        for width in (1, 2):
            for schema in combinations(self.useful, width):
                self._consider(schema)
        chosen: list[Schema] = []
        while len(chosen) < MAX_SCHEMAS:
            best = self._best(share, chosen)
            if best is None:
                break
            chosen.append(best)
            rows, selectivity = self.candidates[best]
            share[rows] = np.minimum(share[rows], selectivity)
            if len(best) < MAX_WIDTH:
                for a in self.useful:
                    if a not in best:
                        self._consider(tuple(sorted((*best, a))))
        return self._prune(chosen)

    def _consider(self, schema: Schema) -> None:
        if schema in self.candidates or not self.access.allows(schema):
            return
        has = self.has[:, schema[0]]
        for a in schema[1:]:
            has = has & self.has[:, a]
        rows = np.flatnonzero(has)
        if len(rows) and self.weight[rows].sum() >= self.probe:
            product = self.selectivity[rows, schema[0]].copy()
            for a in schema[1:]:
                product *= self.selectivity[rows, a]
            self.candidates[schema] = (rows, product)

    def _best(self, share: npt.NDArray[np.float32], chosen: list[Schema]) -> Schema | None:
        best, most = None, 0.0
        for schema, (rows, selectivity) in self.candidates.items():
            if schema in chosen:
                continue
            saved = float(np.maximum(share[rows] - selectivity, 0) @ self.weight[rows]) - self.probe
            if saved > most:
                best, most = schema, saved
        return best

    def _prune(self, chosen: list[Schema]) -> list[Schema]:
        shares = np.full((len(chosen) + 1, len(self.selectivity)), _NO_ACCESS, np.float32)
        shares[-1] = 1.0
        for i, schema in enumerate(chosen):
            rows, selectivity = self.candidates[schema]
            shares[i, rows] = selectivity
        while chosen:
            ranked = np.sort(np.partition(shares, 1, axis=0)[:2], axis=0)
            owner = np.argmin(shares, axis=0)
            gain = np.bincount(owner, (ranked[1] - ranked[0]) * self.weight, minlength=len(chosen) + 1)[:-1]
            least = int(np.argmin(gain))
            if gain[least] >= self.probe:
                break
            del chosen[least]
            shares = np.delete(shares, least, axis=0)
        return chosen


def place(table: ConjunctionTable, lowered: Lowered, access: AccessColumns, schemas: list[Schema]) -> Placement:
    """Return where each conjunction lives: under the schema that the fewest events pass, the first of equals."""
    width = np.array([len(schema) for schema in schemas], np.int64)
    members = np.full((max(1, len(schemas)), MAX_WIDTH), -1, np.int64)
    for i, schema in enumerate(schemas):
        members[i, : len(schema)] = schema
    placed = _place(
        lowered.access, width, members, access.values, access.multiple, len(lowered.atoms.column), table.predicates
    )
    return Placement(schemas, *placed)


@kernel
def _selectivity_matrix(sample, accesses, access_offset, access_column, access_selectivity):
    """Return selectivity[row, access column] of the sampled conjunctions, 2 where they have no candidate."""
    matrix = np.full((len(sample), accesses), _NO_ACCESS, np.float32)
    for row in range(len(sample)):
        for x in range(access_offset[sample[row]], access_offset[sample[row] + 1]):
            c = access_column[x]
            matrix[row, c] = min(matrix[row, c], access_selectivity[x])
    return matrix


@kernel
def _place(access, width, members, values, multiple, atoms, predicates):
    """Return conjunction, schema, key, replaced and several of Placement."""
    access_offset, access_column, access_value, access_codes, access_selectivity, access_atom = access
    kind, low, high = predicates.kind, predicates.low, predicates.high
    set_offset, set_low, set_high = predicates.set_offset, predicates.set_low, predicates.set_high
    n = len(access_offset) - 1
    chosen_schema, rows = np.full(n, -1, np.int32), np.ones(n, np.int64)
    chosen_access, replaced = np.full((n, MAX_WIDTH), -1, np.int64), np.zeros(atoms, np.bool_)
    candidate = np.full(len(values), -1, np.int64)
    several = np.zeros(n, np.bool_)
    for i in range(n):
        for x in range(access_offset[i], access_offset[i + 1]):
            known = candidate[access_column[x]]
            if known < 0 or access_selectivity[x] < access_selectivity[known]:
                candidate[access_column[x]] = x
        # The schema that the fewest events pass; a list may not multiply the rows of a key of several columns.
        best, chosen = np.float32(1.0), -1
        for s in range(len(width)):
            product, keys = np.float32(1.0), 1
            for t in range(width[s]):
                x = candidate[members[s, t]]
                keys *= access_codes[x] if x >= 0 else 1
                if x < 0 or (width[s] > 1 and keys > LISTED_TOGETHER):
                    product = np.float32(2.0)
                else:
                    product *= access_selectivity[x]
                if product > best:
                    break
            if product < best:
                best, chosen = product, s
        if chosen >= 0:
            chosen_schema[i] = chosen
            for t in range(width[chosen]):
                x = candidate[members[chosen, t]]
                chosen_access[i, t] = x
                rows[i] *= access_codes[x]
                several[i] |= access_codes[x] > 1 and multiple[access_column[x]]
                if access_atom[x] >= 0:
                    replaced[access_atom[x]] = True
        for x in range(access_offset[i], access_offset[i + 1]):
            candidate[access_column[x]] = -1
    # A row for each combination of the values of its lists: the key of each is written out.
    total = rows.sum()
    conjunction, key = np.empty(total, np.int64), np.zeros(total, np.uint64)
    start = 0
    for i in range(n):
        stop = start + rows[i]
        conjunction[start:stop] = i
        each = rows[i]  # rows that share a value of the column before
        for t in range(width[chosen_schema[i]] if chosen_schema[i] >= 0 else 0):
            x = chosen_access[i, t]
            radix, count = np.uint64(values[access_column[x]]), np.int64(access_codes[x])
            each //= count
            if count == 1:
                value = np.uint64(access_value[x])
                for r in range(start, stop):
                    key[r] = key[r] * radix + value
                continue
            j = access_value[x]
            first, last = np.int64(0), np.int64(1)
            if kind[j] != SOME_IN:
                first, last = set_offset[low[j]], set_offset[low[j] + 1]
            r = start
            while r < stop:
                for s in range(first, last):
                    a, b = (low[j], high[j]) if kind[j] == SOME_IN else (set_low[s], set_high[s])
                    for code in range(max(a, 0), min(np.int64(b), values[access_column[x]] - 1) + 1):
                        for _ in range(each):
                            key[r] = key[r] * radix + np.uint64(code)
                            r += 1
        start = stop
    return conjunction, chosen_schema[conjunction], key, replaced, several
