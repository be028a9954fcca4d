"""Pages of the schema: a browser with a picture, and the four rules by which it grows.

The picture is of event types, their attributes and the domains of those, in three columns, joined by lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from tocsin.documents.schema import (
    Extension,
    NewAlias,
    NewAttribute,
    NewEventType,
    NewEventTypeEntry,
    NewValues,
    TypeExtension,
)
from tocsin.errors import TocsinError
from tocsin.schema import EnumeratedDomain, HierarchicalDomain, Schema
from tocsin.service.problems import NotFound
from tocsin.service.routes.schema import (
    accept_proposal,
    extend_schema,
    find_proposals,
    propose,
    refuse_proposal,
    waits_for_yes,
)
from tocsin.service.web.visit import Pages, Visit
from tocsin.store.store import instant

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


pages = Pages()
KINDS = ("numeric", "text", "boolean", "time", "point", "ip", "enumerated", "hierarchical", "object")


@pages.get("/schema", "guest")
async def show(visit: Visit) -> Response:
    """Show the schema in force, and how it came to be."""
    schema = await asyncio.to_thread(lambda: visit.service.broker.schema)
    history = await asyncio.to_thread(visit.service.broker.schema_history)
    me, proposals = visit.principal, []
    if not me.is_guest:
        proposals = await asyncio.to_thread(find_proposals, visit.service, me, 50)
    extends = me.role == "admin" or (me.role == "publisher" and visit.service.settings.schema_additions != "admins")
    return visit.page(
        "schema.html", schema=schema, picture=picture_of(schema), trees=_trees(schema), history=history[::-1][:50],
        instant=instant, proposals=proposals, extends=extends,
    )  # fmt: skip


@pages.post("/schema/proposals/{number}", "admin")
async def answer(visit: Visit) -> Response:
    """Accept a proposal, or refuse it."""
    number, words = visit.request.path_params["number"], visit.text("words")[:500]
    if not number.isdigit() or len(number) > 18:
        raise NotFound(f"there is no proposal {number[:40]}")
    decide = accept_proposal if visit.text("answer") == "yes" else refuse_proposal
    await asyncio.to_thread(decide, visit.service, visit.principal, int(number), words)
    return visit.go("/schema", done="answered")


def _trees(schema: Schema) -> dict[str, dict[str, Any]]:
    return {name: domain.tree for name, domain in schema.domains.items() if isinstance(domain, HierarchicalDomain)}


@pages.get("/schema/extend", "extender")
async def show_extend(visit: Visit) -> Response:
    """Show the four forms."""
    return await _forms(visit)


async def _forms(visit: Visit, rule: str = "", error: str = "", affected: Any = None, status: int = 200) -> Response:
    schema = await asyncio.to_thread(lambda: visit.service.broker.schema)
    given = {name: visit.text(name) for name in visit.form}
    kinds = EnumeratedDomain | HierarchicalDomain
    return visit.page(
        "extend.html", status, schema=schema, finite=[name for name, each in schema.domains.items() if isinstance(each, kinds)],
        kinds=KINDS, rule=rule, error=error, affected=affected, given=given,
        chosen=visit.texts("attributes"), mandatory=visit.texts("mandatory"), multiple=visit.texts("multiple"),
    )  # fmt: skip


@pages.post("/schema/extend", "extender")
async def extend(visit: Visit) -> Response:
    """Put an extension in force; or say whom it would affect, or what is wrong with it, beside the form."""
    rule, dry_run = visit.text("rule"), bool(visit.text("dry_run"))
    try:
        change = _change(visit, rule)
        if not dry_run and waits_for_yes(visit.service, visit.principal, [change]):
            await asyncio.to_thread(propose, visit.service, visit.principal, [change], "", None)
            return visit.go("/schema", done="proposed")
        told = await asyncio.to_thread(
            extend_schema, visit.service.broker, [change], "", None, dry_run=dry_run,
            by=visit.principal.name,
        )  # fmt: skip
    except TocsinError as error:
        return await _forms(visit, rule, str(error), status=422)
    if dry_run:
        return await _forms(visit, rule, affected=told.affected)
    return visit.go("/schema", done="extended")


def _change(visit: Visit, rule: str) -> Extension:
    name = visit.text("name").strip()
    match rule:
        case "add domain":
            return Extension(add_domain={"name": name, **_domain(visit)})
        case "add attribute":
            return Extension(add_attribute=NewAttribute(name=name, domain=visit.text("domain")))
        case "extend event type":
            return Extension(
                extend_event_type=TypeExtension(
                    event_type=visit.text("event_type"),
                    attribute=visit.text("attribute"),
                    multiple=bool(visit.text("multiple")),
                )
            )
        case "add values":
            values = [line.strip() for line in visit.text("values").splitlines() if line.strip()]
            below = visit.text("below").strip() or None
            return Extension(add_values=NewValues(domain=visit.text("domain"), values=values, below=below))
        case "add alias":
            alias, means = visit.text("alias").strip(), visit.text("means").strip()
            return Extension(add_alias=NewAlias(alias=alias, means=means, domain=visit.text("domain") or None))
        case _:
            mandatory, multiple = visit.texts("mandatory"), visit.texts("multiple")
            entries = [
                NewEventTypeEntry(attribute=one, mandatory=one in mandatory, multiple=one in multiple)
                for one in visit.texts("attributes")
            ]
            return Extension(add_event_type=NewEventType(name=name, attributes=entries))


def _domain(visit: Visit) -> dict[str, Any]:
    kind, lines = visit.text("kind"), visit.text("values").splitlines()
    spec: dict[str, Any] = {"kind": kind}
    if kind == "enumerated":
        spec["values"] = [line.strip() for line in lines if line.strip()]
        if visit.text("ordered"):
            spec["order"] = "total"
    elif kind == "hierarchical":
        spec["tree"] = read_tree(lines)
    elif kind == "numeric":
        for bound in ("minimum", "maximum"):
            if text := visit.text(bound).strip():
                spec[bound] = float(text) if "." in text else int(text) if text.lstrip("-").isdigit() else text
    return spec


def read_tree(lines: list[str]) -> dict[str, Any]:
    """Return the hierarchy that indented lines describe: what is indented further lies below."""
    tree: dict[str, Any] = {}
    open_levels: list[tuple[int, dict[str, Any]]] = [(-1, tree)]
    for line in lines:
        if name := line.strip():
            depth = len(line) - len(line.lstrip())
            while len(open_levels) > 1 and open_levels[-1][0] >= depth:
                open_levels.pop()
            below: dict[str, Any] = {}
            open_levels[-1][1][name] = below
            open_levels.append((depth, below))
    return tree
