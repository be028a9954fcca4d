"""What events look like: domains, attributes, event types, views, extension rules, events and their forms."""

from tocsin.schema.domain import (
    BooleanDomain,
    Domain,
    DynamicDomain,
    Element,
    IpDomain,
    Key,
    Number,
    NumericDomain,
    ObjectDomain,
    Point,
    PointDomain,
    TextDomain,
    TimeDomain,
    Value,
)
from tocsin.schema.event import NOW, Event, arrived
from tocsin.schema.event_type import EVENT_TYPE, EventType, TypeAttribute, Union, View, ViewAttribute
from tocsin.schema.files import dumps, load, loads, save
from tocsin.schema.finite_domains import EnumeratedDomain, HierarchicalDomain
from tocsin.schema.schema import Schema

__all__ = [
    "EVENT_TYPE",
    "NOW",
    "BooleanDomain",
    "Domain",
    "DynamicDomain",
    "Element",
    "EnumeratedDomain",
    "Event",
    "EventType",
    "HierarchicalDomain",
    "IpDomain",
    "Key",
    "Number",
    "NumericDomain",
    "ObjectDomain",
    "Point",
    "PointDomain",
    "Schema",
    "TextDomain",
    "TimeDomain",
    "TypeAttribute",
    "Union",
    "Value",
    "View",
    "ViewAttribute",
    "arrived",
    "dumps",
    "load",
    "loads",
    "save",
]
