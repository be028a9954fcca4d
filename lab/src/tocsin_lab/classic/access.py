"""Access predicates: the interval by which a row is found, in the balanced IBS trees of its column.

Shared by hanson.py and propagation.py (and schema_clustering.py, for rows without equality). The access predicate of a
row is its most selective predicate that is an interval; equal intervals share one entry. A row whose predicates are
all of other kinds has none and is looked at for every event, like the non-indexable clauses of Hanson et al.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.ibs_tree import IbsForest
from tocsin_lab.classic.numbering import Numbering
from tocsin_lab.classic.rows import SOME_IN, CodedEvent, CodedPredicate, grown

EVERY_EVENT = 0  # the entry of the rows without access predicate


def access_predicate(predicates: list[CodedPredicate]) -> CodedPredicate | None:
    """Return the most selective interval of predicates in that order."""
    return next((found for found in predicates if found.kind == SOME_IN), None)


class AccessIndex:
    """Entries 1, 2, ...: one per distinct access predicate in use; entry 0 is found by every event."""

    def __init__(self) -> None:
        self.forest = IbsForest()
        self._numbering = Numbering()
        self._uses = np.zeros(16, np.int64)

    def acquire(self, predicates: list[CodedPredicate]) -> int:
        """Return the entry of a row with these predicates."""
        access = access_predicate(predicates)
        if access is None:
            return EVERY_EVENT
        entry = 1 + self._numbering.number(*access)
        self._uses = grown(self._uses, entry + 1)
        if self._uses[entry] == 0:
            self.forest.insert(entry, access.column, access.low, access.high)
        self._uses[entry] += 1
        return entry

    def entry(self, predicates: list[CodedPredicate]) -> int:
        """Return the entry of a row that is here."""
        access = access_predicate(predicates)
        return EVERY_EVENT if access is None else 1 + self._numbering.number(*access)

    def release(self, entry: int) -> None:
        """Let go of one use of an entry."""
        if entry != EVERY_EVENT:
            self._uses[entry] -= 1
            if self._uses[entry] == 0:
                self.forest.remove(entry)

    @property
    def entries(self) -> int:
        """How many entry numbers there are."""
        return len(self._numbering) + 1

    def of_event(self, event: CodedEvent) -> npt.NDArray[np.int64]:
        """Return the entries whose access predicate the event satisfies."""
        return np.concatenate([np.array([EVERY_EVENT]), self.forest.of_event(event)])
