"""The integrated event schema: domains, attributes, event types and the views over them (Le Subscribe, section 2.1).

A Schema never changes. The four extension rules give a new one, one version later, in which everything that was valid
stays valid: domains and attributes are only added, event types gain optional attributes only. So a change is atomic,
and whoever holds the older schema is not disturbed. Beyond the four rules, domains get values and aliases, attributes get
other names, and what should no longer be used is deprecated; growth.py says what a version may change.

An alias is another name for an attribute: events that give it bind the attribute, subscriptions that name it ask about
the attribute. Where the alias was an attribute of its own, the two are one from then on; an event that gives both has
the values of both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from tocsin.errors import (
    AttributeInType,
    BadDefinition,
    DuplicateName,
    SchemaError,
    UnknownAttribute,
    UnknownDomain,
    UnknownEventType,
    UnknownUnion,
)
from tocsin.schema.domain import Domain
from tocsin.schema.event import Event, PlainAdmission, admit
from tocsin.schema.event_type import EVENT_TYPE, OPENNESS, EventType, TypeAttribute, Union, Unknown, View, ViewAttribute
from tocsin.schema.finite_domains import EnumeratedDomain, HierarchicalDomain, with_alias
from tocsin.schema.infer import DEFAULT_TYPE, Proposal, infer, propose
from tocsin.schema.readings import ANY_ATTRIBUTE, DOMAINS, ReadableAttributes, reading_of
from tocsin.schema.shown import Shown, ShownTable

T = TypeVar("T")


@dataclass(frozen=True)
class Schema(Shown):
    """Domains, attributes (name -> domain's name) and event types, at one version.

    The distinguished attribute `event_type` is not among `attributes`: its domain is made of the event types.
    """

    domains: Mapping[str, Domain] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    event_types: Mapping[str, EventType] = field(default_factory=dict)
    version: int = 1
    unions: Mapping[str, Union] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)  # another name -> the attribute that it means
    deprecated: Mapping[str, str] = field(default_factory=dict)  # attribute, event type or DOMAIN.VALUE -> what to use

    def __post_init__(self) -> None:
        if self.version < 1:
            raise BadDefinition(f"version {self.version}: versions count from 1")
        named: list[tuple[str, Domain | EventType | Union]] = [
            *self.domains.items(),
            *self.event_types.items(),
            *self.unions.items(),
        ]
        for key, definition in named:
            if key != definition.name:
                raise BadDefinition(f"{definition.name!r} stands under another name: {key!r}")
        for name in self.domains:
            if _checked_name("domain", name) == EVENT_TYPE:
                raise DuplicateName("domain", name)
        for name, domain in self.attributes.items():
            self._check_attribute(name, domain)
        for event_type in self.event_types.values():
            _checked_name("event type", event_type.name)
            self._check_event_type(event_type)
        for union in self.unions.values():
            self._check_union(union)
        for alias, target in self.aliases.items():
            self._check_alias(alias, target)
        for name in self.deprecated:
            self._check_deprecated(name)

    def as_table(self) -> ShownTable:
        rows = []
        for event_type in self.event_types.values():
            for entry in event_type.attributes:
                domain = self.domain_of(entry.attribute)
                how = [*(["mandatory"] if entry.mandatory else []), *(["multiple"] if entry.multiple else [])]
                rows.append((event_type.name, entry.attribute, f"{domain.name} ({domain.kind})", " ".join(how)))
        return ShownTable(f"Schema, version {self.version}", ("event type", "attribute", "domain", ""), rows)

    # --- the four extension rules -------------------------------------------------------------------------------------

    def add_domain(self, domain: Domain) -> Schema:
        """Return the schema with a new domain (domain creation rule)."""
        if domain.name in self.domains or domain.name == EVENT_TYPE:
            raise DuplicateName("domain", domain.name)
        return self._next(domains={**self.domains, _checked_name("domain", domain.name): domain})

    def add_attribute(self, name: str, domain: str) -> Schema:
        """Return the schema with a new attribute over an existing domain (attribute creation rule)."""
        if name in self.attributes or name == EVENT_TYPE:
            raise DuplicateName("attribute", name)
        self._check_attribute(name, domain)
        return self._next(attributes={**self.attributes, name: domain})

    def extend_event_type(self, event_type: str, attribute: str, *, multiple: bool = False) -> Schema:
        """Return the schema in which an event type has one more optional attribute (event schema extension rule).

        Optional only: what publishers send today must stay valid.
        """
        old = self.event_type(event_type)
        if old.get(attribute) is not None:
            raise AttributeInType(event_type, attribute)
        new = TypeAttribute(attribute, mandatory=False, multiple=multiple)
        extended = replace(old, attributes=(*old.attributes, new))
        self._check_event_type(extended)
        return self._next(event_types={**self.event_types, event_type: extended})

    def add_event_type(self, name: str, attributes: Iterable[TypeAttribute], *, unknown: Unknown = "refused") -> Schema:
        """Return the schema with a new event type (event schema creation rule)."""
        if name in self.event_types:
            raise DuplicateName("event type", name)
        new = EventType(_checked_name("event type", name), tuple(attributes), unknown)
        self._check_event_type(new)
        return self._next(event_types={**self.event_types, name: new})

    def add_union(self, union: Union) -> Schema:
        """Return the schema with a new union of two of its event types."""
        if union.name in self.unions:
            raise DuplicateName("union", union.name)
        self._check_union(union)
        return self._next(unions={**self.unions, union.name: union})

    # --- growth beyond the four rules ---------------------------------------------------------------------------------

    def add_values(
        self, domain: str, values: Iterable[str], *, below: str | None = None, less: Iterable[tuple[str, str]] = ()
    ) -> Schema:
        """Return the schema in which an enumerated or hierarchical domain has more values.

        In a total order they are greater than all before; `less` places them in a partial one, `below` in a hierarchy.
        """
        old = self._finite_domain(domain)
        if isinstance(old, HierarchicalDomain):
            if list(less):
                raise BadDefinition(f"domain {domain!r} is a hierarchy: say below which value the new ones lie")
            return self._with_domain(old.grown(values, below))
        if below is not None:
            raise BadDefinition(f"domain {domain!r} is a list: nothing lies below {below!r}")
        return self._with_domain(old.grown(values, less))

    def add_value_alias(self, domain: str, alias: str, value: str) -> Schema:
        """Return the schema in which `alias`, a new name or a redundant value, means a value of the domain."""
        return self._with_domain(with_alias(self._finite_domain(domain), alias, value))

    def add_alias(self, alias: str, attribute: str) -> Schema:
        """Return the schema in which `alias`, a new name or a redundant attribute, means an attribute."""
        if alias in self.aliases:
            raise DuplicateName("alias", alias)
        target = self.meaning(attribute)
        moved = {name: target if meant == alias else meant for name, meant in self.aliases.items()}
        return self._next(aliases={**moved, alias: target})

    def deprecate(self, name: str, words: str) -> Schema:
        """Return the schema in which an attribute, an event type or a value (DOMAIN.VALUE) is deprecated; `words` say why.

        What is deprecated stays valid. Without words it is no longer deprecated.
        """
        self._check_deprecated(name)
        others = {key: said for key, said in self.deprecated.items() if key != name}
        return self._next(deprecated={**others, name: words} if words else others)

    def meaning(self, attribute: str) -> str:
        """Return the attribute that a name means: itself, unless it is an alias."""
        return self.aliases.get(attribute, attribute)

    def _finite_domain(self, name: str) -> EnumeratedDomain | HierarchicalDomain:
        domain = self.domains.get(name)
        if domain is None:
            raise UnknownDomain(name, self.domains)
        if not isinstance(domain, EnumeratedDomain | HierarchicalDomain):
            raise BadDefinition(
                f"domain {name!r} is {domain.kind}: only enumerated and hierarchical ones list their values"
            )
        return domain

    def _with_domain(self, domain: Domain) -> Schema:
        return self._next(domains={**self.domains, domain.name: domain})

    def _next(self, **changes: Mapping[str, object]) -> Schema:
        return replace(self, version=self.version + 1, **changes)  # type: ignore[arg-type]

    # --- looking things up --------------------------------------------------------------------------------------------

    def domain_of(self, attribute: str) -> Domain:
        """Return the domain of an attribute."""
        if attribute == EVENT_TYPE:
            return self.event_type_domain
        try:
            return self.domains[self.attributes[self.aliases.get(attribute, attribute)]]
        except KeyError:
            reading = reading_of(attribute)
            if self._reads and (reading is not None or attribute == ANY_ATTRIBUTE):
                return DOMAINS["text" if reading is None else reading[1]]
            raise UnknownAttribute(attribute, [*self.attributes, EVENT_TYPE]) from None

    def event_type(self, name: str) -> EventType:
        """Return the event type of that name."""
        try:
            return self.event_types[name]
        except KeyError:
            raise UnknownEventType(name, self.event_types) from None

    def union(self, name: str) -> Union:
        """Return the union of that name."""
        try:
            return self.unions[name]
        except KeyError:
            raise UnknownUnion(name, self.unions) from None

    @functools.cached_property
    def event_type_domain(self) -> EnumeratedDomain:
        """The domain of `event_type`. New event types come last, so that older positions stay."""
        if not self.event_types:
            raise SchemaError("the schema has no event type yet; add one first")
        return EnumeratedDomain(name=EVENT_TYPE, values=tuple(self.event_types))

    @functools.cached_property
    def _reads(self) -> bool:
        """Whether some attribute has no type of its own."""
        keeping = any(each.unknown in ("kept", "dynamic") for each in self.event_types.values())
        return keeping or any(each.kind == "dynamic" for each in self.domains.values())

    @functools.cached_property
    def _views(self) -> dict[frozenset[str], View]:
        return {}

    def view(self, event_types: Iterable[str] = ()) -> View:
        """Return the view over these event types; over all of them where none is named."""
        key = frozenset(event_types)
        if key not in self._views:
            self._views[key] = self._merge(key or frozenset(self.event_types))
        return self._views[key]

    @functools.cached_property
    def _derived(self) -> dict[Hashable, Any]:
        return {}

    def derived(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what a layer above derives from the schema under this key, made when it is first asked for."""
        if key not in self._derived:
            self._derived[key] = make()
        found: T = self._derived[key]
        return found

    def _merge(self, event_types: frozenset[str]) -> View:
        for name in sorted(event_types):
            self.event_type(name)
        merged = {
            EVENT_TYPE: ViewAttribute(EVENT_TYPE, self.event_type_domain, True, multiple=True, ever_multiple=True)
        }
        for event_type in self.event_types.values():
            for entry in event_type.attributes if event_type.name in event_types else ():
                name = self.meaning(entry.attribute)
                old = merged.get(name)
                merged[name] = ViewAttribute(
                    name,
                    self.domain_of(name),
                    mandatory=entry.mandatory or (old is not None and old.mandatory),
                    multiple=entry.multiple or (old is not None and old.multiple),
                    ever_multiple=name in self.multiple_attributes,
                )
        asked = {self.event_types[name].unknown for name in event_types}
        unknown = next((each for each in reversed(OPENNESS) if each in asked), OPENNESS[0])
        if unknown in ("kept", "dynamic") or any(entry.domain.kind == "dynamic" for entry in merged.values()):
            return View(event_types, ReadableAttributes(merged, unknown), unknown)
        return View(event_types, MappingProxyType(merged), unknown)

    @functools.cached_property
    def multiple_attributes(self) -> frozenset[str]:
        """The attributes that an event may have several values for: by its types, or as two that became one."""
        entries = (entry for event_type in self.event_types.values() for entry in event_type.attributes)
        several = {self.meaning(entry.attribute) for entry in entries if entry.multiple}
        joined = {target for alias, target in self.aliases.items() if alias in self.attributes}
        return frozenset(several | joined | {EVENT_TYPE})

    @functools.cached_property
    def point_attributes(self) -> frozenset[str]:
        """The attributes whose values are points: raw points look like arrays or objects."""
        points = {name for name, domain in self.attributes.items() if self.domains[domain].kind == "point"}
        return frozenset(points | {alias for alias, target in self.aliases.items() if target in points})

    @functools.cached_property
    def object_attributes(self) -> frozenset[str]:
        """The attributes whose values are the elements of arrays of objects."""
        return frozenset(name for name, domain in self.attributes.items() if self.domains[domain].kind == "object")

    # --- events -------------------------------------------------------------------------------------------------------

    @classmethod
    def infer(
        cls,
        events: Iterable[Mapping[str, object]],
        *,
        enumerate_up_to: int = 0,
        integers: bool = False,
        mandatory: bool = False,
        unknown: Unknown = "refused",
        fold_case: bool = False,
    ) -> Schema:
        """Return a schema that admits all these JSON-like events, or rows of a table; schema/infer.py says how.

        A table is a DataFrame of pandas or polars, or an Arrow table or batch.
        """
        return infer(
            cls, events, enumerate_up_to=enumerate_up_to, integers=integers, mandatory=mandatory, unknown=unknown,
            fold_case=fold_case,
        )  # fmt: skip

    @classmethod
    def propose(
        cls,
        events: Iterable[Mapping[str, object]],
        *,
        enumerate_up_to: int = 0,
        integers: bool = False,
        mandatory: bool = False,
        unknown: Unknown = "refused",
        fold_case: bool = False,
    ) -> Proposal:
        """Return a schema for these JSON-like events, with what it leaves out."""
        return propose(
            cls, events, enumerate_up_to=enumerate_up_to, integers=integers, mandatory=mandatory, unknown=unknown,
            fold_case=fold_case,
        )  # fmt: skip

    @classmethod
    def dynamic(cls, event_types: Iterable[str] = ()) -> Schema:
        """Return the schema of whoever has none: events of any type, with any attributes, of the types of their values."""
        return cls(event_types={name: EventType(name, (), "dynamic") for name in (DEFAULT_TYPE, *event_types)})

    @functools.cached_property
    def default_type(self) -> str | None:
        """The type of events that name none, or none that is known: the only one, or a dynamic one called `event`."""
        if len(self.event_types) == 1:
            return next(iter(self.event_types))
        default = self.event_types.get(DEFAULT_TYPE)
        return DEFAULT_TYPE if default is not None and default.unknown == "dynamic" else None

    def admit(self, raw: Mapping[str, object]) -> Event:
        """Return the event that `raw` (JSON-like) describes; raises EventRejected with all its violations."""
        return admit(self, raw)

    @functools.cached_property
    def _plain(self) -> dict[str, PlainAdmission]:
        return {}

    def plain_admission(self, event_type: object) -> PlainAdmission | None:
        """Return the short way for events of this one type (of the only type, for None); None where there is none."""
        if event_type is None:
            event_type = self.default_type
        if type(event_type) is not str or event_type not in self.event_types:
            return None
        if event_type not in self._plain:
            self._plain[event_type] = PlainAdmission(self, event_type)
        return self._plain[event_type]

    # --- checks -------------------------------------------------------------------------------------------------------

    def _check_attribute(self, name: str, domain: str) -> None:
        if _checked_name("attribute", name) == EVENT_TYPE:
            raise DuplicateName("attribute", name)
        if domain not in self.domains:
            raise UnknownDomain(domain, self.domains)

    def _check_alias(self, alias: str, target: str) -> None:
        if _checked_name("alias", alias) == EVENT_TYPE:
            raise DuplicateName("alias", alias)
        if target not in self.attributes:
            raise UnknownAttribute(target, self.attributes)
        if target in self.aliases:
            raise BadDefinition(f"alias {alias!r}: {target!r} is itself another name for {self.aliases[target]!r}")
        if alias not in self.attributes:
            return
        domains = [self.domains[self.attributes[name]] for name in (alias, target)]
        if domains[0].kind != domains[1].kind or not _admits_all(*domains):
            raise BadDefinition(
                f"alias {alias!r}: its domain {domains[0].name!r} is not defined like that of {target!r}, {domains[1].name!r}; "
                "add what it lacks, or give the two a mapping"
            )
        uses = [entry for each in self.event_types.values() for entry in each.attributes]
        if len({entry.multiple for entry in uses if entry.attribute in (alias, target)}) > 1:
            raise BadDefinition(f"alias {alias!r}: it and {target!r} must both have one value, or both several")

    def _check_deprecated(self, name: str) -> None:
        domain, _, value = name.partition(".")
        known = self.domains.get(domain)
        if name in self.attributes or name in self.event_types:
            return
        if not isinstance(known, EnumeratedDomain | HierarchicalDomain) or value not in known.values:
            raise BadDefinition(f"{name!r} cannot be deprecated: it is no attribute, no event type and no DOMAIN.VALUE")

    def _check_union(self, union: Union) -> None:
        _checked_name("union", union.name)
        for role, name in (("event", union.event), ("subscriber", union.subscriber)):
            if name not in self.event_types:
                raise BadDefinition(f"union {union.name!r}, {role}: {UnknownEventType(name, self.event_types)}")
        if union.event == union.subscriber:
            raise BadDefinition(f"union {union.name!r}: its two record types must differ; both are {union.event!r}")

    def _check_event_type(self, event_type: EventType) -> None:
        for entry in event_type.attributes:
            if entry.attribute == EVENT_TYPE:
                raise BadDefinition(f"event type {event_type.name!r}: every event has {EVENT_TYPE}; do not list it")
            self.domain_of(entry.attribute)


def _checked_name(what: str, name: str) -> str:
    """Return the name if it can stand in expressions, files and XML; raises BadDefinition."""
    if not name or len(name) > 200 or name != name.strip() or not name.isprintable() or '"' in name:
        raise BadDefinition(
            f"{name!r} cannot name {'an' if what[0] in 'ae' else 'a'} {what}: a name has 1 to 200 printable characters, "
            'no " and no space at its ends'
        )
    return name


def _admits_all(narrow: Domain, wide: Domain) -> bool:
    """Return whether the values of one domain are those of the other, and mean the same there."""
    if isinstance(narrow, EnumeratedDomain) and isinstance(wide, EnumeratedDomain) and narrow.order == "none":
        same = all(wide.positions.get(alias) == wide.positions.get(value) for alias, value in narrow.aliases)
        return same and narrow.offered <= wide.offered and all(value in wide.positions for value in narrow.values)
    return msgspec.structs.replace(narrow, name="") == msgspec.structs.replace(wide, name="")
