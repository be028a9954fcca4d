"""Many subscribers at once, each a JSON document.

    {"id": 1, "text": "insurance where price <= 700 with age = 42"}
    {"id": 1, "predicates": [["price", "<=", 700]], "properties": {"age": 42, "years_ncd": 8}}

The second form is for hundreds of thousands: equal predicates are bound once, and share what was made of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tocsin.errors import ParseError, TocsinError
from tocsin.language.bulk_form import from_bulk
from tocsin.language.documents import BadLine, decode, from_document
from tocsin.language.formula import ConditionFormula
from tocsin.language.formula_bind import bind_condition
from tocsin.symmetric.matchmaker import Matchmaker
from tocsin.symmetric.programs import Program
from tocsin.symmetric.subscriber import Subscriber, bind_subscriber, conjuncts, properties_of


def load_subscribers(matchmaker: Matchmaker, lines: Iterable[bytes | str]) -> list[BadLine]:
    """Hold the subscriber of each line; return the bad lines. Blank lines are none."""
    return Loader(matchmaker).load(lines)


class Loader:
    """Binds documents of subscribers, remembering predicates."""

    def __init__(self, matchmaker: Matchmaker) -> None:
        self.matchmaker = matchmaker
        self._scope = matchmaker.meeting.subscription_scope()
        self._known: dict[tuple[Any, ...], tuple[ConditionFormula, ...]] = {}

    def load(self, lines: Iterable[bytes | str]) -> list[BadLine]:
        """Hold the subscriber of each line; return the bad lines."""
        bad: list[BadLine] = []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            id = None
            try:
                document = decode(line)
                id = document.get("id") if isinstance(document, Mapping) else None
                self.matchmaker.add(self.bind(number, document))
            except TocsinError as error:
                bad.append(BadLine(number, id, error))
        return bad

    def bind(self, number: int, document: Any) -> Subscriber:
        """Return the subscriber of a document; its id is the number where it has none."""
        meeting = self.matchmaker.meeting
        if not isinstance(document, Mapping) or "properties" not in document:
            id, tree = from_document(document)
            return bind_subscriber(number if id is None else id, tree, meeting, self._scope)
        properties = document["properties"]
        if not isinstance(properties, Mapping):
            raise ParseError('properties: an object, such as {"age": 42}')
        id = document.get("id", number)
        parts: list[ConditionFormula] = []
        for predicate in document.get("predicates", ()):
            parts += self._bound(predicate)
        return Subscriber(id, tuple(parts), properties_of(properties, meeting))

    def _bound(self, predicate: Any) -> tuple[ConditionFormula, ...]:
        try:
            key = tuple(predicate)
            known = self._known.get(key)
        except TypeError:  # a list as operand
            key, known = (), None
        if known is None:
            tree = from_bulk({"predicates": [predicate]})
            known = tuple(bind_condition(part, self._scope) for part in conjuncts(tree.where))
            if key:
                self._known[key] = known
        return known


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
