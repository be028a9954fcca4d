"""Prepared: a seeded workload ready for engines, as a schema, a table of conjunctions and events.

From the flat columns of bench/workloads.py and workloads.py straight to a ConjunctionTable: a million
subscriptions take a second, so that experiments spend their time on the engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tocsin.compile import ConjunctionTable, PredicateKind, TableBuilder
from tocsin.compile.table_builder import UNBOUNDED, Chunk
from tocsin.language import BoundSubscription, bind
from tocsin.language.syntax import And, Op, Predicate, Subscription
from tocsin.schema import Event, EventType, NumericDomain, Schema, TextDomain, TypeAttribute
from tocsin_lab.bench.workloads import OPERATORS, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENDS = {  # operator -> is the operand the lower end, the upper end; is that end open
    "=": (True, True, False),
    "!=": (True, True, False),
    "<": (False, True, True),
    "<=": (False, True, False),
    ">": (True, False, True),
    ">=": (True, False, False),
}


@dataclass(frozen=True)
class Prepared:
    """A workload with the limits of its domains; events do not bind the attributes where `absent` says so."""

    workload: Workload
    limits: tuple[tuple[int, int], ...]  # per attribute, both ends included; of texts, positions
    absent: npt.NDArray[np.bool_] | None = None  # [attribute, event]

    def __len__(self) -> int:
        return len(self.workload.offset) - 1

    @cached_property
    def schema(self) -> Schema:
        """One event type with all attributes; whole numbers between the limits, or texts."""
        names = self.workload.attributes
        domains = [
            TextDomain(name=name)
            if a in self.workload.texts
            else NumericDomain(name=name, type="int", minimum=self.limits[a][0], maximum=self.limits[a][1])
            for a, name in enumerate(names)
        ]
        event_type = EventType("event", tuple(TypeAttribute(name, mandatory=False) for name in names))
        return Schema(
            {domain.name: domain for domain in domains}, {name: name for name in names}, {"event": event_type}
        )

    @cached_property
    def table(self) -> ConjunctionTable:
        """All subscriptions, coded; ids are 0, 1, 2, ..."""
        return self.part(0, len(self))

    def part(self, first: int, last: int) -> ConjunctionTable:
        """Return subscriptions first .. last-1, coded."""
        w = self.workload
        builder = TableBuilder(self.schema)
        start, stop = int(w.offset[first]), int(w.offset[last])
        owner = np.repeat(np.arange(last - first), np.diff(w.offset[first : last + 1]))
        attribute, operator, value = w.attribute[start:stop], w.operator[start:stop], w.value[start:stop]
        for a, name in enumerate(w.attributes):
            column = builder.column(name)
            for o, op in enumerate(OPERATORS):
                at = np.flatnonzero((attribute == a) & (operator == o))
                if len(at):
                    references = self._references(builder, column, a, value[at])
                    builder.chunks.append(_chunk(owner[at], column, op, references))
        builder.ids = list(range(first, last))
        builder.subscription = list(range(last - first))
        return builder.finish()

    def _references(
        self, builder: TableBuilder, column: int, attribute: int, values: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        keys = builder.keys[column]
        texts = self.workload.texts.get(attribute)
        if texts is not None:
            return keys.intern(texts[value] for value in values.tolist())
        first = keys.extend(values)
        return np.arange(first, first + len(values))

    def subscriptions(self, first: int = 0, last: int | None = None) -> Iterator[tuple[int, BoundSubscription]]:
        """Yield (id, bound subscription), the long way."""
        w = self.workload
        for i in range(first, len(self) if last is None else last):
            at = slice(int(w.offset[i]), int(w.offset[i + 1]))
            rows = zip(w.attribute[at].tolist(), w.operator[at].tolist(), w.value[at].tolist(), strict=True)
            parts = tuple(Predicate(w.attributes[a], Op(OPERATORS[o]), self._shown(a, v)) for a, o, v in rows)
            yield i, bind(Subscription((), And(parts)), self.schema)

    @cached_property
    def events(self) -> list[Event]:
        """The events, admitted."""
        w = self.workload
        found = []
        for e, values in enumerate(w.events.T.tolist()):
            bound = (a for a in range(len(w.attributes)) if self.absent is None or not self.absent[a, e])
            found.append(self.schema.admit({w.attributes[a]: self._shown(a, values[a]) for a in bound}))
        return found

    def _shown(self, attribute: int, value: int) -> int | str:
        texts = self.workload.texts.get(attribute)
        return value if texts is None else texts[value]

    def expected(self, event: int) -> npt.NDArray[np.int64]:
        """Return the subscriptions that an event satisfies, by comparing every predicate: the oracle of the lab."""
        w = self.workload
        value = w.events[:, event][w.attribute]
        there = np.ones(len(value), np.bool_) if self.absent is None else ~self.absent[:, event][w.attribute]
        holds = np.zeros(len(value), np.bool_)
        for o, compare in enumerate((np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)):
            at = w.operator == o
            holds[at] = compare(value[at], w.value[at])
        failed = np.flatnonzero(~(holds & there))
        matches = np.ones(len(self), np.bool_)
        matches[np.searchsorted(w.offset, failed, side="right") - 1] = False
        return np.flatnonzero(matches)


def _chunk(owner: npt.NDArray[np.int64], column: int, op: str, references: npt.NDArray[np.int64]) -> Chunk:
    low, high, is_open = _ENDS[op]
    nowhere = np.full(len(owner), UNBOUNDED)
    kind = PredicateKind.NONE_IN if op == "!=" else PredicateKind.SOME_IN
    return Chunk(
        owner,
        np.full(len(owner), column, np.uint16),
        np.full(len(owner), kind, np.uint8),
        references if low else nowhere,
        references if high else nowhere,
        np.full(len(owner), is_open and low),
        np.full(len(owner), is_open and high),
    )
