"""Symmetric matchmaking: consumers filter publications, and publishers filter consumers.

meeting.py        a union of the schema, and what names mean in it
subscriber.py     a subscription with properties
offer.py          an event with rules and dynamic attributes
semantics.py      the definition of matching; explain.py
programs.py       what computes; cache.py keeps results
matchmaker.py     the engine: stages.py over roster.py (columns.py, bitmaps.py, wants.py, relax.py), by plan.py;
                  machine.py computes formulas over numbers
"""

from tocsin.symmetric.cache import ProgramCache
from tocsin.symmetric.explain import Explanation, explain
from tocsin.symmetric.load import load_subscribers
from tocsin.symmetric.matched import Failure, Match, Matched
from tocsin.symmetric.matchmaker import Matchmaker
from tocsin.symmetric.meeting import Meeting, meeting_of
from tocsin.symmetric.offer import Offer, bind_offer
from tocsin.symmetric.programs import Program, Programs
from tocsin.symmetric.semantics import Verdict, decide
from tocsin.symmetric.subscriber import Subscriber, bind_subscriber

__all__ = [
    "Explanation",
    "Failure",
    "Match",
    "Matched",
    "Matchmaker",
    "Meeting",
    "Offer",
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
