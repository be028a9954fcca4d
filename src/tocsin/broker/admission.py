"""Admission: raw events become admitted ones with their stored form, or all the reasons why not.

Offers as they are published: events with rules over the subscribers' properties, and computed attributes.

    {"event": {"event_type": "insurance", "name": "Company B", "cover": "Full"},
     "rules": ["age >= 40 and years_ncd >= 3"],
     "dynamic": {"price": "case when years_ncd > 7 then 900 else 1200 end"},
     "ttl_seconds": 3600}

Their event type is that of a union of the schema. With a time to live an offer is also an advertisement: until it ends,
new subscriptions can be asked about it. The log has the static attributes; the rest is in the store's table of offers.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from tocsin.errors import EventRejected, Violation, shown
from tocsin.language.formula import NO_OPERATORS, Operators
from tocsin.language.mapping import SiteMapping
from tocsin.language.mapping_columns import translate_batch
from tocsin.language.offer import EXAMPLE, Offer, is_offer
from tocsin.language.sides import lenient
from tocsin.offers.analysis import Analysis
from tocsin.offers.program_files import ProgramsFile
from tocsin.offers.programs import Programs
from tocsin.operators.problem import EventEvaluation
from tocsin.schema import EVENT_TYPE, Element, Event, Schema
from tocsin.schema.event import admit_plain
from tocsin.schema.sources import Provenance, check_provenance, has_sources

LONGEST_TTL_SECONDS = 366 * 86400.0
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class PublishedOffer(Offer):
    """An offer with what is stored of it beside its event."""

    document: bytes = b""  # event, rules and computed attributes as JSON
    ttl_us: int = 0


class OfferAdmission:
    """Judges offers; it remembers the texts of their rules and formulas. Safe to share among threads."""

    def __init__(self, programs: Programs | ProgramsFile | None = None, operators: Operators = NO_OPERATORS) -> None:
        self._file = programs if isinstance(programs, ProgramsFile) else None
        self.programs = programs.programs if isinstance(programs, ProgramsFile) else programs or Programs()
        self._operators = operators
        self._lock = threading.Lock()
        self._analysis: Analysis | None = None

    def follow(self) -> None:
        """Take up what is new in the file of programs, where they come from one."""
        if self._file is not None:
            self._file.follow()

    def admit(self, raw: Mapping[str, Any], schema: Schema) -> PublishedOffer:
        """Return an offer; raises EventRejected with all that is wrong."""
        self.follow()
        document = {key: value for key, value in raw.items() if key != "ttl_seconds"}
        ttl_us = _ttl_us(raw.get("ttl_seconds", 0))
        offer = self.analyse(document, schema)
        try:
            body = msgspec.json.encode(document)
        except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as error:
            raise EventRejected([Violation("not an object", None, f"the offer is not JSON: {error}")]) from None
        return PublishedOffer(offer.values, offer.rules, offer.computed, body, ttl_us)

    def admit_stored(self, document: bytes, schema: Schema) -> PublishedOffer:
        """Return an offer of the store, bound to the programs of now; raises EventRejected."""
        offer = self.analyse(msgspec.json.decode(document), schema)
        return PublishedOffer(offer.values, offer.rules, offer.computed, document)

    def analyse(self, document: Mapping[str, Any], schema: Schema) -> Offer:
        """Return the offer of a document, bound to the programs of now; raises EventRejected."""
        if not is_offer(document):
            raise EventRejected([Violation("not an object", None, EXAMPLE)])
        whole = {key: value for key, value in document.items() if key != "ttl_seconds"}
        with self._lock:
            if self._analysis is None or self._analysis.schema is not schema:
                self._analysis = Analysis(schema, self.programs, self._operators)
            return self._analysis.analyse(whole)


def _ttl_us(given: object) -> int:
    if isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given <= LONGEST_TTL_SECONDS:
        return round(given * _SECOND)
    message = f"ttl_seconds is a number from 0 to {LONGEST_TTL_SECONDS:.0f}, not {shown(given)}"
    raise EventRejected([Violation("bad value", "ttl_seconds", message)])


# Admission.


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
    raws: Sequence[RawEvent],
    schema: Schema,
    most_bytes: int,
    offers: OfferAdmission | None = None,
    mapping: SiteMapping | None = None,
    provenance: Provenance | None = None,
    *,
    as_said: bool = False,
) -> list[Admitted | Rejected]:
    """Return what becomes of each raw event; offers are judged by `offers`.

    With a mapping, they are a site's documents; with a provenance they are published as a site. Of events that are only asked
    about, where they come from may be `as_said`.
    """
    sources = Sources(has_sources(schema) and not as_said, provenance)
    if mapping is None:
        return [_admit(raw, raw, schema, most_bytes, offers, sources) for raw in raws]
    events = _translated(raws, mapping.over(schema), most_bytes, provenance)
    return [_admit(raw, event, schema, most_bytes, offers, sources) for raw, event in zip(raws, events, strict=True)]


class Sources(NamedTuple):
    """Whether events tell where they come from, and where these do."""

    told: bool
    provenance: Provenance | None


def _translated(
    raws: Sequence[RawEvent], mapping: SiteMapping, most_bytes: int, provenance: Provenance | None
) -> list[Mapping[str, object] | EventRejected]:
    """Return the event that each of a site's documents becomes, or why it is refused; all are translated at once."""
    found: list[Any] = []
    for raw in raws:
        try:
            found.append(_object(raw, most_bytes))
        except EventRejected as error:
            found.append(error)
    readable = [at for at, each in enumerate(found) if not isinstance(each, EventRejected)]
    for at, event in zip(readable, translate_batch(mapping, [found[at] for at in readable]), strict=True):
        if provenance is not None and not isinstance(event, EventRejected):
            event = provenance.stamped(event, *mapping.identity(found[at]))
        found[at] = event
    return found


def _admit(
    raw: RawEvent,
    given: RawEvent | EventRejected,
    schema: Schema,
    most_bytes: int,
    offers: OfferAdmission | None,
    sources: Sources,
) -> Admitted | Rejected:
    """Return what becomes of a raw event; `given` is what it was translated into."""
    try:
        if isinstance(given, EventRejected):
            raise given
        document = _object(given, most_bytes)
        if sources.provenance is not None and given is raw:
            document = _stamped(document, sources.provenance)
        event = admit_plain(schema, document)
        if event is not None and EVENT_TYPE in document:  # plain: its values are stored as they are written
            body = msgspec.json.encode(document)
        else:
            is_one = offers is not None and is_offer(document)
            event = offers.admit(document, schema) if offers is not None and is_one else schema.admit(document)
            body = stored_form(event)
        if sources.told:
            check_provenance(event, sources.provenance)
        if len(body) > most_bytes:
            raise EventRejected([_too_large(len(body), most_bytes)])
    except EventRejected as error:
        body = _as_it_came(raw)
        return Rejected(error.violations, body if len(body) <= most_bytes else body[:_SHOWN_BYTES])
    return Admitted(event, body)


def _stamped(document: Any, provenance: Provenance) -> Any:
    """Return an event, or an offer, with where it comes from; what is neither is left for admission to refuse."""
    if is_offer(document) and isinstance(inner := document["event"], Mapping):
        return {**document, "event": provenance.stamped(inner)}
    return provenance.stamped(document) if isinstance(document, Mapping) else document


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
    document: dict[str, object] = {}
    for name, found in event.values.items():
        shown = [each.as_document(name) for each in found] if found[0].__class__ is Element else found  # type: ignore[union-attr]
        document[name] = shown[0] if len(shown) == 1 else shown
    return msgspec.json.encode(document)


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
    return admit_stored_document(schema, read_stored(body))


def admit_stored_document(schema: Schema, raw: Mapping[str, Any]) -> Event:
    """Return a stored event, read from JSON, admitted again."""
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
