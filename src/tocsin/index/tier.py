"""Tier: one segment of a living index, with what has happened to it since it was built.

The segment never changes on disk. What left it is remembered here, and marked in private memory so that matching skips
it; merging leaves it out for good.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tocsin.compile.ids import Ids
from tocsin.index.encode import SegmentEncoder
from tocsin.index.id_places import IdPlaces
from tocsin.index.segment import FOREVER, Segment

Int64s = npt.NDArray[np.int64]


@dataclass(eq=False)
class Tier:
    """A segment, and the subscriptions that left it since it was built.

    `dead` maps the number of a subscription to the seq from which on it matches nothing; 0 is at once and for every
    event.
    """

    name: str
    segment: Segment
    dead: dict[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.segment) - len(self.dead)

    @cached_property
    def encoder(self) -> SegmentEncoder:
        return SegmentEncoder(self.segment)

    def number_of(self, id: object) -> int | None:
        """Return the number of a living subscription; None where the tier has none of that id."""
        number = self._places.of(id)
        return None if number is None or number in self.dead else number

    def first_of(self, ids: Ids) -> int | None:
        """Return the position of the first of these ids that is a living subscription's here; None where none is."""
        known = np.flatnonzero(self.numbers_of(ids) >= 0)
        return int(known[0]) if len(known) else None

    def numbers_of(self, ids: Ids) -> Int64s:
        """Return the numbers of living subscriptions; -1 where the tier has none of an id."""
        numbers = self._places.of_all(ids)
        if self.dead:
            numbers[np.isin(numbers, np.fromiter(self.dead, np.int64))] = -1
        return numbers

    @cached_property
    def _places(self) -> IdPlaces:
        return IdPlaces(self.segment.ids)

    def bury(self, number: int, seq: int = 0) -> None:
        """Let a subscription match nothing from seq on; 0: at once."""
        self.dead[number] = seq
        self._mark(np.array([number], np.int64), seq)

    def bury_all(self, dead: dict[int, int]) -> None:
        """Do so for many; those that are buried already stay as they are."""
        new = {number: seq for number, seq in dead.items() if number not in self.dead}
        self.dead.update(new)
        for seq in set(new.values()):
            self._mark(np.array([number for number, at in new.items() if at == seq], np.int64), seq)

    def _mark(self, numbers: Int64s, seq: int) -> None:
        if seq == 0:
            self.segment.kill(numbers)
        else:
            self.segment.delete(numbers, seq)

    def copied(self) -> Tier:
        """Return a tier whose later deletions do not reach this one."""
        whole = self.segment
        segment = Segment(whole.buffer.copy(), whole.directory, whole.columns, whole.properties)
        copy = Tier(self.name, segment, dict(self.dead))
        for seq in set(self.dead.values()) - {0}:
            segment.delete(np.array([number for number, at in self.dead.items() if at == seq], np.int64), seq)
        return copy

    def lifetimes(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Return created, deleted, lease start and lease end of each subscription, written out."""
        count = len(self.segment)
        created, deleted, start, end = (np.asarray(each) for each in self.segment.lifetimes())
        return (
            created if len(created) else np.full(count, -1, np.int64),
            deleted if len(deleted) else np.full(count, FOREVER, np.int64),
            start if len(start) else np.full(count, -FOREVER, np.int64),
            end if len(end) else np.full(count, FOREVER, np.int64),
        )
