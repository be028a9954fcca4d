"""The meetings of a schema: for each event type that a union names as its event, what names mean there."""

from __future__ import annotations

from collections import OrderedDict

from tocsin.schema import Event, Schema
from tocsin.symmetric.meeting import Meeting, meeting_of

_MOST = 16  # schemas whose meetings are kept: versions of one, mostly
_known: OrderedDict[int, tuple[Schema, dict[str, Meeting]]] = OrderedDict()


def meetings(schema: Schema) -> dict[str, Meeting]:
    """Return event type -> meeting; of two unions with one event type, the first."""
    kept = _known.get(id(schema))
    if kept is not None and kept[0] is schema:
        return kept[1]
    found: dict[str, Meeting] = {}
    for name, union in schema.unions.items():
        found.setdefault(union.event, meeting_of(schema, name))
    _known[id(schema)] = (schema, found)
    while len(_known) > _MOST:
        _known.popitem(last=False)
    return found


def admit_static(schema: Schema, raw: dict[str, object]) -> Event:
    """Return a stored event; one that was an offer may lack mandatory attributes, which were computed."""
    meeting = meetings(schema).get(str(raw.get("event_type")))
    return schema.admit(raw) if meeting is None else meeting.lenient_schema.admit(raw)
