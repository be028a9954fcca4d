"""The schema as a picture: event types, their attributes and the domains of those, in three columns, joined by lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tocsin.schema import Schema

ROW, TOP, BOX = 30, 40, 22
COLUMNS = (10, 250, 490)
WIDTH = 180
HUES = 5  # that app.css has for lines


@dataclass(frozen=True)
class NameBox:
    """A name in a column."""

    name: str
    x: int
    y: int
    kind: str
    note: str = ""


@dataclass(frozen=True)
class Link:
    """From an event type to an attribute, or from an attribute to its domain; dashed where it is optional."""

    x1: int
    y1: int
    x2: int
    y2: int
    optional: bool
    hue: int = -1  # one of five for each event type; none from an attribute to its domain


@dataclass(frozen=True)
class Picture:
    """What the template draws."""

    boxes: list[NameBox]
    lines: list[Link]
    width: int
    height: int


def picture_of(schema: Schema) -> Picture:
    """Return the picture of a schema: attributes in their order, types and domains spread beside those they have."""
    rows = max(len(schema.event_types), len(schema.attributes), len(schema.domains), 1)
    boxes: dict[tuple[str, str], NameBox] = {}
    places = {name: at for at, name in enumerate(schema.attributes)}
    used = {
        name: [places[one] for one, domain in schema.attributes.items() if domain == name] for name in schema.domains
    }
    domains = sorted(schema.domains, key=lambda name: _middle(used[name], rows))
    _column(
        boxes, "type", COLUMNS[0], ((name, "") for name in schema.event_types), rows / max(1, len(schema.event_types))
    )
    _column(boxes, "attribute", COLUMNS[1], ((name, "") for name in schema.attributes), 1)
    _column(
        boxes, "domain", COLUMNS[2], ((name, schema.domains[name].kind) for name in domains),
        rows / max(1, len(domains)),
    )  # fmt: skip
    lines = [
        _line(
            boxes["type", event_type.name],
            boxes["attribute", entry.attribute],
            optional=not entry.mandatory,
            hue=at % HUES,
        )
        for at, event_type in enumerate(schema.event_types.values())
        for entry in event_type.attributes
    ]
    lines += [
        _line(boxes["attribute", name], boxes["domain", domain], optional=False)
        for name, domain in schema.attributes.items()
    ]
    return Picture(list(boxes.values()), lines, COLUMNS[2] + WIDTH + 10, TOP + rows * ROW + 10)


def _middle(rows: Sequence[int], last: int) -> float:
    return sum(rows) / len(rows) if rows else last


def _column(
    boxes: dict[tuple[str, str], NameBox], kind: str, x: int, names: Iterable[tuple[str, str]], step: float
) -> None:
    """Add a column; `step` is how many rows each name has."""
    for at, (name, note) in enumerate(names):
        boxes[kind, name] = NameBox(name, x, round(TOP + (at + 0.5) * step * ROW - ROW / 2), kind, note)


def _line(left: NameBox, right: NameBox, *, optional: bool, hue: int = -1) -> Link:
    return Link(left.x + WIDTH, left.y + BOX // 2, right.x, right.y + BOX // 2, optional, hue)
