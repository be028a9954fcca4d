"""Schema-based clustering (Fabret et al. 2001, as the symmetric paper 3.1.3 describes it).

The access predicate of a cluster may be a conjunction of equality predicates; the attributes in it are its schema.
Multi-attribute hashing finds the clusters of an event: one look-up per schema. Within a cluster all subscriptions have
the same number of predicates, and the remaining ones are propagated as in propagation.py. Subscriptions without an
equality predicate are found by a single access predicate, as there.

The more attributes a schema has, the fewer subscriptions an event finds; the more schemas there are, the more look-ups
every event costs. Here a schema is made of a subscription's most selective equalities, WIDEST at most, as long as there
are fewer than MOST_SCHEMAS; after that a subscription takes the widest existing schema that it can, or makes one of a
single attribute. (Fabret et al. choose schemas by a cost model over event statistics; the columnar engine does.)
"""

from __future__ import annotations

from itertools import combinations
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.access import AccessIndex, access_predicate
from tocsin_lab.classic.clusters import Clusters
from tocsin_lab.classic.equality_clusters import EqualityClusters
from tocsin_lab.classic.front import ClassicMatcher
from tocsin_lab.classic.rows import CodedEvent, CodedPredicate

WIDEST = 3
MOST_SCHEMAS = 64


class SchemaClusteringMatcher(ClassicMatcher):
    """Conjunctions of equalities as access predicates."""

    name: ClassVar[str] = "schema-clustering"
    most_selective_first: ClassVar[bool] = True

    def _reset(self) -> None:
        self.hashed = EqualityClusters()
        self.by_equalities = Clusters()
        self.access = AccessIndex()
        self.by_interval = Clusters()
        self._hashed_rows: set[int] = set()

    def _choose(self, predicates: list[CodedPredicate]) -> list[CodedPredicate]:
        """Return the equalities that become the access predicate, none where the row has none."""
        columns = self.columns.columns
        usable = [found for found in predicates if found.is_equality and not columns[found.column].multiple]
        if len(self.hashed.schemas) < MOST_SCHEMAS:
            return usable[:WIDEST]
        for width in range(min(WIDEST, len(usable)), 1, -1):
            for chosen in combinations(usable, width):
                if tuple(sorted(found.column for found in chosen)) in self.hashed.schemas:
                    return list(chosen)
        return usable[:1]

    def _insert(self, row: int, predicates: list[CodedPredicate]) -> None:
        keys = self._choose(predicates)
        if keys:
            self._hashed_rows.add(row)
            remaining = [found for found in predicates if found not in keys]
            self.by_equalities.insert(self.hashed.group(keys), row, remaining)
        else:
            access = access_predicate(predicates)
            remaining = [found for found in predicates if found != access]
            self.by_interval.insert(self.access.acquire(predicates), row, remaining)

    def _delete(self, row: int, predicates: list[CodedPredicate]) -> None:
        if row in self._hashed_rows:
            self._hashed_rows.remove(row)
            self.by_equalities.remove(row)
        else:
            self.by_interval.remove(row)
            self.access.release(self.access.entry(predicates))

    def _match(self, event: CodedEvent) -> npt.NDArray[np.int32]:
        parts = [
            self.by_equalities.propagate(self.hashed.of_event(event), event, self.columns),
            self.by_interval.propagate(self.access.of_event(event), event, self.columns),
        ]
        self.work.subscriptions_checked += sum(looked_at for _, looked_at, _ in parts)
        self.work.predicates_checked += sum(checked for _, _, checked in parts)
        self.work.details["schemas"] = len(self.hashed.schemas)
        return np.concatenate([found for found, _, _ in parts])
