"""A subscription as one object of a file or a request, in whichever of its forms it comes.

{"id": "s1", "text": "car where price < 1300"}
{"id": "s1", "event_types": ["car"], "where": ["price", "<", 1300]}
{"id": "s1", "event_types": ["car"], "predicates": [["price", "<", 1300]]}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tocsin.errors import ParseError, TocsinError, shown
from tocsin.language.bind import BoundSubscription, bind
from tocsin.language.bulk_form import from_bulk
from tocsin.language.formula import NO_OPERATORS, Operators
from tocsin.language.json_form import from_json
from tocsin.language.parse import parse
from tocsin.language.syntax import Subscription
from tocsin.schema import Schema

SHAPES = '"text" (an expression), "where" (a JSON tree) or "predicates" (the bulk form)'


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that holds no subscription, and why."""

    line: int  # counted from 1
    id: str | int | None
    error: TocsinError

    def __str__(self) -> str:
        name = "" if self.id is None else f" ({self.id})"
        return f"line {self.line}{name}: {self.error}"


def read_lines(
    lines: Iterable[bytes | str], schema: Schema, operators: Operators = NO_OPERATORS
) -> Iterator[tuple[str | int, BoundSubscription] | BadLine]:
    """Yield the subscription of each line, a document each, with its id, else its line number; blank lines are none."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        id = None
        try:
            document = decode(line)
            id = document.get("id") if isinstance(document, Mapping) else None
            id, tree = from_document(document)
            yield (number if id is None else id), bind(tree, schema, operators=operators)
        except TocsinError as error:
            yield BadLine(number, id, error)


def decode(line: bytes | str) -> Any:
    """Return the JSON value of a line."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError) as error:  # msgspec says nothing of its own about bad UTF-8
        raise ParseError(f"not JSON: {error}") from None


def from_document(document: Any) -> tuple[str | int | None, Subscription]:
    """Return the id, if it has one, and the subscription."""
    if not isinstance(document, Mapping):
        raise ParseError(f"a subscription is an object with {SHAPES}, not {type(document).__name__}")
    id = document.get("id")
    if "id" in document and (not isinstance(id, str | int) or isinstance(id, bool)):
        raise ParseError(f"id: a subscription's id is a text or a whole number, not {shown(id)}")
    given = [key for key in ("text", "where", "predicates") if key in document]
    if len(given) != 1 and not ("event_types" in document and not given):
        raise ParseError(f"a subscription has exactly one of {SHAPES}")
    if given == ["text"]:
        return id, _from_text(document)
    if given == ["predicates"]:
        return id, from_bulk(document)
    return id, from_json({key: value for key, value in document.items() if key != "id"})


def _from_text(document: Mapping[str, Any]) -> Subscription:
    if unknown := sorted(set(document) - {"id", "text"}):
        raise ParseError(f'{unknown[0]}: not known beside "text"; event types and `with` are part of the expression')
    if not isinstance(document["text"], str):
        raise ParseError("text: the expression is a text")
    return parse(document["text"])
