"""Symmetric matchmaking: consumers filter publications, and publishers filter consumers.

meeting.py        a union of the schema, and what names mean in it
subscriber.py     a subscription with properties
offer.py          an event with rules and dynamic attributes
semantics.py      the definition of matching; explain.py
programs.py       what computes; cache.py keeps results
matchmaker.py     the engine: batch.py and stages.py over roster.py (columns.py, bitmaps.py, wants.py, bounds.py, relax.py),
                  by plan.py; prepared.py and directory.py make ready what scan_kernel.py scans; computing.py and
                  machine.py compute formulas over numbers
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tocsin.symmetric.explain import Explanation, explain  # now: later the module would take the function's place

if TYPE_CHECKING:
    from tocsin.symmetric.book import OfferBook
    from tocsin.symmetric.cache import ProgramCache
    from tocsin.symmetric.load import load_subscribers
    from tocsin.symmetric.matched import Failure, Match, Matched
    from tocsin.symmetric.matchmaker import Matchmaker
    from tocsin.symmetric.meeting import Meeting, meeting_of
    from tocsin.symmetric.offer import Offer, bind_offer
    from tocsin.symmetric.programs import Program, Programs
    from tocsin.symmetric.semantics import Verdict, decide
    from tocsin.symmetric.subscriber import Subscriber, bind_subscriber

_HOMES = {
    "Failure": "tocsin.symmetric.matched",
    "Match": "tocsin.symmetric.matched",
    "Matched": "tocsin.symmetric.matched",
    "Matchmaker": "tocsin.symmetric.matchmaker",
    "Meeting": "tocsin.symmetric.meeting",
    "Offer": "tocsin.symmetric.offer",
    "OfferBook": "tocsin.symmetric.book",
    "Program": "tocsin.symmetric.programs",
    "ProgramCache": "tocsin.symmetric.cache",
    "Programs": "tocsin.symmetric.programs",
    "Subscriber": "tocsin.symmetric.subscriber",
    "Verdict": "tocsin.symmetric.semantics",
    "bind_offer": "tocsin.symmetric.offer",
    "bind_subscriber": "tocsin.symmetric.subscriber",
    "decide": "tocsin.symmetric.semantics",
    "load_subscribers": "tocsin.symmetric.load",
    "meeting_of": "tocsin.symmetric.meeting",
}

__all__ = [
    "Explanation",
    "Failure",
    "Match",
    "Matched",
    "Matchmaker",
    "Meeting",
    "Offer",
    "OfferBook",
    "Program",
    "ProgramCache",
    "Programs",
    "Subscriber",
    "Verdict",
    "bind_offer",
    "bind_subscriber",
    "decide",
    "explain",
    "load_subscribers",
    "meeting_of",
]


def __getattr__(name: str) -> object:
    """Import what is asked for: the kernels behind some of it take half a second to come."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tocsin.symmetric' has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = found
    return found
