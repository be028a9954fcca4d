"""The schema as a picture: event types, their attributes and the domains of those, in three columns, joined by lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tocsin.schema import Schema

ROW, TOP, BOX = 30, 40, 22
COLUMNS = (10, 250, 490)
WIDTH = 180


@dataclass(frozen=True)
class Box:
    """A name in a column."""

    name: str
    x: int
    y: int
    kind: str
    note: str = ""


@dataclass(frozen=True)
class Line:
    """From an event type to an attribute, or from an attribute to its domain; dashed where it is optional."""

    x1: int
    y1: int
    x2: int
    y2: int
    optional: bool


@dataclass(frozen=True)
class Picture:
    """What the template draws."""

    boxes: list[Box]
    lines: list[Line]
    width: int
    height: int


def picture_of(schema: Schema) -> Picture:
    """Return the picture of a schema."""
    boxes: dict[tuple[str, str], Box] = {}
    _column(boxes, "type", COLUMNS[0], ((name, "") for name in schema.event_types))
    _column(boxes, "attribute", COLUMNS[1], ((name, "") for name in schema.attributes))
    _column(boxes, "domain", COLUMNS[2], ((name, domain.kind) for name, domain in schema.domains.items()))
    lines = [
        _line(boxes["type", event_type.name], boxes["attribute", entry.attribute], optional=not entry.mandatory)
        for event_type in schema.event_types.values()
        for entry in event_type.attributes
    ]
    lines += [
        _line(boxes["attribute", name], boxes["domain", domain], optional=False)
        for name, domain in schema.attributes.items()
    ]
    rows = max(len(schema.event_types), len(schema.attributes), len(schema.domains), 1)
    return Picture(list(boxes.values()), lines, COLUMNS[2] + WIDTH + 10, TOP + rows * ROW + 10)


def _column(boxes: dict[tuple[str, str], Box], kind: str, x: int, names: Iterable[tuple[str, str]]) -> None:
    for at, (name, note) in enumerate(names):
        boxes[kind, name] = Box(name, x, TOP + at * ROW, kind, note)


def _line(left: Box, right: Box, *, optional: bool) -> Line:
    return Line(left.x + WIDTH, left.y + BOX // 2, right.x, right.y + BOX // 2, optional)
