"""Many subscribers at once, each a JSON document.

    {"id": 1, "text": "insurance where price <= 700 with age = 42"}
    {"id": 1, "predicates": [["price", "<=", 700]], "properties": {"age": 42, "years_ncd": 8}}

The second form is for hundreds of thousands: equal predicates are bound once, and share what was made of them. Stored
subscriptions, which are JSON trees, are read in that form where they are such conjunctions (`document_of`).
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from tocsin.errors import ParseError, TocsinError
from tocsin.language.bulk_form import from_bulk
from tocsin.language.documents import BadLine, decode, from_document
from tocsin.language.formula import ConditionFormula
from tocsin.language.formula_bind import bind_condition
from tocsin.symmetric.admit_column import admit_list
from tocsin.symmetric.bounds import Bound
from tocsin.symmetric.matchmaker import Matchmaker
from tocsin.symmetric.programs import Program
from tocsin.symmetric.roster import Batch
from tocsin.symmetric.subscriber import Subscriber, SubscriberId, bind_subscriber, conjuncts, properties_of

CHUNK = 8_192  # documents that are held at once
_OPERANDS = (str, int, float, bool)
_PLAIN_KEYS = frozenset({"id", "predicates", "properties"})


def load_subscribers(matchmaker: Matchmaker, lines: Iterable[bytes | str]) -> list[BadLine]:
    """Hold the subscriber of each line; return the bad lines. Blank lines are none."""
    return Loader(matchmaker).load(lines)


@contextmanager
def collecting_later() -> Iterator[None]:
    """Leave the search for garbage until the block is over: it would look at all that is loaded, again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Known(NamedTuple):
    """A predicate that was met before: its parts, and the numbers of the bounds that they are (None: not bounds alone)."""

    parts: tuple[ConditionFormula, ...]
    bounds: tuple[int, ...] | None


class _Plain(NamedTuple):
    """A document in the bulk form; its predicates are bounds alone."""

    id: SubscriberId
    properties: Mapping[str, Any]
    predicates: list[_Known]


class _NotPlain(Exception):
    """Something in a batch needs a look of its own, or is wrong: its documents go one by one."""


class Loader:
    """Binds documents of subscribers, remembering predicates."""

    def __init__(self, matchmaker: Matchmaker) -> None:
        self.matchmaker = matchmaker
        meeting = matchmaker.meeting
        self._scope = meeting.subscription_scope()
        self._names = meeting.property_names.keys()
        self._mandatory = {entry.attribute for entry in meeting.mandatory(meeting.union.subscriber)}
        self._known: dict[tuple[Any, ...], _Known] = {}
        self._bounds: list[Bound] = []

    def load(self, lines: Iterable[bytes | str]) -> list[BadLine]:
        """Hold the subscriber of each line; return the bad lines."""
        bad: list[BadLine] = []
        numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
        while chunk := list(islice(numbered, CHUNK)):
            documents: list[tuple[int, Any]] = []
            for number, line in chunk:
                try:
                    documents.append((number, decode(line)))
                except TocsinError as error:
                    bad.append(BadLine(number, None, error))
            bad += self.hold(documents)
        return sorted(bad, key=lambda one: one.line)

    def hold(self, documents: Sequence[tuple[int, Any]]) -> list[BadLine]:
        """Hold the subscribers of numbered documents; return the bad ones. Those in the bulk form are held at once."""
        bulk, others = self._divided(documents)
        try:
            if bulk:
                self.matchmaker.extend(self._batch(bulk))
        except (_NotPlain, TocsinError, TypeError):
            others = documents
        return [bad for number, document in others if (bad := self._held(number, document)) is not None]

    def _divided(self, documents: Sequence[tuple[int, Any]]) -> tuple[list[_Plain], Sequence[tuple[int, Any]]]:
        """Return the documents that are in the bulk form, and the others."""
        bulk: list[_Plain] = []
        others: list[tuple[int, Any]] = []
        for each in documents:
            plain = self._plain(*each)
            if plain is None:
                others.append(each)
            else:
                bulk.append(plain)
        return bulk, others

    def _plain(self, number: int, document: Any) -> _Plain | None:
        """Return a document in the bulk form; None where it needs a look of its own, or is wrong."""
        try:
            properties = document["properties"]
            if not _PLAIN_KEYS.issuperset(document) or type(properties) is not dict:
                return None
            if not self._names >= properties.keys() or None in properties.values():
                return None
            if properties and not self._mandatory <= properties.keys():
                return None
            predicates = [self._predicate(one) for one in document.get("predicates", ())]
            if any(one.bounds is None for one in predicates):
                return None
            return _Plain(document.get("id", number), properties, predicates)
        except (TocsinError, TypeError, KeyError):
            return None

    def _held(self, number: int, document: Any) -> BadLine | None:
        try:
            self.matchmaker.add(self.bind(number, document))
        except TocsinError as error:
            return BadLine(number, document.get("id") if isinstance(document, Mapping) else None, error)
        return None

    def _batch(self, bulk: Sequence[_Plain]) -> Batch:
        """Return documents in the bulk form as a batch; raises _NotPlain, or what reading a wrong one raises."""
        ids = [one.id for one in bulk]
        roster = self.matchmaker.roster
        if any(type(id) not in (int, str) or id in roster for id in ids) or len(set(ids)) < len(ids):
            raise _NotPlain
        rows: list[int] = []
        numbers: list[int] = []
        for row, one in enumerate(bulk):
            for known in one.predicates:
                for bound in known.bounds or ():
                    rows.append(row)
                    numbers.append(bound)
        parts = [tuple(part for known in one.predicates for part in known.parts) for one in bulk]
        columns = self._columns([one.properties for one in bulk])
        return Batch(ids, parts, columns, self._bounds, np.array(rows, np.int64), np.array(numbers, np.int64))

    def _columns(self, listed: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
        meeting = self.matchmaker.meeting
        return {
            full: admit_list(meeting.property_domains[full], [properties.get(name) for properties in listed])
            for name, full in meeting.property_names.items()
        }

    def bind(self, number: int, document: Any) -> Subscriber:
        """Return the subscriber of a document; its id is the number where it has none."""
        meeting = self.matchmaker.meeting
        if not isinstance(document, Mapping) or "properties" not in document:
            id, tree = from_document(document)
            return bind_subscriber(number if id is None else id, tree, meeting, self._scope)
        properties = document["properties"]
        if not isinstance(properties, Mapping):
            raise ParseError('properties: an object, such as {"age": 42}')
        if unknown := sorted(set(document) - _PLAIN_KEYS):
            raise ParseError(f'{unknown[0]}: not known beside "properties"; there are {", ".join(sorted(_PLAIN_KEYS))}')
        id = document.get("id", number)
        if not isinstance(id, str | int) or isinstance(id, bool):
            raise ParseError(f"id: a subscription's id is a text or a whole number, not {id!r}")
        predicates = document.get("predicates", [])
        if not isinstance(predicates, list):
            raise ParseError('predicates: an array, such as [["price", "<=", 700]]')
        parts = [part for predicate in predicates for part in self._predicate(predicate).parts]
        return Subscriber(id, tuple(parts), properties_of(properties, meeting))

    def _predicate(self, predicate: Any) -> _Known:
        try:
            name, op, operand = predicate
            key = name, op, operand, type(operand)  # true is not 1
            known = self._known.get(key)
        except (TypeError, ValueError):  # a list as operand, or something wrong
            key, known = None, None
        if known is None:
            known = self._bound(predicate)
            if key is not None:
                self._known[key] = known
        return known

    def _bound(self, predicate: Any) -> _Known:
        tree = from_bulk({"predicates": [predicate]})
        parts = tuple(bind_condition(part, self._scope) for part in conjuncts(tree.where))
        bounds = self.matchmaker.roster.wants.keys.bounds_of(parts)
        if bounds is None:
            return _Known(parts, None)
        self._bounds += bounds
        return _Known(parts, tuple(range(len(self._bounds) - len(bounds), len(self._bounds))))


def document_of(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a subscription's JSON tree as a document: in the bulk form where it is a conjunction of plain comparisons."""
    where = tree.get("where", {"and": []})
    predicates = [where] if isinstance(where, list) else where.get("and") if isinstance(where, dict) else None
    properties = tree.get("with", {})
    if predicates is None or not all(map(_is_comparison, predicates)):
        return tree
    if any(isinstance(value, dict) for value in properties.values()):  # a value that JSON has no type for
        return tree
    return {"predicates": predicates, "properties": properties}


def _is_comparison(node: Any) -> bool:
    return isinstance(node, list) and len(node) == 3 and type(node[2]) in _OPERANDS


def program_from(document: Any, matchmaker: Matchmaker) -> Program:
    """Return the program of a document: name, version, parameters and returns (domains of the schema), expression."""
    if not isinstance(document, Mapping) or not isinstance(document.get("parameters"), Mapping):
        raise ParseError('a program is an object with "name", "version", "parameters", "returns" and "expression"')
    domains = matchmaker.meeting.schema.domains
    try:
        parameters = {str(name): domains[domain] for name, domain in document["parameters"].items()}
        returns = domains[document["returns"]]
        return Program(document["name"], int(document["version"]), parameters, returns, str(document["expression"]))
    except KeyError as error:
        raise ParseError(f"the program {document.get('name')!r}: there is no {error.args[0]!r}") from None
