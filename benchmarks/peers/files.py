"""The subscriptions and events of a comparison, as the programs in Python read them.

Peers differ in what they can express, so they are compared on what all of this kind of file has: conjunctions of
comparisons over flat events, integers compared in any way and texts for equality. `read` says why a file is not one.
Files that ask for words of texts are for those peers only that know words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

Value = int | str
Event = dict[str, Value]
Predicate = tuple[str, str, Value]  # attribute, operator, operand

WORDS = ("contains", "contains any", "contains all")
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
LIMIT = 2**62  # leaves room for marks such as "no bound" in 64 bits
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Skipped(Exception):
    """A peer cannot be asked about these files, or not here; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A conjunction of predicates."""

    id: int
    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """What a peer is asked about."""

    subscriptions: list[Subscription]
    events: list[Event]


def read(subscriptions: Path, events: Path, *, words: bool = False) -> Workload:
    """Return the files' content; raises Skipped where it is more than peers, or those that know words, are compared on."""
    kinds: dict[str, type] = {}
    found = Workload(
        [_subscription(document, kinds, words) for document in _documents(subscriptions)],
        [_event(document, kinds) for document in _documents(events)],
    )
    if not found.subscriptions or not found.events:
        raise Skipped("there are no subscriptions or no events")
    if len({each.id for each in found.subscriptions}) != len(found.subscriptions):
        raise Skipped("two subscriptions have the same id")
    return found


def _documents(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        yield from (msgspec.json.decode(line) for line in file if line.strip())


def _subscription(document: Any, kinds: dict[str, type], words: bool) -> Subscription:
    id, predicates = document.get("id"), document.get("predicates")
    if type(id) is not int or set(document) != {"id", "predicates"} or not predicates:
        raise Skipped(f"subscription {id} is more or less than an integer id and predicates")
    return Subscription(id, tuple(_predicate(id, each, kinds, words) for each in predicates))


def _predicate(id: int, predicate: list[Any], kinds: dict[str, type], words: bool) -> Predicate:
    if words and len(predicate) == 3 and predicate[1] in WORDS:
        _note_kind(predicate[0], "", kinds)
        return predicate[0], predicate[1], ""
    if len(predicate) != 3 or predicate[1] not in OPERATORS:
        raise Skipped(f"subscription {id} has {predicate}; peers are compared on {' '.join(OPERATORS)}")
    attribute, operator, operand = predicate
    _note_kind(attribute, operand, kinds)
    if isinstance(operand, str) and operator not in ("=", "!="):
        raise Skipped(f"subscription {id} orders texts: {predicate}")
    return attribute, operator, operand


def _event(document: Any, kinds: dict[str, type]) -> Event:
    for attribute, value in document.items():
        _note_kind(attribute, value, kinds)
    event: Event = document
    return event


def _note_kind(attribute: str, value: Any, kinds: dict[str, type]) -> None:
    """Hold an attribute to integers or to texts, never both."""
    kind = kinds.get(attribute)
    if kind is None:
        if not _NAME.fullmatch(attribute):
            raise Skipped(f"the attribute {attribute!r} is no plain name")
        kind = kinds[attribute] = type(value)
    if type(value) is not kind or kind not in (int, str):
        raise Skipped(f"{attribute} is {value!r} somewhere; peers are compared on integers or texts, one per attribute")
    if isinstance(value, int) and abs(value) >= LIMIT:
        raise Skipped(f"{attribute} is {value} somewhere, beyond 62 bits")
