"""Events: attribute -> values, over one or more event types, and how raw ones are admitted.

The consistency rules of Le Subscribe, section 2.1: an event names its event types (rule 1); it binds each mandatory
attribute of their view, with values from the attribute's domain, one value where the attribute is unique (rule 2); and
it binds nothing else (rule 3).

Raw events are JSON-like. Nested objects flatten to dotted names, arrays give several values, null or an empty array
means that the attribute is not bound. Where the schema has just one event type, an event need not name it. An array of
objects binds its own attribute, where the schema has one, to its elements, and below it each attribute to the values of all.

The short way for plain events: flat objects whose values are canonical as they come.

Most events are such, and `schema/event.py`, which finds every violation of an event, takes its time. Here an event
costs a function call per attribute; whatever is not plainly right is left to the long way, which decides. So this
module never rejects, and what it admits is what the long way admits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from tocsin.errors import BadValue, EventRejected, Violation, did_you_mean, nearest, shown
from tocsin.schema.domain import (
    BooleanDomain,
    Domain,
    DynamicDomain,
    Element,
    Key,
    NumericDomain,
    ObjectDomain,
    TextDomain,
    Value,
    instant,
    is_unicode,
)
from tocsin.schema.event_type import EVENT_TYPE
from tocsin.schema.finite_domains import EnumeratedDomain, HierarchicalDomain
from tocsin.schema.foreign_values import is_like_json, plain
from tocsin.schema.readings import DYNAMIC, ReadableAttributes, ReadableValues, joined_values

if TYPE_CHECKING:
    from tocsin.schema.event_type import View, ViewAttribute
    from tocsin.schema.schema import Schema


MAX_DEPTH = 32
NOW = "now()"  # the name under which formulas know when an event arrived
MOST_SHOWN = 10  # bad values of one attribute, and guesses at unknown names


@dataclass(frozen=True, slots=True)
class Event:
    """An admitted event: each attribute bound to its distinct canonical values, `event_type` among them."""

    values: Mapping[str, tuple[Value, ...]]

    @property
    def types(self) -> tuple[str, ...]:
        return self.values[EVENT_TYPE]  # type: ignore[return-value]


EventT = TypeVar("EventT", bound=Event)


def arrived(event: EventT, at_us: int | None = None) -> EventT:
    """Return the event with the time of its arrival, in microseconds; where none is given, its own, else the clock's."""
    if at_us is None and NOW in event.values:
        return event
    at = instant(time.time_ns() // 1_000 if at_us is None else at_us)
    return replace(event, values=joined_values(event.values, {NOW: (at,)}))


def admit(schema: Schema, raw: object) -> Event:
    """Return the event that `raw` describes; raises EventRejected with all its violations."""
    return admit_plain(schema, raw) or admit_thoroughly(schema, raw)


def admit_plain(schema: Schema, raw: object) -> Event | None:
    """Return the event where it is a plain one, each attribute with the one value that `raw` has for it."""
    if type(raw) is dict and (plain := schema.plain_admission(raw.get(EVENT_TYPE))) is not None:
        values = plain.admit(raw)
        if values is not None:
            return Event(values)
    return None


def admit_thoroughly(schema: Schema, raw: object) -> Event:
    """Do what `admit` does, for any event, plain or not (see event.py)."""
    violations: list[Violation] = []
    if not isinstance(raw, Mapping):
        raise EventRejected([Violation("not an object", None, f"an event is an object, not {type(raw).__name__}")])
    bound = _under_their_names(schema, flatten(raw, schema.point_attributes, violations, schema.object_attributes))
    view = _view_of(schema, bound, violations)
    declared = view.attributes if view else {}
    values = {} if view is None else _admit_bound(schema, view, bound, violations, set())
    violations.extend(
        Violation("missing mandatory attribute", name, f"the mandatory attribute {name!r} is missing")
        for name in (view.mandatory if view else ())
        if name not in values
    )
    if violations:
        raise EventRejected(violations)
    return Event(ReadableValues(values, declared) if isinstance(declared, ReadableAttributes) else values)


def kept_values(raws: list[object], domain: Domain = DYNAMIC) -> tuple[Value, ...]:
    """Return the values of an attribute that nobody has declared; what is no value is passed over."""
    by_key: dict[Key, Value] = {}
    for raw in raws:
        with suppress(BadValue):
            value = domain.admit(raw)
            by_key.setdefault(domain.key(value), value)
    return tuple(by_key.values())


def _not_like_json(name: str, raws: list[object]) -> Iterator[Violation]:
    """Yield what no event could hold: NaN, times without a zone, objects of a program. Left out, nobody would know."""
    for raw in raws:
        if not is_like_json(raw):
            try:
                DYNAMIC.admit(raw)
            except BadValue as error:
                yield Violation("bad value", name, f"{name}: {error}")


def _admit_bound(
    schema: Schema, view: View, bound: Mapping[str, list[object]], violations: list[Violation], told: set[str]
) -> dict[str, tuple[Value, ...]]:
    """Return the values of an event, or of an element; those of elements are its own too.

    Appends what is wrong; what may be so of every element is `told` once.
    """
    values: dict[str, tuple[Value, ...]] = {}
    below: dict[str, list[Value]] = {}  # the values of elements
    declared = view.attributes
    for name, raws in bound.items():
        meant = schema.meaning(name)
        entry = declared.declared(meant) if isinstance(declared, ReadableAttributes) else declared.get(meant)
        if entry is None and view.unknown in ("kept", "dynamic"):
            if meant not in schema.attributes and (kept := kept_values(raws)):
                values[name] = kept
            if view.unknown == "dynamic":
                violations.extend(_not_like_json(name, raws))
            continue
        if entry is None:
            if not view.is_open and name not in told:
                told.add(name)
                violations.append(_unknown_attribute(schema, view, name, hint=len(violations) < MOST_SHOWN))
            continue
        if isinstance(entry.domain, ObjectDomain):
            elements: list[object] = []
            for raw in raws:
                if not isinstance(raw, _RawElement):
                    elements.append(raw)
                    continue
                element = Element(_admit_bound(schema, view, _under_their_names(schema, raw), violations, told))
                elements.append(element)
                for attribute, given in element.items():
                    below.setdefault(attribute, []).extend(given)
                if len(violations) > MOST_SHOWN:
                    break
            found = tuple(dict.fromkeys(_admit_values(entry, elements, violations)))
        else:
            found = _admit_values(entry, raws, violations)
        _check_unique(entry, found, violations, told)
        values[meant] = _united(entry.domain, values[meant], found) if meant in values else found
    for name, given in below.items():
        known = dict(declared).get(name)
        values[name] = _united(DYNAMIC if known is None else known.domain, values.get(name, ()), tuple(given))
        if known is not None:
            _check_unique(known, values[name], violations, told)
    return values


def admit_elements(schema: Schema, name: str, raws: object) -> tuple[Element, ...]:
    """Return the elements of an array of objects, as other tools have it; raises EventRejected."""
    violations: list[Violation] = []
    bound = flatten({name: raws}, schema.point_attributes, violations, schema.object_attributes)
    values = _admit_bound(schema, schema.view(), bound, violations, set())
    if violations:
        raise EventRejected(violations)
    return values.get(name, ())  # type: ignore[return-value]


def _check_unique(entry: ViewAttribute, values: tuple[Value, ...], violations: list[Violation], told: set[str]) -> None:
    if len(values) > 1 and not entry.multiple and entry.name not in told:
        told.add(entry.name)
        message = f"{entry.name} is unique, and the event gives {len(values)} values"
        violations.append(Violation("several values for a unique attribute", entry.name, message))


def _view_of(schema: Schema, bound: dict[str, list[object]], violations: list[Violation]) -> View | None:
    """Return the view of the event's types, or None where they are unknown; binds an implied event type."""
    default = schema.default_type
    if EVENT_TYPE not in bound and default is not None:
        bound[EVENT_TYPE] = [default]
    names = bound.get(EVENT_TYPE)
    if names and default is not None and schema.event_types[default].unknown == "dynamic":
        names = bound[EVENT_TYPE] = [name for name in names if name in schema.event_types] or [default]
    if not names:
        listed = ", ".join(list(schema.event_types)[:8])
        violations.append(Violation("no event type", EVENT_TYPE, f"the event names no event type; there are: {listed}"))
        return None
    unknown = [name for name in names if not isinstance(name, str) or name not in schema.event_types]
    for name in unknown[:MOST_SHOWN]:
        hint = did_you_mean(nearest(str(name), schema.event_types))
        violations.append(Violation("unknown event type", EVENT_TYPE, f"there is no event type {shown(name)}{hint}"))
    return None if unknown else schema.view(map(str, names))


def _admit_values(entry: ViewAttribute, raws: list[object], violations: list[Violation]) -> tuple[Value, ...]:
    """Return the distinct canonical values; appends a violation for each that is wrong."""
    domain = entry.domain
    if isinstance(domain, ObjectDomain):
        wrong = [raw for raw in raws if not isinstance(raw, Element)]
        for raw in wrong[:MOST_SHOWN]:
            violations.append(Violation("bad value", entry.name, f"{entry.name}: {domain.bad(raw, 'an object')}"))
        return () if wrong else tuple(raws)  # type: ignore[arg-type]
    by_key: dict[Key, Value] = {}
    bad = 0
    for raw in raws:
        try:
            value = domain.admit(raw)
        except BadValue as error:
            violations.append(Violation("bad value", entry.name, f"{entry.name}: {error}"))
            bad += 1
            if bad == MOST_SHOWN:  # each message costs a search for the nearest names
                violations.append(Violation("bad value", entry.name, f"{entry.name}: more values are not looked at"))
                break
        else:
            by_key.setdefault(domain.key(value), value)
    return tuple(by_key.values())


def _under_their_names(schema: Schema, bound: dict[str, list[object]]) -> dict[str, list[object]]:
    """Return what is bound, with names that are nothing but aliases replaced; an attribute that became one keeps its own."""
    if not schema.aliases:
        return bound
    found: dict[str, list[object]] = {}
    for name, raws in bound.items():
        found.setdefault(name if name in schema.attributes else schema.meaning(name), []).extend(raws)
    return found


def _united(domain: Domain, some: tuple[Value, ...], more: tuple[Value, ...]) -> tuple[Value, ...]:
    if isinstance(domain, ObjectDomain):
        return tuple(dict.fromkeys((*some, *more)))
    by_key = {domain.key(value): value for value in reversed((*some, *more))}
    return tuple(dict.fromkeys(by_key[domain.key(value)] for value in (*some, *more)))


def _unknown_attribute(schema: Schema, view: View, name: str, *, hint: bool) -> Violation:
    types = ", ".join(sorted(view.event_types))
    if name in schema.attributes:
        return Violation("unknown attribute", name, f"events of type {types} have no attribute {name!r}")
    guess = did_you_mean(nearest(name, view.attributes)) if hint else ""
    return Violation("unknown attribute", name, f"there is no attribute {shown(name)}{guess}")


class _RawElement(dict[str, list[object]]):
    """What `flatten` has found in one object of an array."""


def flatten(
    raw: Mapping[str, object],
    points: Container[str] = (),
    violations: list[Violation] | None = None,
    objects: Container[str] = (),
) -> dict[str, list[object]]:
    """Return dotted name -> the raw values found there, nulls left out.

    Points look like nested objects or arrays, so `points` tells which names are points. Below a name among `objects` each
    object is by itself.
    """
    found: dict[str, list[object]] = {}

    def walk(name: str, value: object, depth: int, found: dict[str, list[object]] = found) -> None:
        if value is None:
            return
        if depth > MAX_DEPTH:
            if violations is None:
                raise EventRejected([_too_deep(name)])
            violations.append(_too_deep(name))
        elif name in points and not _is_list_of_points(value):
            found.setdefault(name, []).append(value)
        elif isinstance(value, Mapping):
            if name in objects:
                element = _RawElement()
                found.setdefault(name, []).append(element)
                found = element
            whole = isinstance(value, Element)  # its names are whole already
            for key, inner in value.items():
                walk(f"{name}.{key}" if name and not whole else str(key), inner, depth + 1, found)
        elif isinstance(value, list | tuple | set | frozenset):
            for inner in value:
                walk(name, inner, depth + 1, found)
        elif (inner := plain(value)) is not value:
            walk(name, inner, depth + 1, found)
        else:
            found.setdefault(name, []).append(value)

    walk("", raw, 0)
    return found


def _too_deep(name: str) -> Violation:
    return Violation("too large", name[:80], f"the event is nested deeper than {MAX_DEPTH}")


def _is_list_of_points(value: object) -> bool:
    return isinstance(value, list | tuple | set | frozenset) and all(
        isinstance(inner, list | tuple | Mapping | None) for inner in value
    )


# The short way for plain events.


Taker = Callable[[Any], Value | None]  # the value if it is canonical, None to have a closer look
_INT64 = 2**63
_INFINITY = float("inf")


class PlainAdmission:
    """Admits plain events of one event type."""

    def __init__(self, schema: Schema, event_type: str) -> None:
        view = schema.view([event_type])
        self.types = (event_type,)
        self.takers = {name: taker(entry.domain) for name, entry in view.attributes.items() if name != EVENT_TYPE}
        self.takers |= dict.fromkeys(schema.aliases, _take_nothing)
        self.mandatory = frozenset(view.mandatory) - {EVENT_TYPE}
        self.passed_over = (str, int, float, bool) if view.unknown == "ignored" else ()  # what has no attributes inside
        self.readable = view.attributes if isinstance(view.attributes, ReadableAttributes) else None
        self.keeps = view.unknown in ("kept", "dynamic")
        self._elsewhere = frozenset(schema.attributes) - self.takers.keys()

    def admit(self, raw: dict[str, Any]) -> dict[str, tuple[Value, ...]] | None:
        """Return the event's values, or None where it needs a closer look."""
        takers = self.takers
        values: dict[str, tuple[Value, ...]] = {EVENT_TYPE: self.types}
        for name, given in raw.items():
            if name == EVENT_TYPE:
                continue
            take = takers.get(name)
            if take is None and isinstance(given, self.passed_over):
                continue
            if take is None and self.keeps and name not in self._elsewhere:
                take = _take_dynamic
            if take is None or (value := take(given)) is None:
                return None
            values[name] = (value,)
        if not self.mandatory <= values.keys():
            return None
        return values if self.readable is None else ReadableValues(values, self.readable)


def taker(domain: Domain) -> Taker:
    """Return the function that takes a value of the domain if it is canonical as it comes."""
    match domain:
        case NumericDomain(type="int" | "float", minimum=None, maximum=None):
            return _take_int if domain.type == "int" else _take_number
        case TextDomain(max_length=None):
            return _take_text
        case BooleanDomain():
            return _take_boolean
        case DynamicDomain():
            return _take_dynamic
        case EnumeratedDomain() | HierarchicalDomain():
            members = frozenset(domain.values) - domain.meaning.keys()
        case _:
            return _take_nothing
    return lambda raw: raw if type(raw) is str and raw in members else None


def _take_int(raw: Any) -> int | None:
    return raw if type(raw) is int and -_INT64 <= raw < _INT64 else None


def _take_number(raw: Any) -> int | float | None:
    if type(raw) is int:
        return raw if -_INT64 <= raw < _INT64 else None
    # A whole float is written as an int, and NaN equals nothing: both need a closer look.
    if type(raw) is float and raw == raw and -_INFINITY < raw < _INFINITY and not raw.is_integer():
        return raw
    return None


def _take_text(raw: Any) -> str | None:
    return raw if type(raw) is str and is_unicode(raw) else None


def _take_boolean(raw: Any) -> bool | None:
    return raw if type(raw) is bool else None


def _take_dynamic(raw: Any) -> Value | None:
    return raw if type(raw) is bool else _take_text(raw) if type(raw) is str else _take_number(raw)


def _take_nothing(raw: Any) -> None:  # noqa: ARG001
    return None
