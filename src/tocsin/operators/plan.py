"""Plan: the conjunctions that a matcher holds, as arrays that grow with every subscription and are never made anew.

A conjunction gets a place when it is added, and keeps it; one that is removed leaves its place empty, which nobody asks
for. A Workload is a view of the arrays, so that events under way are not disturbed by what comes after. When more places
are empty than not, `compacted` makes another plan.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tocsin.matching.matcher import SubscriptionId
from tocsin.operators.conjunction import Conjunction
from tocsin.operators.growing_array import GrowingArray
from tocsin.operators.predicates import Predicates
from tocsin.operators.problem import Int32s, Workload

_FEW = 1_000  # empty places that are not worth another plan


class Plan:
    """Adding or removing a conjunction takes time in proportion to its members."""

    def __init__(self, predicates: Predicates) -> None:
        self.conjunctions: list[Conjunction] = []  # by place
        self.owners: list[SubscriptionId] = []  # by place
        self._predicates = predicates
        self._position = GrowingArray(np.int32)  # of each alternative; -1 where its cheap part decides
        self._starts = GrowingArray(np.int64, [0])
        self._members = GrowingArray(np.int32)
        self._negated = GrowingArray(np.bool_)
        self._owner = GrowingArray(np.int32)
        self._removed: set[int] = set()  # places
        self._lineage = object()
        self._workload: Workload | None = None

    def __len__(self) -> int:
        return len(self.conjunctions) - len(self._removed)

    @property
    def position(self) -> Int32s:
        """[alternatives] The place of each among the conjunctions; -1 where there is nothing to ask."""
        return self._position.view

    def add(self, owner: SubscriptionId, number: int, conjunction: Conjunction | None) -> None:
        """Take the next alternative, one of the subscription of that number; None: its cheap part decides."""
        self._workload = None
        if conjunction is None:
            self._position.extend([-1])
            return
        self._position.extend([len(self.conjunctions)])
        self.conjunctions.append(conjunction)
        self.owners.append(owner)
        self._owner.extend([number])
        self._members.extend([predicate for predicate, _ in conjunction.members])
        self._negated.extend([negated for _, negated in conjunction.members])
        self._starts.extend([len(self._members)])

    def remove(self, alternatives: Sequence[int]) -> list[Conjunction]:
        """Let go of alternatives; return their conjunctions."""
        places = [int(place) for place in self.position[list(alternatives)] if place >= 0]
        self._removed.update(places)
        return [self.conjunctions[place] for place in places]

    @property
    def is_sparse(self) -> bool:
        """Whether another plan would be much smaller."""
        return len(self._removed) > max(_FEW, len(self))

    def compacted(self, predicates: Predicates, numbers: dict[int, int] | None = None) -> Plan:
        """Return a plan without the empty places; with other predicates, `numbers` has the new number of each."""
        kept = np.setdiff1d(np.arange(len(self.conjunctions)), np.fromiter(self._removed, np.int64))
        sizes = np.diff(self._starts.view)
        of_kept = np.repeat(np.isin(np.arange(len(sizes)), kept), sizes)
        place = np.full(len(sizes) + 1, -1, np.int32)  # the last, for -1
        place[kept] = np.arange(len(kept))
        members = self._members.view[of_kept]
        if numbers is not None:
            renumbered = np.zeros(1 + max(numbers, default=0), np.int32)
            renumbered[list(numbers)] = list(numbers.values())
            members = renumbered[members]
        made = Plan(predicates)
        chosen = [self.conjunctions[at] for at in kept.tolist()]
        made.conjunctions = chosen if numbers is None else [each.renumbered(numbers) for each in chosen]
        made.owners = [self.owners[at] for at in kept.tolist()]
        made._position = GrowingArray(np.int32, place[self.position])
        made._starts = GrowingArray(np.int64, np.concatenate([[0], np.cumsum(sizes[kept])]))
        made._members = GrowingArray(np.int32, members)
        made._negated = GrowingArray(np.bool_, self._negated.view[of_kept])
        made._owner = GrowingArray(np.int32, self._owner.view[kept])
        return made

    @property
    def workload(self) -> Workload:
        """The conjunctions as schedules see them; those at empty places are never candidates."""
        if self._workload is None:
            self._workload = Workload(
                operator=self._predicates.operator(),
                argument=self._predicates.argument(),
                starts=self._starts.view,
                members=self._members.view,
                negated=self._negated.view,
                owner=self._owner.view,
                lineage=self._lineage,
            )
        return self._workload

    def check(self) -> None:
        """Assert what the class promises."""
        self.workload.check()
        assert len(self.owners) == len(self.conjunctions) == self.workload.conjunctions
        for place, conjunction in enumerate(self.conjunctions):
            members, negated = self.workload.of(place)
            assert tuple(zip(members.tolist(), negated.tolist(), strict=True)) == conjunction.members
        used = self.position[self.position >= 0].tolist()
        assert used == sorted(set(used)), "two alternatives at one place"
