"""Pages of the schema: a browser with a picture, and the four rules by which it grows."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from tocsin.broker.cursors import instant
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
from tocsin.service import schema_changes
from tocsin.service.web.picture import picture_of
from tocsin.service.web.visit import Pages, Visit

pages = Pages()
KINDS = ("numeric", "text", "boolean", "time", "point", "enumerated", "hierarchical")


@pages.get("/schema", "guest")
async def show(visit: Visit) -> Response:
    """Show the schema in force, and how it came to be."""
    schema = await asyncio.to_thread(lambda: visit.service.broker.schema)
    history = await asyncio.to_thread(visit.service.broker.schema_history)
    return visit.page(
        "schema.html", schema=schema, picture=picture_of(schema), trees=_trees(schema), history=history[::-1][:50],
        instant=instant,
    )  # fmt: skip


def _trees(schema: Schema) -> dict[str, dict[str, Any]]:
    return {name: domain.tree for name, domain in schema.domains.items() if isinstance(domain, HierarchicalDomain)}


@pages.get("/schema/extend", "admin")
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


@pages.post("/schema/extend", "admin")
async def extend(visit: Visit) -> Response:
    """Put an extension in force; or say whom it would affect, or what is wrong with it, beside the form."""
    rule, dry_run = visit.text("rule"), bool(visit.text("dry_run"))
    try:
        change = _change(visit, rule)
        told = await asyncio.to_thread(
            schema_changes.extend, visit.service.broker, [change], "", None, dry_run=dry_run,
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
