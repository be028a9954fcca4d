"""Equality clusters: rows found by the values of several equality predicates at once, by multi-attribute hashing.

The schema of a cluster is a set of columns; in it, rows with the same values on these columns form a group. An event is
looked up once in each schema whose columns it has all: O(number of schemas) look-ups, each O(columns of the schema).
Used by equality_preferred.py, quarantining.py (schema: all equality predicates of a row) and schema_clustering.py.

A group's key is longer than a hash key, so it is numbered step by step, value by value (numbering.py): the first step
starts from the schema, the last one is the group. No two keys are ever taken for one another.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tocsin.matching.classic.jit import helper, kernel
from tocsin.matching.classic.numbering import Numbering, find
from tocsin.matching.classic.rows import CodedEvent, CodedPredicate, grown


class EqualityClusters:
    """Schemas and their groups; a group is a number that the engine hangs its rows on."""

    def __init__(self) -> None:
        self.schemas: dict[tuple[int, ...], int] = {}
        self._offset = np.zeros(1, np.int64)  # per schema, and one past the end: its columns
        self._columns = np.zeros(0, np.int64)
        self._steps = Numbering()
        self._found = np.zeros(16, np.int64)

    def group(self, equalities: list[CodedPredicate]) -> int:
        """Return the group of the rows with these equality predicates, on distinct columns."""
        ordered = sorted(equalities)
        columns = tuple(predicate.column for predicate in ordered)
        schema = self.schemas.setdefault(columns, len(self.schemas))
        if schema == len(self._offset) - 1:
            self._offset = np.append(self._offset, self._offset[-1] + len(columns))
            self._columns = np.append(self._columns, np.array(columns, np.int64))
        step = -1 - schema
        for predicate in ordered:
            step = self._steps.number(step, predicate.low)
        return step

    @property
    def groups(self) -> int:
        """How many group numbers there may be."""
        return len(self._steps)

    def of_event(self, event: CodedEvent) -> npt.NDArray[np.int64]:
        """Return the groups all of whose equality predicates the event satisfies."""
        self._found = grown(self._found, len(self.schemas))
        count = look_up_groups(self._offset, self._columns, *self._steps.arrays[:2], *event, self._found)
        return self._found[:count]


@helper
def step_on(slots, keys, step, label):  # type: ignore[no-untyped-def]
    """Return the number of the next step, or -1."""
    return slots[find(slots, keys, step, label, 0, 0)]


@kernel
def look_up_groups(schema_offset, columns, slots, keys, offset, labels, present, found):  # type: ignore[no-untyped-def]
    """Write the groups of an event that has one label in each of a schema's columns."""
    count = 0
    for schema in range(len(schema_offset) - 1):
        step = np.int64(-1 - schema)
        for c in range(schema_offset[schema], schema_offset[schema + 1]):
            if not present[columns[c]]:
                step = np.int64(-1)
                break
            step = np.int64(step_on(slots, keys, step, labels[offset[columns[c]]]))
            if step < 0:
                break
        if step >= 0:
            found[count] = step
            count += 1
    return count
