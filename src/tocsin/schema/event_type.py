"""Event types, the views that merge several of them, and unions.

A union pairs the event type of offers with the type whose attributes are the properties of those who subscribe:

    [unions.auto_insurance]
    event = "insurance"
    subscriber = "driver"

An offer is an event of the one type; a subscriber describes itself by properties, which are the attributes of the
other. language/sides.py says what each may speak of (symmetric subscriptions, section 4.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tocsin.errors import AttributeInType, UnknownAttribute, repeated
from tocsin.schema.domain import Domain

Unknown = Literal["refused", "ignored", "kept", "dynamic"]
OPENNESS: tuple[Unknown, ...] = ("refused", "ignored", "kept", "dynamic")
EVENT_TYPE = "event_type"  # the distinguished attribute; every event has it, and it is multiple


@dataclass(frozen=True, slots=True)
class TypeAttribute:
    """One triple (attribute, mandatory|optional, unique|multiple) of an event type."""

    attribute: str
    mandatory: bool = True
    multiple: bool = False

    def __str__(self) -> str:
        """The two annotations as the paper writes them: 'mandatory unique', 'optional multiple'."""
        return f"{'mandatory' if self.mandatory else 'optional'} {'multiple' if self.multiple else 'unique'}"


@dataclass(frozen=True, slots=True)
class EventType:
    """A named set of attributes, each mandatory or optional, unique or multiple.

    `unknown` says what becomes of other attributes of its events: the event is refused for them; they are ignored; they are
    kept, and asked about with their type (`bytes as number`, readings.py); dynamic ones have the type of what they are
    compared with. A type that refuses none is open.
    """

    name: str
    attributes: tuple[TypeAttribute, ...]
    unknown: Unknown = "refused"

    def __post_init__(self) -> None:
        if twice := repeated(entry.attribute for entry in self.attributes):
            raise AttributeInType(self.name, twice[0])

    @property
    def is_open(self) -> bool:
        return self.unknown != "refused"

    def get(self, attribute: str) -> TypeAttribute | None:
        return next((entry for entry in self.attributes if entry.attribute == attribute), None)


@dataclass(frozen=True, slots=True)
class ViewAttribute:
    """An attribute as a view shows it.

    `ever_multiple` says that some event type of the schema, in the view or not, allows several values: an event may be
    of that type too.
    """

    name: str
    domain: Domain
    mandatory: bool
    multiple: bool
    ever_multiple: bool


@dataclass(frozen=True, slots=True)
class View:
    """The merged attributes of several event types: mandatory wins over optional, multiple over unique, what keeps more over what keeps less."""

    event_types: frozenset[str]
    attributes: Mapping[str, ViewAttribute]
    unknown: Unknown = "refused"
    mandatory: tuple[str, ...] = field(init=False, repr=False, compare=False)  # their names, in order

    def __post_init__(self) -> None:
        names = tuple(name for name, entry in self.attributes.items() if entry.mandatory)
        object.__setattr__(self, "mandatory", names)

    @property
    def is_open(self) -> bool:
        return self.unknown != "refused"

    def __getitem__(self, attribute: str) -> ViewAttribute:
        try:
            return self.attributes[attribute]
        except KeyError:
            raise UnknownAttribute(attribute, self.attributes) from None


@dataclass(frozen=True, slots=True)
class Union:
    """A union's name, the event type of its offers, and the one whose attributes are its subscribers' properties."""

    name: str
    event: str
    subscriber: str
