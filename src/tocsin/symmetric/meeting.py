"""A Meeting: a matchmaking union of a schema, and the names that formulas in it may use.

Both record types may have an attribute of one name (both an insurance and a driver have a `name`). So inside formulas
an attribute of the event goes by its own name, and a property of the subscriber by `driver.name`. As written, a name
means the other side's attribute where it has one, else one's own: in a subscription `name` is the insurance's, in a
rule the driver's; `insurance.name` and `driver.name` say which everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from tocsin.errors import BadDefinition
from tocsin.language.formula import Resolver, Scope, no_functions
from tocsin.schema import EVENT_TYPE, Domain, EventType, Schema, TypeAttribute, Union, View


@dataclass(frozen=True)
class Meeting:
    """The two sides of a union."""

    schema: Schema
    union: Union

    def __post_init__(self) -> None:
        if clash := sorted(set(self.property_names.values()) & set(self.event_view.attributes)):
            raise BadDefinition(
                f"union {self.union.name!r}: {clash[0]!r} is an attribute of {self.union.event}, and the name of a "
                f"property of {self.union.subscriber}"
            )

    @cached_property
    def event_view(self) -> View:
        return self.schema.view([self.union.event])

    @cached_property
    def subscriber_view(self) -> View:
        return self.schema.view([self.union.subscriber])

    @cached_property
    def event_domains(self) -> dict[str, Domain]:
        """The event's attributes, event_type among them."""
        return {name: entry.domain for name, entry in self.event_view.attributes.items()}

    @cached_property
    def property_names(self) -> dict[str, str]:
        """Property -> its name in formulas."""
        names = [name for name in self.subscriber_view.attributes if name != EVENT_TYPE]
        return {name: f"{self.union.subscriber}.{name}" for name in names}

    @cached_property
    def property_domains(self) -> dict[str, Domain]:
        """The properties, by their names in formulas."""
        return {full: self.subscriber_view[name].domain for name, full in self.property_names.items()}

    @cached_property
    def multiple(self) -> frozenset[str]:
        """The event's attributes that may have several values."""
        return frozenset(name for name, entry in self.event_view.attributes.items() if entry.multiple)

    @cached_property
    def lenient_schema(self) -> Schema:
        """The schema with the event's attributes optional, for offers whose missing attributes are computed."""
        given = self.schema.event_type(self.union.event)
        entries = tuple(replace(entry, mandatory=False) for entry in given.attributes)
        others: dict[str, EventType] = {given.name: EventType(given.name, entries)}
        return Schema(self.schema.domains, self.schema.attributes, others, self.schema.version)

    def mandatory(self, side: str) -> tuple[TypeAttribute, ...]:
        """Return the mandatory attributes of an event type."""
        return self._mandatory[side]

    @cached_property
    def _mandatory(self) -> dict[str, tuple[TypeAttribute, ...]]:
        return {
            side: tuple(entry for entry in self.schema.event_type(side).attributes if entry.mandatory)
            for side in (self.union.event, self.union.subscriber)
        }

    def subscription_scope(self, resolve: Resolver = no_functions) -> Scope:
        """Return what a subscription's condition may speak of: the event first, then its own properties."""
        own = {name: full for name, full in self.property_names.items() if name not in self.event_domains}
        return self._scope(own, resolve)

    def rule_scope(self, resolve: Resolver = no_functions) -> Scope:
        """Return what a rule, or a dynamic attribute, may speak of: the subscriber first, then the event."""
        return self._scope(dict(self.property_names), resolve)

    def _scope(self, aliases: dict[str, str], resolve: Resolver) -> Scope:
        qualified = {f"{self.union.event}.{name}": name for name in self.event_domains}
        return Scope(
            {**self.event_domains, **self.property_domains},
            resolve=resolve,
            aliases={**qualified, **aliases},
            multiple=self.multiple,
        )


def meeting_of(schema: Schema, union: str | None = None) -> Meeting:
    """Return the meeting of a union; of the only one, where none is named."""
    if union is None and len(schema.unions) == 1:
        union = next(iter(schema.unions))
    if union is None:
        listed = ", ".join(schema.unions) or "none"
        raise BadDefinition(f"name the matchmaking union; the schema has: {listed}")
    return Meeting(schema, schema.union(union))
