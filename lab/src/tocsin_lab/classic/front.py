"""ClassicMatcher: what the papers' engines share. Subscriptions become rows of coded predicates, events coded events.

The papers' subscriptions are conjunctions; here one may be a disjunction of several, which are rows of their own and
report its id once (the thesis's future work). An engine answers with rows all of whose coded predicates hold; what no
interval of keys decides (checks: circles, patterns) is evaluated here, last, once per event and distinct check.

An engine implements `_insert`, `_delete`, `_match` and `_reset`; where it has a way to load many rows at once,
`_insert_many` too.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.compile import ConjunctionTable, PredicateKind, load_bulk, normalise
from tocsin.compile.atoms import Checked
from tocsin.errors import DuplicateSubscription, NotSupported, UnknownSubscription
from tocsin.language import BoundSubscription, bind
from tocsin.language.documents import BadLine
from tocsin.language.json_reader import node_from_json
from tocsin.language.semantics import Situation, holds
from tocsin.language.syntax import And, Node, Not, Or, Predicate, Subscription, TextPatterns
from tocsin.matching.engine import Capabilities, Engine, SubscriptionId
from tocsin.schema import Event, Schema
from tocsin_lab.classic.columns import Columns
from tocsin_lab.classic.rows import CodedEvent, CodedPredicate, Rows

RowNumbers = npt.NDArray[np.int64]


class ClassicMatcher(Engine):
    """The front end of an engine."""

    most_selective_first: ClassVar[bool] = False  # whether the engine needs a row's predicates in that order

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self.columns = Columns(schema)
        self.rows = Rows()
        self._rows_of: dict[SubscriptionId, list[int]] = {}
        self._owner: npt.NDArray[Any] = np.zeros(0, object)  # per row
        self._checks: dict[int, list[Node]] = {}  # per row that has some
        self._unconditional: dict[int, None] = {}  # rows without a coded predicate
        self._several = False  # whether an id may come up more than once
        self._reset()

    # --- what an engine implements ------------------------------------------------------------------------------------

    @abstractmethod
    def _reset(self) -> None:
        """Forget all rows."""

    @abstractmethod
    def _insert(self, row: int, predicates: list[CodedPredicate]) -> None:
        """Take in a row; its predicates are in `self.rows` too."""

    @abstractmethod
    def _delete(self, row: int, predicates: list[CodedPredicate]) -> None:
        """Let go of a row; its predicates are in `self.rows` still."""

    @abstractmethod
    def _match(self, event: CodedEvent) -> npt.NDArray[Any]:
        """Return the rows all of whose predicates hold, each once unless a column is multiple."""

    def _insert_many(self, rows: range) -> None:
        """Take in many rows that are in `self.rows` already."""
        for row in rows:
            self._insert(row, self.rows.of(row))

    def _mostly_gone(self) -> bool:
        """Return whether most of what the structures hold belongs to rows that have left, so that they are built anew."""
        return False

    # --- the Engine interface ----------------------------------------------------------------------------------------

    def add(self, id: SubscriptionId, subscription: BoundSubscription) -> None:
        if id in self._rows_of:
            raise DuplicateSubscription(id)
        require(self.capabilities, self.name, subscription)
        form = normalise(subscription)
        if not form.exact:
            raise NotSupported(f"the engine {self.name} has no comparisons of formulas and no operators")
        coded = [self.columns.code(conjunction) for conjunction in form.conjunctions]
        if self.columns.follow_moves(self.rows):  # labels were spread: what is indexed is out of date
            self._rebuild()
            coded = [self.columns.code(conjunction) for conjunction in form.conjunctions]
        rows = []
        for conjunction, predicates in zip(form.conjunctions, coded, strict=True):
            if self.most_selective_first:
                predicates.sort(key=self.columns.selectivity)
            row = self.rows.add(predicates)
            self._owner = _with_room(self._owner, row + 1)
            self._owner[row] = id
            checks = [atom for atom in conjunction if isinstance(atom, Checked)]
            if checks:
                self._checks[row] = [Not(each.predicate) if each.negated else each.predicate for each in checks]
            if predicates:
                self._insert(row, predicates)
            else:
                self._unconditional[row] = None
            rows.append(row)
        self._rows_of[id] = rows
        self._several = self._several or len(rows) > 1

    def remove(self, id: SubscriptionId) -> None:
        rows = self._rows_of.pop(id, None)
        if rows is None:
            raise UnknownSubscription(id)
        for row in rows:
            if row in self._unconditional:
                del self._unconditional[row]
            else:
                self._delete(row, self.rows.of(row))
            self._checks.pop(row, None)
            self.rows.remove(row)
            self._owner[row] = None
        if self._mostly_gone():
            self._rebuild()

    def match(self, event: Event) -> list[SubscriptionId]:
        found = self.matching_rows(event)
        ids: list[SubscriptionId] = self._owner[found].tolist()
        if self._several:
            ids = list(dict.fromkeys(ids))
        self.work.events += 1
        self.work.matches += len(ids)
        return ids

    def matching_rows(self, event: Event) -> RowNumbers:
        """Return the rows that the event satisfies."""
        return self._finish(event, self._match(self.columns.code_event(event)))

    def _finish(self, event: Event, found: npt.NDArray[Any]) -> RowNumbers:
        """Return the found rows whose checks hold too, and those that ask for nothing else."""
        if self._unconditional:
            found = np.concatenate([found, np.fromiter(self._unconditional, np.int64)])
        if not self._checks:
            return found
        known: dict[Node, bool] = {}
        situation = Situation(event.values)

        def passes(row: int) -> bool:
            for check in self._checks.get(row, ()):
                if check not in known:
                    known[check] = holds(check, situation)
                if not known[check]:
                    return False
            return True

        return np.array([row for row in found.tolist() if passes(row)], np.int64)

    def match_coded(self, event: CodedEvent) -> npt.NDArray[Any]:
        """Return the rows that a coded event satisfies, checks left aside: what the papers time."""
        return self._match(event)

    def snapshot(self) -> Self:
        return copy.deepcopy(self, {id(self.schema): self.schema})

    def __len__(self) -> int:
        return len(self._rows_of)

    # --- many at once -------------------------------------------------------------------------------------------------

    def load(self, lines: Iterable[bytes | str]) -> list[BadLine]:
        if self.capabilities != Capabilities() or len(self):
            return super().load(lines)  # one by one, so that each is checked
        loaded = load_bulk(lines, self.schema)
        self.load_table(loaded.table)
        return loaded.errors

    def load_table(self, table: ConjunctionTable) -> None:
        """Hold the subscriptions of a table, all of which this engine must support."""
        ids: list[SubscriptionId] = table.ids.tolist()
        known: set[SubscriptionId] = set(self._rows_of)
        for id in ids:
            if id in known:
                raise DuplicateSubscription(id)
            known.add(id)
        offset, predicates = self.columns.code_table(table)
        if self.columns.follow_moves(self.rows):
            self._rebuild()
            offset, predicates = self.columns.code_table(table)
        if self.most_selective_first:
            predicates = self.columns.most_selective_first(offset, predicates)
        rows = self.rows.extend(offset, predicates)
        self._owner = _with_room(self._owner, rows.stop)
        self._owner[rows.start : rows.stop] = np.array(table.ids.tolist(), object)[table.subscription]
        self._take_owners(table, ids, rows)
        checked = np.flatnonzero(table.kind == PredicateKind.CHECK)
        for at in checked.tolist():
            row = rows.start + int(np.searchsorted(table.offset, at, side="right")) - 1
            self._checks.setdefault(row, []).append(_check_of(table, int(table.low[at]), self.schema))
        self._take_rows(rows)

    def _take_owners(self, table: ConjunctionTable, ids: Sequence[SubscriptionId], rows: range) -> None:
        if len(rows) == len(ids) and bool((table.subscription == np.arange(len(ids))).all()):
            self._rows_of.update((id, [row]) for id, row in zip(ids, rows, strict=True))
            return
        self._rows_of.update((id, []) for id in ids)
        for row, number in zip(rows, table.subscription.tolist(), strict=True):
            self._rows_of[ids[number]].append(row)
        self._several = True

    def _take_rows(self, rows: range) -> None:
        empty = np.flatnonzero(self.rows.count[rows.start : rows.stop] == 0) + rows.start
        if len(empty):
            self._unconditional.update(dict.fromkeys(empty.tolist()))
            for row in rows:
                if row not in self._unconditional:
                    self._insert(row, self.rows.of(row))
        else:
            self._insert_many(rows)

    def _rebuild(self) -> None:
        self._reset()
        for row in self.rows.live().tolist():
            if row not in self._unconditional:
                self._insert(row, self.rows.of(row))


def _check_of(table: ConjunctionTable, number: int, schema: Schema) -> Node:
    node = node_from_json(msgspec.json.decode(table.checks[number].expression))
    return bind(Subscription((), node), schema).subscription.where


def _with_room(owners: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    if len(owners) >= size:
        return owners
    larger = np.full(max(size, 2 * len(owners), 16), None, object)
    larger[: len(owners)] = owners
    return larger


# --- capabilities -----------------------------------------------------------------------------------------------------


def require(capabilities: Capabilities, engine: str, bound: BoundSubscription) -> None:
    """Raise NotSupported where the subscription uses what the capabilities do not declare."""
    if capabilities == Capabilities():
        return
    missing = missing_capability(capabilities, bound)
    if missing is not None:
        raise NotSupported(f"the engine {engine} does not support {missing}")


def missing_capability(capabilities: Capabilities, bound: BoundSubscription) -> str | None:
    """Return in words the first thing that the subscription uses and the capabilities do not declare."""
    waiting: list[Node] = [bound.subscription.where]
    while waiting:
        node = waiting.pop()
        match node:
            case And(parts):
                waiting += parts
            case Or(parts):
                if not capabilities.disjunction:
                    return "`or`"
                waiting += parts
            case Not(part):
                if not capabilities.negation:
                    return "`not`"
                waiting.append(part)
            case Predicate(attribute, op, operand):
                if op not in capabilities.operators:
                    return f"`{op}`"
                if isinstance(operand, TextPatterns) and not capabilities.several_patterns:
                    return f"several patterns, or patterns ignoring case, for `{op}`"
                if bound.view[attribute].ever_multiple and not capabilities.multiple_attributes:
                    return f"predicates on {attribute}, which may have several values"
    return None
