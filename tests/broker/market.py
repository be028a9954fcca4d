"""A small market to test with: a schema, some events, and a broker over them."""

from __future__ import annotations

from typing import Any

from tests.clocks import ManualClock
from tocsin.broker import Broker, BrokerSettings
from tocsin.schema import EventType, NumericDomain, Schema, TextDomain, TypeAttribute

SCHEMA = Schema(
    {"money": NumericDomain(name="money"), "name": TextDomain(name="name")},
    {"price": "money", "brand": "name", "colour": "name"},
    {
        "car": EventType("car", (TypeAttribute("price"), TypeAttribute("brand", mandatory=False))),
        "antique": EventType("antique", (TypeAttribute("price", mandatory=False),)),
    },
)


def car(price: float, **more: Any) -> dict[str, Any]:
    """Return a raw event."""
    return {"event_type": "car", "price": price, **more}


def open_broker(
    place: str, clock: ManualClock | None = None, settings: BrokerSettings | None = None, **more: Any
) -> Broker:
    """Return a broker that sweeps only when told to."""
    options: dict[str, Any] = {"schema": SCHEMA, "sweep": False, "engine": "definition", **more}
    return Broker.open(place, machine=clock or ManualClock(), settings=settings, **options)


def seqs_of(broker: Broker, owner: str) -> list[tuple[int, int]]:
    """Return (seq, subscription) of everything that is kept for an owner."""
    return [(one.seq, one.subscription) for page in broker.replay(owner) for one in page]
