"""Publishing in two steps: of which types the event is, then a form of their view.

A form has a field for each attribute of the view, and is an event when it is filled. Examples are values that fill one,
also so that a given subscription would match it: for people who want to see something arrive: an example is a proposal that they can change, never stored by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from starlette.responses import Response

from tocsin.errors import EventRejected, LanguageError, Violation
from tocsin.language.syntax import Op
from tocsin.schema import EVENT_TYPE, NumericDomain, Schema, View, ViewAttribute
from tocsin.schema.domain import is_number
from tocsin.service.routes import events, subscriptions
from tocsin.service.routes.events import Incoming
from tocsin.service.web.builder import Row, rows_of
from tocsin.service.web.visit import Pages, Visit

Control = Literal["number", "text", "choice", "time", "lines"]
PREFIX = "value."  # of the fields of an event, so that an attribute may have any name
_HINTS = {
    "time": "with its zone: 2026-11-15T10:00:00Z",
    "point": "latitude, longitude: 40.85, -73.88",
    "numeric": "a number",
}


@dataclass(frozen=True)
class Field:
    """One field of a form."""

    attribute: str
    control: Control
    kind: str
    mandatory: bool
    multiple: bool
    choices: tuple[tuple[str, str], ...] = ()  # value, label: indented where it is a hierarchy
    hint: str = ""
    given: tuple[str, ...] = ()
    errors: tuple[str, ...] = field(default_factory=tuple)

    @property
    def name(self) -> str:
        return PREFIX + self.attribute


def choices_of(attribute: ViewAttribute) -> tuple[tuple[str, str], ...]:
    """Return the values that an attribute can have, where they can be listed."""
    domain = attribute.domain
    if domain.kind == "boolean":
        return (("true", "yes"), ("false", "no"))
    if domain.kind == "hierarchical":
        return tuple(
            (value, "\u2003" * len(domain.ancestors(value)) + value)  # type: ignore[attr-defined]
            for value in domain.values  # type: ignore[attr-defined]
        )
    if domain.kind == "enumerated":
        return tuple((value, value) for value in domain.values)  # type: ignore[attr-defined]
    return ()


def fields_of(
    view: View, given: Mapping[str, Sequence[str]] | None = None, violations: Sequence[Violation] = ()
) -> list[Field]:
    """Return the fields for an event of a view, mandatory ones first, with what was given and what is wrong with it."""
    found = []
    for attribute in view.attributes.values():
        if attribute.name == EVENT_TYPE or attribute.domain.kind == "object":  # no field holds an array of objects
            continue
        choices = choices_of(attribute)
        control: Control = "choice" if choices else "lines" if attribute.multiple else "text"
        if control == "text" and attribute.domain.kind == "numeric":
            control = "number"
        found.append(
            Field(
                attribute.name,
                control,
                attribute.domain.kind,
                attribute.mandatory,
                attribute.multiple,
                choices,
                _HINTS.get(attribute.domain.kind, ""),
                tuple((given or {}).get(attribute.name, ())),
                tuple(one.message for one in violations if one.attribute == attribute.name),
            )
        )
    return sorted(found, key=lambda one: not one.mandatory)


def read_event(view: View, form: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the event that a form describes, as raw as JSON is; what is left empty is absent."""
    event: dict[str, Any] = {EVENT_TYPE: sorted(view.event_types)}
    for attribute in view.attributes.values():
        texts = [text for text in form.get(attribute.name, ()) if text.strip()]
        if attribute.name == EVENT_TYPE or not texts:
            continue
        values = [_raw(attribute, text) for text in texts]
        event[attribute.name] = values if attribute.multiple else values[0]
    return event


def _raw(attribute: ViewAttribute, text: str) -> Any:
    value = attribute.domain.from_text(text)
    if isinstance(value, Decimal):  # as JSON would have it
        return int(value) if value == value.to_integral_value() and "." not in text else float(value)
    return value


def given_values(items: Sequence[tuple[str, str]], multiple: Mapping[str, bool]) -> dict[str, list[str]]:
    """Return attribute -> texts of a form's fields; a field of several lines has a value in each."""
    found: dict[str, list[str]] = {}
    for name, text in items:
        if name.startswith(PREFIX):
            attribute = name.removeprefix(PREFIX)
            lines = text.splitlines() if multiple.get(attribute) else [text]
            found.setdefault(attribute, []).extend(line.strip() for line in lines if line.strip())
    return found


_BELOW, _ABOVE = frozenset({Op.LT, Op.NE}), frozenset({Op.GT})
_LISTS = frozenset({Op.IN, Op.CONTAINS_ANY, Op.BETWEEN})


def example_values(view: View, rows: Iterable[Row] = ()) -> dict[str, list[str]]:
    """Return attribute -> texts for an event of a view: what is mandatory, and what fits rows of conditions."""
    found = {
        attribute.name: [_any_value(attribute)]
        for attribute in view.attributes.values()
        if attribute.mandatory and attribute.name != EVENT_TYPE
    }
    for row in rows:
        attribute = view.attributes.get(row.attribute)
        if attribute is None or row.op == Op.ABSENT:
            continue
        texts = _fitting_values(attribute, row)
        if texts:
            found[row.attribute] = texts
    return found


def _any_value(attribute: ViewAttribute) -> str:
    """Return a value that the domain admits."""
    choices, domain = choices_of(attribute), attribute.domain
    if choices:
        return choices[-1][0]
    if isinstance(domain, NumericDomain):
        return str(domain.minimum + 1 if domain.minimum is not None else domain.maximum or 1)
    if domain.kind == "time":
        return (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:00Z")
    return "40.85, -73.88" if domain.kind == "point" else f"example {attribute.name.rpartition('.')[2]}"


def _fitting_values(attribute: ViewAttribute, row: Row) -> list[str]:
    """Return values that satisfy a condition, as far as that is easy; the first of several."""
    value = row.value.strip()
    if row.op == Op.PRESENT or not value:
        return [_any_value(attribute)]
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if row.op == Op.CONTAINS_ALL:
        return parts
    if row.op in _LISTS:
        return parts[:1]
    if is_number(value) and attribute.domain.kind == "numeric":
        return [_number(Decimal(value), row.op, attribute)]
    if row.op in _BELOW | _ABOVE:
        return _neighbour(attribute, value, row.op)
    return [value]


def _number(value: Decimal, op: str, attribute: ViewAttribute) -> str:
    """Return a number on the right side of a bound, within what the domain admits."""
    shifted = value / 2 if op in _BELOW and value > 0 else value - 1 if op in _BELOW else value + 1
    chosen = shifted if op in _BELOW | _ABOVE else value
    domain = attribute.domain
    if isinstance(domain, NumericDomain) and domain.type == "int":
        chosen = Decimal(int(chosen))
    return f"{chosen.normalize():f}"


def _neighbour(attribute: ViewAttribute, value: str, op: str) -> list[str]:
    """Return a listed value before or after another; nothing where values are not listed."""
    values = [one for one, _ in choices_of(attribute)]
    if value not in values:
        return []
    at = values.index(value) + (1 if op in _ABOVE else -1)
    return [values[at]] if 0 <= at < len(values) else [one for one in values if one != value][:1]


pages = Pages()


@pages.get("/publish", "publisher")
async def show(visit: Visit) -> Response:
    """Ask for the types; with types, show the form of their view."""
    schema = await asyncio.to_thread(lambda: visit.service.broker.schema)
    types = [name for name in visit.request.query_params.getlist("type") if name in schema.event_types]
    fits = visit.query("fits")
    if fits.isdigit() and len(fits) < 19:
        return await _fitting(visit, schema, int(fits))
    if not types:
        return visit.page("publish_types.html", schema=schema, action="/publish", title="Publish an event")
    view = schema.view(types)
    given = example_values(view) if visit.query("example") else {}
    return visit.page("publish.html", types=types, fields=fields_of(view, given), others=[], told=None, fits=None)


async def _fitting(visit: Visit, schema: Schema, id: int) -> Response:
    """Show the form filled in so that a subscription of the visitor would match, as far as its text tells."""
    found = await subscriptions.find_subscription(visit.service, visit.principal, id)
    try:
        parts = rows_of(found.text)
    except LanguageError:
        parts = None
    types, rows = parts if parts is not None else ((), [])
    types = tuple(name for name in types if name in schema.event_types)[:1] or tuple(schema.event_types)[:1]
    view = schema.view(types)
    given = example_values(view, rows)
    return visit.page("publish.html", types=types, fields=fields_of(view, given), others=[], told=None, fits=id)


@pages.post("/publish", "publisher")
async def publish(visit: Visit) -> Response:
    """Publish the event; or say at each field what is wrong. A dry run tells how many it would match."""
    schema = await asyncio.to_thread(lambda: visit.service.broker.schema)
    types = [name for name in visit.texts("type") if name in schema.event_types]
    if not types:
        return visit.go("/publish")
    view = schema.view(types)
    given = given_values(
        [(name, text) for name, text in visit.form.multi_items() if isinstance(text, str)],
        {name: entry.multiple for name, entry in view.attributes.items()},
    )
    incoming = Incoming([read_event(view, given)], single=True, key=None)
    try:
        if visit.text("dry_run"):
            told = (await events.try_out(visit.service, visit.principal, incoming)).items[0]
            return visit.page(
                "publish.html", types=types, fields=fields_of(view, given), others=[], told=told, fits=None
            )
        await events.publish_incoming(visit.service, visit.principal, incoming)
    except EventRejected as error:
        return _again(visit, types, view, given, error.violations)
    return visit.go("/publish", done="published", type=types[0])


def _again(
    visit: Visit, types: list[str], view: View, given: dict[str, list[str]], violations: tuple[Violation, ...]
) -> Response:
    others = [one.message for one in violations if one.attribute not in view.attributes]
    return visit.page(
        "publish.html", 422, types=types, fields=fields_of(view, given, violations), others=others, told=None, fits=None
    )
