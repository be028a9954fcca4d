"""Segment: an immutable index over a batch of conjunctions, as one buffer of flat arrays.

Built by index/build.py, stored by index/index_folder.py, read by the kernels of matching/columnar/, checked by
index/check.py. The picture, and what each section holds: docs/engine.md and index/layout.py.

Rows die in place: the last atom of a dead row is FALSE, or its bit among RANGE_ALIVE is not set. In a mapped segment that write goes to a private page, so
that the file and the other processes do not see it (tombstones reach those through the manifest).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import kernel
from tocsin.index.layout import (
    FALSE_ATOM,
    FOREVER,
    SCALARS,
    Bytes,
    Directory,
    Scalar,
    Section,
    dtype_of,
    int32_section,
    uint8_section,
    uint16_section,
    uint64_section,
)
from tocsin.index.names import Names, read_ids, read_names
from tocsin.index.properties import StoredProperties
from tocsin.index.ranges import alive_bit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tocsin.compile.ids import Ids
    from tocsin.compile.properties import Property
    from tocsin.compile.table import Check, Column
    from tocsin.index.explain import ConjunctionPlans
    from tocsin.schema import Domain, Value


@dataclass(frozen=True, slots=True)
class SegmentStats:
    """Figures of a whole segment."""

    subscriptions: int
    rows: int
    clusters: int
    blocks: int
    root_rows: int
    schemas: list[tuple[str, ...]]
    dense_atoms: int
    local_atoms: int
    bytes_total: int
    bytes_per_subscription: float  # of the index itself: without ids, names, constants and lifetimes


class Segment:
    """The sections of one segment; subscriptions are numbered 0 .. subscriptions-1, `ids` says who they are."""

    def __init__(
        self,
        buffer: Bytes,
        directory: Directory,
        columns: Sequence[Column] | None = None,
        properties: Mapping[str, Property] | None = None,
    ) -> None:
        self.buffer, self.directory = buffer, directory
        self._given_columns = columns
        self._given_properties = properties
        self.domain_of: Callable[[str], Domain] | None = None
        self.dead = 0
        self._deleted: npt.NDArray[np.int64] | None = None
        self._bounds: tuple[int, int, int, int] | None = None

    def section(self, section: Section) -> npt.NDArray[Any]:
        """Return a section as an array, without a copy."""
        start, size = self.directory[2 * section], self.directory[2 * section + 1]
        return self.buffer[start : start + size].view(dtype_of(section))

    def scalar(self, scalar: Scalar) -> int:
        return int(self.directory[SCALARS + scalar])

    def __len__(self) -> int:
        return self.scalar(Scalar.SUBSCRIPTIONS)

    @cached_property
    def names(self) -> Names:
        """The columns and checks."""
        domains: dict[str, Any] = {column.attribute: column.domain for column in self._given_columns or ()}
        domain_of = self.domain_of or domains.__getitem__
        return read_names(self.section(Section.NAMES), self.section(Section.CONSTANTS), domain_of)

    def set_domains(self, domain_of: Callable[[str], Domain]) -> None:
        """Let the domains of attributes be these: later versions of what they were."""
        self.domain_of, self._given_columns, self._given_properties = domain_of, None, None
        for name in ("names", "properties"):
            self.__dict__.pop(name, None)

    @property
    def columns(self) -> Sequence[Column]:
        return self.names.columns

    def properties_of(self, number: int) -> dict[str, Value]:
        """Return the properties of one who subscribes, by name."""
        found = ((name, each.column.value(number)) for name, each in self.properties.items())
        return {name: value for name, value in found if value is not None}

    @cached_property
    def properties(self) -> Mapping[str, Property]:
        """The properties of those who subscribe, by name."""
        if self._given_properties is not None:
            return self._given_properties
        assert self.domain_of is not None or not self.names.properties, "a segment without its schema"
        domain_of = self.domain_of or _no_domain
        return StoredProperties(self.names.properties, self.section(Section.PROPERTIES), domain_of, len(self))

    @property
    def checks(self) -> Sequence[Check]:
        return self.names.checks

    @cached_property
    def ids(self) -> Ids:
        """The identity of each subscription."""
        return read_ids(self.section(Section.IDS), self.section(Section.ID_OFFSET), self.ids_are_text)

    @cached_property
    def ids_are_text(self) -> bool:
        """Whether some ids are texts."""
        return bool(self.scalar(Scalar.IDS_ARE_TEXT))

    @cached_property
    def has_checks(self) -> bool:
        """Whether some row has checks."""
        return len(self.section(Section.CHECKED_ROW)) > 0

    @cached_property
    def repeated(self) -> npt.NDArray[np.uint8]:
        """One bit per subscription, set where it has several rows; empty if none has."""
        return self.section(Section.REPEATED)

    @cached_property
    def _rows_of(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The rows in order of their subscription, and where each subscription starts among them."""
        numbers = self.numbers_of_rows()
        start = np.zeros(len(self) + 1, np.int32)
        np.cumsum(np.bincount(numbers, minlength=len(self)), out=start[1:])
        return np.argsort(numbers, kind="stable").astype(np.int32), start

    def rows_of(self, number: int) -> npt.NDArray[np.int32]:
        """Return the rows of a subscription."""
        rows, start = self._rows_of
        return rows[start[number] : start[number + 1]]

    def numbers_of_rows(self) -> npt.NDArray[np.int32]:
        """Return the subscription number of each row."""
        numbers = self.section(Section.NUMBERS)[: self.scalar(Scalar.ROWS)].copy()
        numbers[self.section(Section.CHECKED_ROW)] = self.section(Section.CHECKED_NUMBER)
        return numbers

    def kill(self, numbers: npt.NDArray[np.int64]) -> None:
        """Make subscriptions match nothing any more: about 50 ns each, visible to the next match."""
        rows, start = self._rows_of
        chosen = np.concatenate([rows[start[n] : start[n + 1]] for n in numbers.tolist()] or [rows[:0]])
        self.dead += kill_rows(self.buffer, self.directory, np.ascontiguousarray(chosen))

    def lifetimes(self) -> tuple[npt.NDArray[np.int64], ...]:
        """Return created, deleted, lease start and lease end of each subscription; empty arrays stand for always.

        A subscription is live for an event when created < seq < deleted and lease_start <= arrival < lease_end.
        """
        deleted = self.section(Section.DELETED) if self._deleted is None else self._deleted
        return (
            self.section(Section.CREATED), deleted, self.section(Section.LEASE_START), self.section(Section.LEASE_END)
        )  # fmt: skip

    def lifetime_bounds(self) -> tuple[int, int, int, int]:
        """Return the latest creation, the earliest deletion, the latest lease start and the earliest lease end."""
        if self._bounds is None:
            created, deleted, lease_start, lease_end = self.lifetimes()
            self._bounds = (
                int(created.max(initial=-FOREVER)), int(deleted.min(initial=FOREVER)),
                int(lease_start.max(initial=-FOREVER)), int(lease_end.min(initial=FOREVER)),
            )  # fmt: skip
        return self._bounds

    def delete(self, numbers: npt.NDArray[np.int64], seq: int) -> None:
        """Make subscriptions match no event from seq on, but still events before it."""
        if self._deleted is None:
            stored = self.section(Section.DELETED)
            self._deleted = stored.copy() if len(stored) else np.full(len(self), FOREVER, np.int64)
        self._deleted[numbers] = np.minimum(self._deleted[numbers], seq)
        self._bounds = None

    def alive_rows(self) -> npt.NDArray[np.bool_]:
        """Return per row whether it is alive."""
        return rows_alive(self.buffer, self.directory, np.arange(self.scalar(Scalar.ROWS), dtype=np.int32))

    def living(self, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Return which of these rows are alive."""
        return rows_alive(self.buffer, self.directory, rows)

    def plan(self, number: int, visited: npt.NDArray[np.float64] | None = None) -> ConjunctionPlans:
        """Return how each conjunction of a subscription is found, given the share of events that visit each block."""
        from tocsin.index.explain import plan_of

        return plan_of(self, number, visited)

    def check(self) -> None:
        """Assert every invariant of the layout."""
        from tocsin.index.check import check_segment

        check_segment(self)

    def stats(self) -> SegmentStats:
        """Return figures of the whole segment."""
        from tocsin.index.explain import describe_schemas

        core = [section for section in Section if section < Section.CREATED]
        size = sum(int(self.directory[2 * section + 1]) for section in core)
        next_block = self.section(Section.BLOCK_NEXT)
        stripe_row, block_stripe = self.section(Section.STRIPE_ROW), self.section(Section.BLOCK_STRIPE)
        root_end = int(np.argmin(next_block)) + 1 if self.scalar(Scalar.ROOT) >= 0 else 0
        return SegmentStats(
            subscriptions=len(self),
            rows=self.scalar(Scalar.ROWS),
            clusters=int((next_block == 0).sum()),
            blocks=self.scalar(Scalar.BLOCKS),
            root_rows=int(stripe_row[block_stripe[root_end]]) if root_end else 0,
            schemas=describe_schemas(self),
            dense_atoms=self.scalar(Scalar.DENSE_ATOMS),
            local_atoms=len(self.section(Section.LOCAL_VALUE)),
            bytes_total=len(self.buffer),
            bytes_per_subscription=size / max(1, len(self)),
        )


def _no_domain(attribute: str) -> Domain:
    raise KeyError(attribute)


@kernel
def kill_rows(buffer: Bytes, directory: Directory, rows: npt.NDArray[np.int32]) -> int:
    """Write FALSE into the last atom of each row, or clear its bit; return how many were alive."""
    atoms = uint16_section(buffer, directory, Section.ATOMS)
    stripe_row = int32_section(buffer, directory, Section.STRIPE_ROW)
    stripe_data = int32_section(buffer, directory, Section.STRIPE_DATA)
    stripe_width = uint8_section(buffer, directory, Section.STRIPE_WIDTH)
    block_stripe = int32_section(buffer, directory, Section.BLOCK_STRIPE)
    block_ranges = int32_section(buffer, directory, Section.BLOCK_RANGES)
    alive = uint64_section(buffer, directory, Section.RANGE_ALIVE)
    killed = 0
    for i in range(len(rows)):
        bit = alive_bit(rows[i], block_stripe, stripe_row, block_ranges)
        if bit >= 0:
            mask = np.uint64(1) << np.uint64(bit & 63)
            killed += alive[bit >> 6] & mask != 0
            alive[bit >> 6] &= ~mask
            continue
        s = np.searchsorted(stripe_row, rows[i], side="right") - 1
        last = np.int64(stripe_data[s]) + np.int64(rows[i] - stripe_row[s] + 1) * np.int64(stripe_width[s]) - 1
        killed += atoms[last] != FALSE_ATOM
        atoms[last] = FALSE_ATOM
    return killed


@kernel
def rows_alive(buffer: Bytes, directory: Directory, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Return per row of these whether it is alive."""
    atoms = uint16_section(buffer, directory, Section.ATOMS)
    stripe_row = int32_section(buffer, directory, Section.STRIPE_ROW)
    stripe_data = int32_section(buffer, directory, Section.STRIPE_DATA)
    stripe_width = uint8_section(buffer, directory, Section.STRIPE_WIDTH)
    block_stripe = int32_section(buffer, directory, Section.BLOCK_STRIPE)
    block_ranges = int32_section(buffer, directory, Section.BLOCK_RANGES)
    bits = uint64_section(buffer, directory, Section.RANGE_ALIVE)
    alive, s = np.zeros(len(rows), np.bool_), np.int64(0)
    for i in range(len(rows)):
        row = np.int64(rows[i])
        if not stripe_row[s] <= row < stripe_row[s + 1]:
            s = np.searchsorted(stripe_row, row, side="right") - 1
        bit = alive_bit(row, block_stripe, stripe_row, block_ranges)
        if bit >= 0:
            alive[i] = (bits[bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1)
        else:
            last = np.int64(stripe_data[s]) + (row - np.int64(stripe_row[s]) + 1) * np.int64(stripe_width[s]) - 1
            alive[i] = atoms[last] != FALSE_ATOM
    return alive
