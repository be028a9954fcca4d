"""The roster: all subscribers of a meeting, by row.

Properties are columns (columns.py), conditions are in wants.py, and for each set of dynamic attributes that offers come
with there is a columnar engine over what the static attributes decide. All of them number the subscribers alike. A row
of a subscriber that left is marked, and rows are numbered anew when a quarter of them is; and when there are twice as many,
by the bounds of their conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.errors import DuplicateSubscription, TooLarge, UnknownSubscription
from tocsin.language.bind import bind
from tocsin.language.formula import ConditionFormula
from tocsin.language.json_form import to_json
from tocsin.language.syntax import And, Node, Predicate, Subscription
from tocsin.matching.columnar.matcher import ColumnarMatcher
from tocsin.schema import Event
from tocsin.symmetric.bounds import Bound
from tocsin.symmetric.columns import Growing, PropertyColumn, Rows
from tocsin.symmetric.meeting import Meeting
from tocsin.symmetric.subscriber import Subscriber, SubscriberId
from tocsin.symmetric.wants import Wants

DEAD_SHARE = 0.25  # of the rows, before they are numbered anew
FEWEST_DEAD = 1_000
FEWEST_CLUSTERED = 32_768  # rows
MOST_INDEXES = 8  # sets of dynamic attributes with an engine of their own; the one used least recently gives way
_PLAIN = (bool, int, float, str)


@dataclass(slots=True)
class Batch:
    """Subscribers to be held at once: admitted properties by column, and conditions by the bounds that they are."""

    ids: list[SubscriberId]
    parts: list[tuple[ConditionFormula, ...]]
    properties: dict[str, list[Any]]
    bounds: Sequence[Bound]
    bound_rows: Rows  # counted from the first of the batch
    bound_numbers: npt.NDArray[Any]  # of `bounds`


class Ids:
    """The ids of subscribers by row; those that are numbers are also in an array, from which many are told at once."""

    def __init__(self, listed: Iterable[SubscriberId] = ()) -> None:
        self._listed: list[SubscriberId] = []
        self._numbers: Growing | None = Growing(np.int32)  # the narrower, the less is read
        self.extend(list(listed))

    def extend(self, ids: list[SubscriberId]) -> None:
        """Add the ids of the next rows."""
        self._listed += ids
        if self._numbers is not None:
            if not all(type(id) is int and -(2**63) <= id < 2**63 for id in ids):
                self._numbers = None
                return
            numbers = np.array(ids, np.int64)
            if self._numbers.array.dtype == np.int32 and (abs(numbers) >= 2**31).any():
                wider = Growing(np.int64)
                wider.extend(self._numbers.array)
                self._numbers = wider
            self._numbers.extend(numbers)

    def of(self, rows: Rows) -> Sequence[SubscriberId] | Rows:
        """Return the ids of these rows, as an array where all ids are numbers."""
        if self._numbers is not None:
            found: Rows = self._numbers.array.take(rows)
            return found
        return tuple(map(self._listed.__getitem__, rows.tolist()))

    def __getitem__(self, row: int) -> SubscriberId:
        return self._listed[row]

    def __len__(self) -> int:
        return len(self._listed)


class Roster:
    """Subscribers by id and by row."""

    def __init__(self, meeting: Meeting) -> None:
        self.meeting = meeting
        self.rebuilds = 0
        self.changes = 0
        self.wants = Wants(self.meeting)
        self.properties = {name: PropertyColumn(domain) for name, domain in self.meeting.property_domains.items()}
        self.ids = Ids()
        self._row_of: dict[SubscriberId, int] = {}
        self._parts: list[tuple[ConditionFormula, ...]] = []
        self._live = Growing(np.bool_, False)
        self._engines: dict[frozenset[str], ColumnarMatcher] = {}
        self._clustered_at = 0

    # --- changes ------------------------------------------------------------------------------------------------------

    def add(self, subscriber: Subscriber) -> None:
        """Hold a subscriber; raises DuplicateSubscription."""
        if subscriber.id in self._row_of:
            raise DuplicateSubscription(subscriber.id)
        self.changes += 1
        row = len(self.ids)
        self._row_of[subscriber.id] = row
        self.ids.extend([subscriber.id])
        self._parts.append(subscriber.parts)
        self._live.append(True)
        for name, column in self.properties.items():
            column.append(subscriber.properties.get(name))
        self.wants.append(subscriber)
        for dynamic, engine in self._engines.items():
            self._add_to(engine, row, self.wants.static_nodes(subscriber, dynamic))

    def extend(self, batch: Batch) -> None:
        """Hold many subscribers, whose conditions are bounds alone and whose ids are new."""
        self.changes += 1
        start = len(self.ids)
        self.ids.extend(batch.ids)
        self._row_of.update(zip(batch.ids, range(start, len(self.ids)), strict=True))
        self._parts += batch.parts
        self._live.extend(np.ones(len(batch.ids), np.bool_))
        for name, column in self.properties.items():
            column.extend(batch.properties[name])
        self.wants.extend(len(batch.ids), batch.bounds, batch.bound_rows, batch.bound_numbers)
        for dynamic, engine in self._engines.items():
            self._load(engine, dynamic, range(start, len(self.ids)))

    def _load(self, engine: ColumnarMatcher, dynamic: frozenset[str], rows: Iterable[int]) -> None:
        for error in engine.load(self._documents(dynamic, rows)):
            assert isinstance(error.error, TooLarge), error
            assert isinstance(error.id, int)
            self._add_to(engine, error.id, self.wants.static_nodes(self.subscriber(error.id), dynamic))

    def _add_to(self, engine: ColumnarMatcher, row: int, nodes: list[Node]) -> None:
        """Add a row to an engine; where it has too many alternatives, by its plain predicates alone."""
        try:
            engine.add(row, bind(Subscription((), _joined(nodes)), self.meeting.lenient_schema))
        except TooLarge:
            self.wants.loosen(row)
            plain = [node for node in nodes if isinstance(node, Predicate)]
            engine.add(row, bind(Subscription((), _joined(plain)), self.meeting.lenient_schema))

    def remove(self, id: SubscriberId) -> None:
        """Let go of a subscriber; raises UnknownSubscription."""
        row = self.row_of(id)
        self.changes += 1
        del self._row_of[id]
        self._live.array[row] = False
        self._parts[row] = ()
        self.wants.forget(row)
        for engine in self._engines.values():
            engine.remove(row)
        dead = len(self.ids) - len(self)
        if dead > max(FEWEST_DEAD, DEAD_SHARE * len(self.ids)):
            self._number(self.all_rows())

    @property
    def is_scattered(self) -> bool:
        """Whether there are many more rows than when they were last put in order."""
        return len(self.ids) >= max(FEWEST_CLUSTERED, 2 * self._clustered_at)

    def cluster(self, dynamic: frozenset[str]) -> None:
        """Put rows beside one another whose conditions the same offers satisfy, but for these attributes.

        Offers then pass over whole blocks of rows.
        """
        order = self.wants.order(dynamic)
        if order is not None:
            self._number(order[self._live.array[order]])
        self._clustered_at = len(self.ids)

    def _number(self, rows: Rows) -> None:
        """Number these rows anew. The engines, which number them as before, are made again when they are next needed."""
        listed = rows.tolist()
        staying = [self.ids[row] for row in listed]
        self.ids = Ids(staying)
        self._parts = [self._parts[row] for row in listed]
        self._row_of = {id: row for row, id in enumerate(staying)}
        for column in self.properties.values():
            column.keep(rows)
        self.wants.keep(rows)
        self._live = Growing(np.bool_, False)
        self._live.extend(np.ones(len(rows), np.bool_))
        self._engines.clear()
        self.rebuilds += 1
        self.changes += 1

    # --- reading ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._row_of)

    def __iter__(self) -> Iterator[Subscriber]:
        return map(self.subscriber, list(self._row_of.values()))

    def __contains__(self, id: object) -> bool:
        return id in self._row_of

    def row_of(self, id: SubscriberId) -> int:
        """Return the row of a subscriber."""
        try:
            return self._row_of[id]
        except KeyError:
            raise UnknownSubscription(id) from None

    def subscriber(self, row: int) -> Subscriber:
        """Return the subscriber of a row."""
        columns = ((name, column.value_at(row)) for name, column in self.properties.items())
        return Subscriber(
            self.ids[row], self._parts[row], {name: value for name, value in columns if value is not None}
        )

    def live(self, rows: Rows) -> Rows:
        """Return those of the rows whose subscribers are there."""
        return rows if len(self.ids) == len(self) else rows[self._live.array[rows]]

    def live_words(self) -> npt.NDArray[np.uint64] | None:
        """Return a bitmap of the rows whose subscribers are there; None where all are."""
        if len(self.ids) == len(self):
            return None
        words = np.zeros((len(self.ids) + 63) // 64, np.uint64)
        packed = np.packbits(self._live.array, bitorder="little")
        words.view(np.uint8)[: len(packed)] = packed
        return words

    def all_rows(self) -> Rows:
        return np.flatnonzero(self._live.array)

    # --- the static index ---------------------------------------------------------------------------------------------

    def match_static(self, event: Event, dynamic: frozenset[str]) -> Rows:
        """Return the rows whose conditions the event may satisfy, whatever values the dynamic attributes take."""
        found = self.engine(dynamic).match_array(event)
        return found.astype(np.int64)

    def engine(self, dynamic: frozenset[str]) -> ColumnarMatcher:
        """Return the engine over what does not depend on these attributes; made when it is first asked for."""
        engine = self._engines.pop(dynamic, None) or self._built(dynamic)
        self._engines[dynamic] = engine  # the last is the one used most recently
        if len(self._engines) > MOST_INDEXES:
            del self._engines[next(iter(self._engines))]
        return engine

    def _built(self, dynamic: frozenset[str]) -> ColumnarMatcher:
        engine = ColumnarMatcher(self.meeting.lenient_schema)
        self._load(engine, dynamic, self._row_of.values())
        return engine

    def _documents(self, dynamic: frozenset[str], rows: Iterable[int]) -> Iterator[bytes]:
        """Yield the static part of each subscriber in the bulk form where it can be, else as a tree."""
        known: dict[int, list[Node]] = {}  # equal parts are one object where subscribers were loaded in bulk
        own = self.wants.own
        encode = msgspec.json.Encoder().encode
        for row in rows:
            nodes: list[Node] = []
            for part in self._parts[row]:
                found = known.get(id(part))
                if found is None:
                    found = self.wants.static_nodes(
                        Subscriber(0, (part,), {} if own.isdisjoint(part.names) else self.subscriber(row).properties),
                        dynamic,
                    )
                    if own.isdisjoint(part.names):
                        known[id(part)] = found
                nodes += found
            yield encode(_document(row, nodes))


def _document(row: int, nodes: list[Node]) -> dict[str, Any]:
    wanted = [node for node in nodes if node != And(())]
    plain = [
        (node.attribute, node.op.value, node.operand)
        for node in wanted
        if isinstance(node, Predicate) and isinstance(node.operand, _PLAIN)
    ]
    if len(plain) == len(wanted):
        return {"id": row, "predicates": plain}
    return {"id": row, **to_json(Subscription((), _joined(wanted)))}


def _joined(nodes: Iterable[Node]) -> Node:
    listed = tuple(nodes)
    return listed[0] if len(listed) == 1 else And(listed)
