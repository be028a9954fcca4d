"""Admission: raw events become admitted ones with their stored form, or all the reasons why not."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from tocsin.broker.offers import OfferAdmission
from tocsin.errors import EventRejected, Violation
from tocsin.language.offer import is_offer
from tocsin.language.sides import lenient
from tocsin.operators.event_evaluation import EventEvaluation
from tocsin.schema import EVENT_TYPE, Event, Schema
from tocsin.schema.event import admit_plain

RawEvent = Mapping[str, object] | Event | bytes | str
_SHOWN_BYTES = 4096  # of what is too large to be kept whole


@dataclass(slots=True)
class Admitted:
    """An event that follows the rules, how it is stored, and what operators have said about it already."""

    event: Event
    body: bytes
    known: EventEvaluation | None = None


@dataclass(slots=True)
class Rejected:
    """Something that is no event by the rules: why, and what came."""

    violations: tuple[Violation, ...]
    body: bytes


def admit_all(
    raws: Sequence[RawEvent], schema: Schema, most_bytes: int, offers: OfferAdmission | None = None
) -> list[Admitted | Rejected]:
    """Return what becomes of each raw event; offers are judged by `offers`."""
    return [_admit(raw, schema, most_bytes, offers) for raw in raws]


def _admit(raw: RawEvent, schema: Schema, most_bytes: int, offers: OfferAdmission | None) -> Admitted | Rejected:
    try:
        document = _object(raw, most_bytes)
        event = admit_plain(schema, document)
        if event is not None and EVENT_TYPE in document:  # plain: its values are stored as they are written
            body = msgspec.json.encode(document)
        else:
            is_one = offers is not None and is_offer(document)
            event = offers.admit(document, schema) if offers is not None and is_one else schema.admit(document)
            body = stored_form(event)
        if len(body) > most_bytes:
            raise EventRejected([_too_large(len(body), most_bytes)])
    except EventRejected as error:
        body = _as_it_came(raw)
        return Rejected(error.violations, body if len(body) <= most_bytes else body[:_SHOWN_BYTES])
    return Admitted(event, body)


def _object(raw: RawEvent, most_bytes: int) -> Mapping[str, object]:
    if isinstance(raw, Event):
        return raw.values
    if isinstance(raw, bytes | str):
        if len(raw) > most_bytes:
            raise EventRejected([_too_large(len(raw), most_bytes)])
        try:
            return msgspec.json.decode(raw)  # type: ignore[no-any-return]  # admit says what is no object
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:  # bad UTF-8 is the last
            raise EventRejected([Violation("not an object", None, f"the event is not JSON: {error}")]) from None
    return raw


def stored_form(event: Event) -> bytes:
    """Return an admitted event as JSON; a single value stands without a list. Admitting it gives the event again."""
    values = event.values
    return msgspec.json.encode({name: found[0] if len(found) == 1 else found for name, found in values.items()})


def read_stored(body: bytes) -> dict[str, Any]:
    """Return a stored event as JSON-like values."""
    document: dict[str, Any] = msgspec.json.decode(body)
    return document


def admit_stored(
    schema: Schema, body: bytes, offer: bytes | None = None, offers: OfferAdmission | None = None
) -> Event:
    """Return a stored event, or offer, admitted again; of an offer whose program is gone, its own attributes.

    One that was an offer may lack mandatory attributes, which were computed.
    """
    if offer is not None and offers is not None:
        with suppress(EventRejected):
            return offers.admit_stored(offer, schema)
    raw = read_stored(body)
    types = raw.get(EVENT_TYPE)
    offered = {union.event for union in schema.unions.values()}
    named = tuple([types] if isinstance(types, str) else types or ())
    return (lenient(schema, named) if offered.intersection(named) else schema).admit(raw)


def _too_large(size: int, most: int) -> Violation:
    return Violation("too large", None, f"the event has {size} bytes; {most} is the most")


def _as_it_came(raw: RawEvent) -> bytes:
    """Return a raw event as bytes: JSON, or at least something to look at where it has no such form."""
    if isinstance(raw, bytes | str):
        return raw if isinstance(raw, bytes) else raw.encode("utf-8", "backslashreplace")
    try:
        return msgspec.json.encode(raw.values if isinstance(raw, Event) else raw, enc_hook=repr, order="sorted")
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError):
        return repr(raw).encode("utf-8", "backslashreplace")


def request_hash(raws: Sequence[RawEvent], *, atomic: bool) -> bytes:
    """Return a hash of what was asked, as it came, to tell whether an idempotency key comes with the same again."""
    digest = hashlib.sha256(b"all" if atomic else b"each")
    for raw in raws:
        body = _as_it_came(raw)
        digest.update(len(body).to_bytes(8, "big") + body)
    return digest.digest()
