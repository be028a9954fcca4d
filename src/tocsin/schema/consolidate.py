"""The consolidation report: what a schema that many publishers have extended says twice.

Le Subscribe notes that its extension rules lead to redundancy (a publisher creates a domain with exactly the definition
of an existing one) and leaves it there. Nothing that exists can be removed; but attributes that say the same can become
one, by aliases (`consolidated`). The rest is for people to read: which domain to use for new event types, what nobody uses.
"""

from __future__ import annotations

import contextlib
import difflib
import itertools
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from tocsin.errors import SchemaError
from tocsin.schema.domain import Domain
from tocsin.schema.finite_domains import HierarchicalDomain
from tocsin.schema.schema import Schema

REDUNDANT_DOMAINS = "redundant domains"
SIMILAR_ATTRIBUTES = "similar attributes"
ALIKE_ATTRIBUTES = "attributes always together"
UNUSED_DOMAINS = "unused domains"
UNUSED_ATTRIBUTES = "unused attributes"
EQUAL_EVENT_TYPES = "event types with the same attributes"

MOST_COMPARED = 2000  # attributes whose names are compared pair by pair


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to consider: what it is (`rule`), the names concerned, and a sentence."""

    rule: str
    names: tuple[str, ...]
    text: str
    alias: tuple[str, str] | None = None  # (alias, attribute): what would make the two one

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class ConsolidationReport:
    """All findings about one version of a schema."""

    version: int
    findings: tuple[Finding, ...]

    def of(self, rule: str) -> tuple[Finding, ...]:
        """Return the findings of one rule."""
        return tuple(finding for finding in self.findings if finding.rule == rule)

    def __str__(self) -> str:
        if not self.findings:
            return f"Schema version {self.version}: nothing to consolidate."
        lines = [f"Schema version {self.version}: {len(self.findings)} to consider"]
        for rule, group in itertools.groupby(self.findings, key=lambda finding: finding.rule):
            lines += ["", f"{rule}:", *(f"  - {finding.text}" for finding in group)]
        return "\n".join(lines)


def consolidation_report(schema: Schema) -> ConsolidationReport:
    """Return what the schema says twice or does not use."""
    return ConsolidationReport(
        schema.version,
        (
            *_redundant_domains(schema),
            *_similar_attributes(schema),
            *_alike_attributes(schema),
            *_unused(schema),
            *_equal_event_types(schema),
        ),
    )


def definition(domain: Domain) -> Hashable:
    """Return what a domain is apart from its name: two domains are redundant where this is equal."""
    nameless = msgspec.structs.replace(domain, name="")
    order = tuple(domain.intervals.items()) if isinstance(domain, HierarchicalDomain) else ()
    return nameless, order


def _redundant_domains(schema: Schema) -> Iterable[Finding]:
    for names in _groups({name: definition(domain) for name, domain in schema.domains.items()}):
        first, *others = names
        text = f"{_listed(names)} are defined alike; use {first!r} and leave {_listed(others)}"
        yield Finding(REDUNDANT_DOMAINS, names, text)


def _similar_attributes(schema: Schema) -> Iterable[Finding]:
    """Yield pairs such as colour and color: nearly the same name, over the same or redundant domains."""
    sets = {name: definition(schema.domains[domain]) for name, domain in schema.attributes.items()}
    for left, right in itertools.combinations(itertools.islice(sets, MOST_COMPARED), 2):
        if abs(len(left) - len(right)) <= 2 and sets[left] == sets[right] and are_similar(left, right):
            if schema.meaning(left) == schema.meaning(right):
                continue
            text = f"{left!r} and {right!r} have nearly the same name and domains that are defined alike"
            yield Finding(SIMILAR_ATTRIBUTES, (left, right), text, _alias(schema, left, right))


def _alias(schema: Schema, left: str, right: str) -> tuple[str, str] | None:
    """Return which of two attributes should be another name for the other, the newer for the older, where that can be."""
    try:
        schema.add_alias(right, left)
    except SchemaError:
        return None
    return right, left


def consolidated(schema: Schema) -> Schema:
    """Return the schema in which attributes with nearly the same name and the same domain are one, step by step."""
    for finding in consolidation_report(schema).of(SIMILAR_ATTRIBUTES):
        if finding.alias is not None and finding.alias[0] not in schema.aliases:
            with contextlib.suppress(SchemaError):  # what became one before may be in the way
                schema = schema.add_alias(*finding.alias)
    return schema


def are_similar(left: str, right: str) -> bool:
    """Return whether two names differ only in case, punctuation, a plural s, or one letter in five or more."""
    first, second = _folded(left), _folded(right)
    if first == second:
        return True
    if min(len(first), len(second)) < 4 or first.strip("0123456789") == second.strip("0123456789"):
        return False  # short names differ by design, and so do name1 and name2
    return _distance_at_most_one(first, second)


def _folded(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


def _distance_at_most_one(left: str, right: str) -> bool:
    """Return whether one insertion, deletion, replacement or exchange of neighbours turns one into the other."""
    changes = [change for change in difflib.SequenceMatcher(None, left, right).get_opcodes() if change[0] != "equal"]
    size = sum(max(end - start, to - at) for _, start, end, at, to in changes)
    same_letters = sorted(left) == sorted(right)
    return size <= 1 or (size == 2 and same_letters and len(left) > 4)


def _alike_attributes(schema: Schema) -> Iterable[Finding]:
    """Yield attributes over redundant domains under different domain names that always stand in the same types."""
    uses = {
        name: tuple(
            (event_type.name, entry.mandatory, entry.multiple)
            for event_type in schema.event_types.values()
            if (entry := event_type.get(name)) is not None
        )
        for name in schema.attributes
    }
    redundant = {name for finding in _redundant_domains(schema) for name in finding.names}
    alike = {
        name: (definition(schema.domains[domain]), uses[name])
        for name, domain in schema.attributes.items()
        if uses[name] and domain in redundant
    }
    for names in _groups(alike):
        if len({schema.attributes[name] for name in names}) > 1:
            types = _listed(use[0] for use in uses[names[0]])
            text = f"{_listed(names)} have domains that are defined alike and stand in the same event types: {types}"
            yield Finding(ALIKE_ATTRIBUTES, names, text)


def _unused(schema: Schema) -> Iterable[Finding]:
    used = set(schema.attributes.values())
    for name in schema.domains:
        if name not in used:
            yield Finding(UNUSED_DOMAINS, (name,), f"no attribute has the domain {name!r}")
    bound = {entry.attribute for event_type in schema.event_types.values() for entry in event_type.attributes}
    for name in schema.attributes:
        if name not in bound:
            yield Finding(UNUSED_ATTRIBUTES, (name,), f"no event type has the attribute {name!r}")


def _equal_event_types(schema: Schema) -> Iterable[Finding]:
    contents = {name: frozenset(kind.attributes) for name, kind in schema.event_types.items() if kind.attributes}
    for names in _groups(contents):
        yield Finding(EQUAL_EVENT_TYPES, names, f"{_listed(names)} have the same attributes, annotated alike")


def _groups(described: Mapping[str, Hashable]) -> list[tuple[str, ...]]:
    """Return the names that are described alike, where there are two or more, in their order."""
    found: dict[Hashable, list[str]] = {}
    for name, description in described.items():
        found.setdefault(description, []).append(name)
    return [tuple(names) for names in found.values() if len(names) > 1]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
