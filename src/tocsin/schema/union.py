"""Unions: the event type of offers, and the type whose attributes are the properties of those who subscribe to it.

    [unions.auto_insurance]
    event = "insurance"
    subscriber = "driver"

An offer is an event of the one type; a subscriber describes itself by properties, which are the attributes of the
other. language/sides.py says what each may speak of (symmetric subscriptions, section 4.1).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Union:
    """A union's name, the event type of its offers, and the one whose attributes are its subscribers' properties."""

    name: str
    event: str
    subscriber: str
