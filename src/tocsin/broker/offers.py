"""Offers: published events with rules over the subscribers' properties, and attributes computed for each of them.

    {"event": {"event_type": "insurance", "name": "Company B", "cover": "Full"},
     "rules": ["age >= 40 and years_ncd >= 3"],
     "dynamic": {"price": "case when years_ncd > 7 then 900 else 1200 end"},
     "ttl_seconds": 3600}

Their event type is that of a union of the schema. With a time to live an offer is also an advertisement: until it ends,
new subscriptions can be asked about it. The log has the static attributes; the rest is in the store's table of offers.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tocsin.errors import EventRejected, Violation, shown
from tocsin.schema import EVENT_TYPE, Event, Schema
from tocsin.symmetric.analysis import Analysis
from tocsin.symmetric.meeting import Meeting
from tocsin.symmetric.offer import Offer
from tocsin.symmetric.program_files import ProgramsFile
from tocsin.symmetric.programs import Programs
from tocsin.symmetric.two_sided import is_offer
from tocsin.symmetric.unions import meetings

LONGEST_TTL_SECONDS = 366 * 86400.0
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class OfferEvent(Event):
    """The static sub-event of an offer, with the rest of it."""

    offer: Offer
    document: bytes  # event, rules and dynamic attributes as JSON
    ttl_us: int


class OfferDesk:
    """Judges offers; it remembers the texts of their rules and formulas. Safe to share among threads."""

    def __init__(self, programs: Programs | ProgramsFile | None = None) -> None:
        self._file = programs if isinstance(programs, ProgramsFile) else None
        self.programs = programs.programs if isinstance(programs, ProgramsFile) else programs or Programs()
        self._lock = threading.Lock()
        self._analyses: dict[str, Analysis] = {}  # by event type

    def follow(self) -> None:
        """Take up what is new in the file of programs, where they come from one."""
        if self._file is not None:
            self._file.follow()

    def admit(self, raw: Mapping[str, Any], schema: Schema) -> OfferEvent:
        """Return an offer; raises EventRejected with all that is wrong."""
        self.follow()
        document = {key: value for key, value in raw.items() if key != "ttl_seconds"}
        ttl_us = _ttl_us(raw.get("ttl_seconds", 0))
        with self._lock:
            offer = self._analysis(document["event"], schema).analyse(document)
        try:
            body = msgspec.json.encode(document)
        except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as error:
            raise EventRejected([Violation("not an object", None, f"the offer is not JSON: {error}")]) from None
        return OfferEvent(offer.event.values, offer, body, ttl_us)

    def admit_stored(self, document: bytes, schema: Schema) -> OfferEvent:
        """Return an offer of the store, bound to the programs of now; raises EventRejected."""
        offer = self.analyse(msgspec.json.decode(document), schema)
        return OfferEvent(offer.event.values, offer, document, 0)

    def _analysis(self, event: Mapping[str, Any], schema: Schema) -> Analysis:
        found = meetings(schema)
        named = event.get(EVENT_TYPE)
        if named is None and len(found) == 1:
            named = next(iter(found))
        meeting = found.get(named) if isinstance(named, str) else None
        if meeting is None:
            listed = ", ".join(map(repr, found)) or "none: the schema has no union"
            message = f"an offer's event is of a type that a union names, not {shown(named)}; there are {listed}"
            raise EventRejected([Violation("unknown event type", EVENT_TYPE, message)])
        return self._of(meeting)

    def _of(self, meeting: Meeting) -> Analysis:
        known = self._analyses.get(meeting.union.event)
        if known is None or known.meeting is not meeting:
            known = self._analyses[meeting.union.event] = Analysis(meeting, self.programs)
        return known

    def analyse(self, document: Mapping[str, Any], schema: Schema) -> Offer:
        """Return the offer of a document, bound to the programs of now; raises EventRejected."""
        if not is_offer(document):
            message = 'an offer is an object such as {"event": {…}, "rules": ["age >= 40"], "dynamic": {"price": "…"}}'
            raise EventRejected([Violation("not an object", None, message)])
        whole = {key: value for key, value in document.items() if key != "ttl_seconds"}
        with self._lock:
            return self._analysis(whole["event"], schema).analyse(whole)


def _ttl_us(given: object) -> int:
    if isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given <= LONGEST_TTL_SECONDS:
        return round(given * _SECOND)
    message = f"ttl_seconds is a number from 0 to {LONGEST_TTL_SECONDS:.0f}, not {shown(given)}"
    raise EventRejected([Violation("bad value", "ttl_seconds", message)])
