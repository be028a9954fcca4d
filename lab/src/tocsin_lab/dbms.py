"""Matching inside a database: sequential search and predicate grouping, TOPSS section 4.

Subscriptions are rows of tables, and each event becomes one SQL query, generated from its attributes and values.

    sequential   subs (sid, attr, op, val): every predicate of every subscription is compared with the event, the true
                 ones are counted by subscription, and the counts compared with the numbers of predicates
    grouping     subs (sid, cnt), preds (pid, attr, op, val), subs_preds (sid, pid): each distinct predicate is compared
                 once, as in counting

Time for an event: a scan of all predicates, or of the distinct ones and a join. Insertion, deletion, storage and
transactions are the database's. Comparisons joined by `and`, one value per attribute. What a comparison of the language
becomes in labels is not always one comparison (a partial order is several stretches): then the subscription has
several sids, and is reported once.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from itertools import product
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tocsin.errors import TooLarge
from tocsin.matching.engine import Capabilities
from tocsin.schema import Schema
from tocsin_lab.classic.labels import HIGHEST, LOWEST
from tocsin_lab.classic.neon import NeonMatcher
from tocsin_lab.classic.numbering import Numbering
from tocsin_lab.classic.rows import NONE_IN, NONE_OF, PRESENT, SOME_IN, SOME_OF, CodedEvent, CodedPredicate
from tocsin_lab.classic.single_valued import SingleValuedMatcher
from tocsin_lab.databases import Database

OPERATORS = ("=", "<>", ">=", "<=")
EQUAL, UNEQUAL, AT_LEAST, AT_MOST = range(4)
MOST_ALTERNATIVES = 64


class Comparison(NamedTuple):
    """One row of a table of predicates: attribute, operator (position in OPERATORS), value."""

    attr: int
    op: int
    val: int


class DbmsMatcher(SingleValuedMatcher):
    """The front end; the two ways below say which tables there are and what is asked of them."""

    capabilities: ClassVar[Capabilities] = NeonMatcher.capabilities

    def __init__(self, schema: Schema, database: type[Database]) -> None:
        self.database_kind = database
        self.database: Database | None = None
        super().__init__(schema)

    def _reset(self) -> None:
        self.close()
        self.database = self.database_kind()
        self._row_of: list[int] = []  # per sid
        self._sids_of: dict[int, list[int]] = {}
        self._settled = False
        self._create()

    def close(self) -> None:
        """Let go of the database."""
        if self.database is not None:
            self.database.close()

    @property
    def db(self) -> Database:
        assert self.database is not None
        return self.database

    def snapshot(self) -> Self:
        own = {"database", "database_kind", "schema"}
        snapshot = type(self)(self.schema, self.database_kind)
        state = {name: value for name, value in self.__dict__.items() if name not in own}
        snapshot.__dict__.update(copy.deepcopy(state, {id(self.schema): self.schema}))
        snapshot._rebuild()
        return snapshot

    # --- rows to comparisons ------------------------------------------------------------------------------------------

    def _insert(self, row: int, predicates: list[CodedPredicate]) -> None:
        self._load([(row, predicates)])

    def _insert_many(self, rows: range) -> None:
        first, counts = int(self.rows.start[rows.start]), self.rows.count[rows.start : rows.stop]
        part = slice(first, first + int(counts.sum()))
        column, kind, low, high = (np.asarray(field[part], np.int64) for field in self.rows.predicates)
        point, up, down = low == high, high == HIGHEST, low == LOWEST
        plain = np.where(kind == SOME_IN, point | (up != down), (kind == NONE_IN) & point)
        if not plain.all():
            self._load([(row, self.rows.of(row)) for row in rows])
            return
        op = np.select([kind == NONE_IN, point, up], [UNEQUAL, EQUAL, AT_LEAST], AT_MOST)
        sids = range(len(self._row_of), len(self._row_of) + len(rows))
        self._row_of += rows
        self._sids_of.update((row, [sid]) for row, sid in zip(rows, sids, strict=True))
        comparisons = np.stack([column, op, np.where(op == AT_MOST, high, low)], axis=1)
        self._store(np.repeat(np.array(sids), counts), comparisons)
        self._settled = False

    def _load(self, rows: list[tuple[int, list[CodedPredicate]]]) -> None:
        sids: list[int] = []
        comparisons: list[Comparison] = []
        for row, predicates in rows:
            for alternative in self._alternatives(predicates):
                sid = len(self._row_of)
                self._row_of.append(row)
                self._sids_of.setdefault(row, []).append(sid)
                sids += [sid] * len(alternative)
                comparisons += alternative
        self._store(np.array(sids, np.int64), np.array(comparisons, np.int64).reshape(-1, 3))
        self._settled = False

    def _alternatives(self, predicates: list[CodedPredicate]) -> list[list[Comparison]]:
        """Return conjunctions of comparisons, one of which holds when the predicates do."""
        choices = [self._comparisons(predicate) for predicate in predicates]
        found = [list(dict.fromkeys(each for part in chosen for each in part)) for chosen in product(*choices)]
        if len(found) > MOST_ALTERNATIVES:
            raise TooLarge(f"in SQL comparisons this has {len(found)} alternatives; the limit is {MOST_ALTERNATIVES}")
        return found

    def _comparisons(self, predicate: CodedPredicate) -> list[list[Comparison]]:
        column, kind, low, high = predicate
        if kind == PRESENT:
            return [[Comparison(column, AT_LEAST, LOWEST)]]
        if kind == SOME_OF:
            return [_inside(column, *ends) for ends in self.columns.sets.intervals(low)]
        if kind == NONE_IN:
            return _outside(column, low, high)
        if kind == NONE_OF:
            parts = [_outside(column, *ends) for ends in self.columns.sets.intervals(low)]
            return [[each for part in chosen for each in part] for chosen in product(*parts)]
        return [_inside(column, low, high)]

    def _delete(self, row: int, predicates: list[CodedPredicate]) -> None:  # noqa: ARG002
        self._forget(self._sids_of.pop(row))
        self._settled = False

    # --- matching -----------------------------------------------------------------------------------------------------

    def _match(self, event: CodedEvent) -> npt.NDArray[Any]:
        if not self._row_of:
            return np.zeros(0, np.int64)
        if not self._settled:
            self.db.settle()
            self._settled = True
        conditions = [
            f"(attr = {column} and ((op = '=' and val = {label}) or (op = '<>' and val <> {label}) "
            f"or (op = '>=' and val <= {label}) or (op = '<=' and val >= {label})))"
            for column in np.flatnonzero(event.present).tolist()
            for label in event.labels[event.offset[column] : event.offset[column + 1]].tolist()
        ]
        if not conditions:
            return np.zeros(0, np.int64)
        sids = self.db.query(self._query(" or ".join(conditions)))
        return np.unique(np.array([self._row_of[sid] for sid in sids.tolist()], np.int64))

    # --- what the two ways differ in ----------------------------------------------------------------------------------

    @abstractmethod
    def _create(self) -> None:
        """Make the tables."""

    @abstractmethod
    def _store(self, sids: npt.NDArray[np.int64], comparisons: npt.NDArray[np.int64]) -> None:
        """Insert the comparisons of the subscriptions."""

    @abstractmethod
    def _forget(self, sids: list[int]) -> None:
        """Delete the subscriptions."""

    @abstractmethod
    def _query(self, condition: str) -> str:
        """Return the query for the subscriptions whose comparisons all satisfy the condition."""


def _inside(column: int, low: int, high: int) -> list[Comparison]:
    if low == high:
        return [Comparison(column, EQUAL, low)]
    lower = [] if low == LOWEST and high != HIGHEST else [Comparison(column, AT_LEAST, low)]
    return lower if high == HIGHEST else [*lower, Comparison(column, AT_MOST, high)]


def _outside(column: int, low: int, high: int) -> list[list[Comparison]]:
    if low == high:
        return [[Comparison(column, UNEQUAL, low)]]
    below = [] if low == LOWEST else [[Comparison(column, AT_MOST, low - 1)]]
    return below if high == HIGHEST else [*below, [Comparison(column, AT_LEAST, high + 1)]]


def _operators(positions: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    return np.array(OPERATORS, object)[positions]


class SequentialMatcher(DbmsMatcher):
    """TOPSS 4.1."""

    name: ClassVar[str] = "dbms-sequential"

    def _create(self) -> None:
        self.db.create("subs", {"sid": "bigint", "attr": "bigint", "op": "varchar", "val": "bigint"})

    def _store(self, sids: npt.NDArray[np.int64], comparisons: npt.NDArray[np.int64]) -> None:
        attr, op, val = comparisons.T
        self.db.insert("subs", {"sid": sids, "attr": attr.copy(), "op": _operators(op), "val": val.copy()})

    def _forget(self, sids: list[int]) -> None:
        self.db.delete("subs", "sid", sids)

    def _query(self, condition: str) -> str:
        return (
            f"select hit.sid from (select sid, count(*) as c from subs where {condition} group by sid) hit "  # noqa: S608
            "join (select sid, count(*) as n from subs group by sid) every on hit.sid = every.sid where c = n"
        )


class GroupingMatcher(DbmsMatcher):
    """TOPSS 4.2."""

    name: ClassVar[str] = "dbms-grouping"

    def _create(self) -> None:
        self._predicates = Numbering()
        self.db.create("subs", {"sid": "bigint", "cnt": "bigint"})
        self.db.create("preds", {"pid": "bigint", "attr": "bigint", "op": "varchar", "val": "bigint"})
        self.db.create("subs_preds", {"sid": "bigint", "pid": "bigint"})

    def _store(self, sids: npt.NDArray[np.int64], comparisons: npt.NDArray[np.int64]) -> None:
        known = len(self._predicates)
        attr, op, val = (column.copy() for column in comparisons.T)
        pids = self._predicates.numbers(attr, op, val, np.zeros_like(attr))
        new = self._predicates.arrays.keys.reshape(-1, 4)[known : len(self._predicates)]
        if len(new):
            numbers = np.arange(known, known + len(new))
            columns = {"attr": new[:, 0].copy(), "op": _operators(new[:, 1]), "val": new[:, 2].copy()}
            self.db.insert("preds", {"pid": numbers, **columns})
        distinct, count = np.unique(sids, return_counts=True)
        self.db.insert("subs", {"sid": distinct, "cnt": count})
        self.db.insert("subs_preds", {"sid": sids, "pid": pids})

    def _forget(self, sids: list[int]) -> None:
        self.db.delete("subs", "sid", sids)
        self.db.delete("subs_preds", "sid", sids)

    def _query(self, condition: str) -> str:
        return (
            "select hit.sid from (select sid, count(*) as c from subs_preds "  # noqa: S608
            f"where pid in (select pid from preds where {condition}) group by sid) hit "
            "join subs every on hit.sid = every.sid where c = cnt"
        )


WAYS: dict[str, type[DbmsMatcher]] = {each.name: each for each in (SequentialMatcher, GroupingMatcher)}
