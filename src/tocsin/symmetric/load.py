"""Many subscribers at once, each a JSON document.

    {"id": 1, "text": "insurance where price <= 700 with age = 42"}
    {"id": 1, "predicates": [["price", "<=", 700]], "properties": {"age": 42, "years_ncd": 8}}

The second form is for hundreds of thousands: equal predicates are bound once, and share what was made of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
_PLAIN_KEYS = frozenset({"id", "predicates", "properties"})


def load_subscribers(matchmaker: Matchmaker, lines: Iterable[bytes | str]) -> list[BadLine]:
    """Hold the subscriber of each line; return the bad lines. Blank lines are none."""
    return Loader(matchmaker).load(lines)


class _Known(NamedTuple):
    """A predicate that was met before: its parts, and the numbers of the bounds that they are (None: not bounds alone)."""

    parts: tuple[ConditionFormula, ...]
    bounds: tuple[int, ...] | None


class _NotPlain(Exception):
    """Something in a batch needs a look of its own, or is wrong: its documents go one by one."""


class Loader:
    """Binds documents of subscribers, remembering predicates."""

    def __init__(self, matchmaker: Matchmaker) -> None:
        self.matchmaker = matchmaker
        self._scope = matchmaker.meeting.subscription_scope()
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
        """Hold the subscribers of numbered documents; return the bad ones. All at once, where all are in the bulk form."""
        try:
            self.matchmaker.extend(self._batch(documents))
            return []
        except (_NotPlain, TocsinError, TypeError, AttributeError, KeyError):
            return [bad for number, document in documents if (bad := self._held(number, document)) is not None]

    def _held(self, number: int, document: Any) -> BadLine | None:
        try:
            self.matchmaker.add(self.bind(number, document))
        except TocsinError as error:
            return BadLine(number, document.get("id") if isinstance(document, Mapping) else None, error)
        return None

    def _batch(self, documents: Sequence[tuple[int, Any]]) -> Batch:
        """Return the documents as a batch; raises _NotPlain, or what reading a wrong one raises."""
        ids: list[SubscriberId] = []
        parts: list[tuple[ConditionFormula, ...]] = []
        rows: list[int] = []
        numbers: list[int] = []
        bulk_properties: list[Mapping[str, Any]] = []
        for row, (number, document) in enumerate(documents):
            properties = document["properties"]
            if not _PLAIN_KEYS.issuperset(document) or not isinstance(properties, dict):
                raise _NotPlain
            ids.append(document.get("id", number))
            bulk_properties.append(properties)
            mine: list[ConditionFormula] = []
            for predicate in document.get("predicates", ()):
                known = self._predicate(predicate)
                if known.bounds is None:
                    raise _NotPlain
                mine += known.parts
                for bound in known.bounds:
                    rows.append(row)
                    numbers.append(bound)
            parts.append(tuple(mine))
        roster = self.matchmaker.roster
        if len(set(ids)) < len(ids) or any(id in roster or type(id) not in (int, str) for id in ids):
            raise _NotPlain
        return Batch(
            ids, parts, self._columns(bulk_properties), self._bounds,
            np.array(rows, np.int64), np.array(numbers, np.int64),
        )  # fmt: skip

    def _columns(self, listed: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
        meeting = self.matchmaker.meeting
        names = meeting.property_names
        if any(not names.keys() >= properties.keys() for properties in listed):
            raise _NotPlain
        columns: dict[str, list[Any]] = {}
        for name, full in names.items():
            raw = [properties.get(name) for properties in listed]
            columns[full] = admit_list(meeting.property_domains[full], raw)
            if any(name in properties and properties[name] is None for properties in listed):
                raise _NotPlain
        for entry in meeting.mandatory(meeting.union.subscriber):
            if None in columns[names[entry.attribute]]:
                raise _NotPlain
        return columns

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
