"""The propagation algorithm (Le Subscribe's extension of Hanson's, as the symmetric paper 3.1.3 describes it).

Subscriptions with the same access predicate and the same number of predicates form a cluster. The access predicates
are in balanced IBS trees, as in Hanson's algorithm; in the clusters found, the remaining predicates are tested step by
step, most selective first, and only the subscriptions that survive a step reach the next (clusters.py).

Time for an event: O(log n) per attribute, plus one test per (row, step survived); each pass reads memory in order.
Insertion and removal are incremental: O(log n) in the tree, O(predicates) in the cluster.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.access import AccessIndex, access_predicate
from tocsin_lab.classic.clusters import Clusters
from tocsin_lab.classic.front import ClassicMatcher
from tocsin_lab.classic.rows import CodedEvent, CodedPredicate


class PropagationMatcher(ClassicMatcher):
    """One access predicate per cluster."""

    name: ClassVar[str] = "propagation"
    most_selective_first: ClassVar[bool] = True

    def _reset(self) -> None:
        self.access = AccessIndex()
        self.clusters = Clusters()

    def _insert(self, row: int, predicates: list[CodedPredicate]) -> None:
        access = access_predicate(predicates)
        entry = self.access.acquire(predicates)
        self.clusters.insert(entry, row, [found for found in predicates if found != access])

    def _delete(self, row: int, predicates: list[CodedPredicate]) -> None:
        self.clusters.remove(row)
        self.access.release(self.access.entry(predicates))

    def _match(self, event: CodedEvent) -> npt.NDArray[np.int32]:
        found, looked_at, checked = self.clusters.propagate(self.access.of_event(event), event, self.columns)
        self.work.subscriptions_checked += looked_at
        self.work.predicates_checked += checked
        return found
