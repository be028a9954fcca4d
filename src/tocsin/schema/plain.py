"""The short way for plain events: flat objects whose values are canonical as they come.

Most events are such, and `schema/event.py`, which finds every violation of an event, takes its time. Here an event
costs a function call per attribute; whatever is not plainly right is left to the long way, which decides. So this
module never rejects, and what it admits is what the long way admits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tocsin.schema.domain import BooleanDomain, Domain, NumericDomain, TextDomain, Value, is_unicode
from tocsin.schema.enumeration import EnumeratedDomain
from tocsin.schema.hierarchy import HierarchicalDomain
from tocsin.schema.schema import EVENT_TYPE

if TYPE_CHECKING:
    from tocsin.schema.schema import Schema

Taker = Callable[[Any], Value | None]  # the value if it is canonical, None to have a closer look
_INT64 = 2**63
_INFINITY = float("inf")


class PlainAdmission:
    """Admits plain events of one event type."""

    def __init__(self, schema: Schema, event_type: str) -> None:
        view = schema.view([event_type])
        self.types = (event_type,)
        self.takers = {name: taker(entry.domain) for name, entry in view.attributes.items() if name != EVENT_TYPE}
        self.mandatory = frozenset(view.mandatory) - {EVENT_TYPE}

    def admit(self, raw: dict[str, Any]) -> dict[str, tuple[Value, ...]] | None:
        """Return the event's values, or None where it needs a closer look."""
        takers = self.takers
        values: dict[str, tuple[Value, ...]] = {EVENT_TYPE: self.types}
        for name, given in raw.items():
            if name == EVENT_TYPE:
                continue
            take = takers.get(name)
            if take is None or (value := take(given)) is None:
                return None
            values[name] = (value,)
        return values if self.mandatory <= values.keys() else None


def taker(domain: Domain) -> Taker:
    """Return the function that takes a value of the domain if it is canonical as it comes."""
    match domain:
        case NumericDomain(type="int" | "float", minimum=None, maximum=None):
            return _take_int if domain.type == "int" else _take_number
        case TextDomain(max_length=None):
            return _take_text
        case BooleanDomain():
            return _take_boolean
        case EnumeratedDomain():
            members = domain.positions
        case HierarchicalDomain():
            members = dict.fromkeys(domain.intervals, 0)
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


def _take_nothing(raw: Any) -> None:  # noqa: ARG001
    return None
