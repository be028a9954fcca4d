"""Growth: what a later version of a schema may change, and what that means for subscriptions that are indexed already.

The four extension rules add domains, attributes and event types; beyond them an existing domain may get values and
aliases, an attribute may get another name, or become one with a redundant one, and anything may be deprecated. Nothing
that was valid becomes invalid. What is indexed speaks of keys of values and of attributes' names; `moved` says which
attributes a new version gives other ones, so that only subscriptions that mention these are indexed again.

The consolidation report: what a schema that many publishers have extended says twice.

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
from tocsin.schema.event_type import EVENT_TYPE
from tocsin.schema.finite_domains import EnumeratedDomain, HierarchicalDomain
from tocsin.schema.schema import Schema


def check_extends(old: Schema, new: Schema) -> None:
    """Raise SchemaError unless everything valid under the old schema stays valid under the new one."""
    for name, domain in old.domains.items():
        after = new.domains.get(name)
        if after is None or (after != domain and not grows(domain, after)):
            raise SchemaError(f"an extension may not change or remove the domain {name!r}, only add values and aliases")
    for name, definition in old.attributes.items():
        if new.attributes.get(name) != definition:
            raise SchemaError(f"an extension may not change or remove the attribute {name!r}")
    for name, target in old.aliases.items():
        if new.aliases.get(name) != new.meaning(target):
            raise SchemaError(f"an extension may not change or remove the alias {name!r}")
    for name, event_type in old.event_types.items():
        extended = new.event_types.get(name)
        if extended is None or extended.attributes[: len(event_type.attributes)] != event_type.attributes:
            raise SchemaError(f"an extension may not change or remove what the event type {name!r} has")
        if any(entry.mandatory for entry in extended.attributes[len(event_type.attributes) :]):
            raise SchemaError(f"an extension may only add optional attributes to the event type {name!r}")
    if list(new.event_types)[: len(old.event_types)] != list(old.event_types):
        raise SchemaError("an extension adds event types after those that exist")


def grows(old: Domain, new: Domain) -> bool:
    """Return whether a domain is another one with more values or aliases, and nothing else."""
    if isinstance(old, EnumeratedDomain) and isinstance(new, EnumeratedDomain):
        count = len(old.values)
        same_order = all(new.above[at] & frozenset(range(count)) == old.above[at] for at in range(count))
        same = new.values[:count] == old.values and new.order == old.order and same_order
    elif isinstance(old, HierarchicalDomain) and isinstance(new, HierarchicalDomain):
        same = all(new.parents.get(value, value) == above for value, above in old.parents.items())
    else:
        return False
    kept = all(new.meaning.get(alias) == new.meaning.get(value, value) for alias, value in old.aliases)
    return same and kept and old.operators == new.operators


def described(old: Schema, new: Schema) -> list[str]:
    """Return what a version adds to the one before, a phrase each."""
    said = [f"domain {name}" for name in new.domains if name not in old.domains]
    for name, domain in old.domains.items():
        after = new.domains[name]
        if isinstance(domain, EnumeratedDomain | HierarchicalDomain) and isinstance(
            after, EnumeratedDomain | HierarchicalDomain
        ):
            values = [value for value in after.values if value not in domain.values]
            said += [f"{name} has {_some(values)}"] if values else []
            said += [f"{name}: {alias} means {value}" for alias, value in after.aliases if alias not in domain.meaning]
    said += [f"attribute {name}" for name in new.attributes if name not in old.attributes]
    said += [f"event type {name}" for name in new.event_types if name not in old.event_types]
    for name, event_type in old.event_types.items():
        more = [
            entry.attribute for entry in new.event_types[name].attributes if event_type.get(entry.attribute) is None
        ]
        said += [f"{name} may have {_some(more)}"] if more else []
    said += [f"{alias} means {target}" for alias, target in new.aliases.items() if alias not in old.aliases]
    said += [f"{name} is deprecated" for name in new.deprecated if name not in old.deprecated]
    said += [f"{name} is no longer deprecated" for name in old.deprecated if name not in new.deprecated]
    return said or ["nothing"]


def _some(names: list[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


@dataclass(frozen=True, slots=True)
class Moved:
    """Attributes whose indexed form a version of the schema changes.

    `anyhow` are those for which every subscription that mentions them is concerned; of `unless_equal`, those that ask for
    anything but equality: keys of values are the same as before, and there are more.
    """

    anyhow: frozenset[str] = frozenset()
    unless_equal: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.anyhow or self.unless_equal)

    def concerns(self, tree: bytes) -> bool:
        """Return whether a subscription, as a JSON tree, may mention one of them in a way that matters."""
        if any(_ending(name) in tree for name in self.anyhow):
            return True
        mentioned = [name for name in self.unless_equal if _ending(name) in tree]
        if not mentioned:
            return False
        # Alternatives and negations are merged into sets of values, which are cut off where the domain ended.
        plain = not any(word in tree for word in (b'"or"', b'"not"', b'"with"'))
        return not plain or any(tree.count(_ending(name) + b',"="') < tree.count(_ending(name)) for name in mentioned)


def _ending(name: str) -> bytes:
    """Return how the name ends in a JSON tree; a property stands there with the name of its type before it."""
    return msgspec.json.encode(name)[1:]


def moved(old: Schema, new: Schema) -> Moved:
    """Return the attributes whose indexed form changes from one version of a schema to a later one."""
    anyhow: set[str] = {*(new.multiple_attributes ^ old.multiple_attributes) & {*old.attributes, EVENT_TYPE}}
    unless_equal: set[str] = set()
    for alias in new.aliases.keys() - old.aliases.keys():
        if alias in old.attributes:
            anyhow |= {alias, new.aliases[alias]}
    for name, domain in old.attributes.items():
        before, after = old.domains[domain], new.domains[domain]
        if before is not after and before != after:
            (unless_equal if _is_longer(before, after) else anyhow).add(name)
    if old.event_types and old.event_type_domain.values != new.event_type_domain.values:
        anyhow |= {EVENT_TYPE} if len(old.event_types) == 1 else set()
        unless_equal |= {EVENT_TYPE} if len(old.event_types) > 1 else set()
    return Moved(frozenset(_with_aliases(anyhow, new)), frozenset(_with_aliases(unless_equal, new)))


def _is_longer(before: Domain, after: Domain) -> bool:
    """Return whether a domain of several values has got more, each of the old ones with the key that it had."""
    return (
        isinstance(before, EnumeratedDomain)
        and isinstance(after, EnumeratedDomain)
        and len(before.values) > 1
        and all(after.positions[value] == at for value, at in before.positions.items())
    )


def _with_aliases(names: Iterable[str], schema: Schema) -> set[str]:
    meant = {schema.meaning(name) for name in names}
    return {*names, *meant, *(alias for alias, target in schema.aliases.items() if target in meant)}


# --- Consolidation ----------------------------------------------------------------------------------------------------


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
