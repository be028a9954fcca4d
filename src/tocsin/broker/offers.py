"""Offers as they are published: events with rules over the subscribers' properties, and computed attributes.

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
from tocsin.language.formula import NO_OPERATORS, Operators
from tocsin.language.offer import EXAMPLE, Offer, is_offer
from tocsin.offers.analysis import Analysis
from tocsin.offers.program_files import ProgramsFile
from tocsin.offers.programs import Programs
from tocsin.schema import Schema

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
