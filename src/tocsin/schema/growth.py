"""Growth: what a later version of a schema may change, and what that means for subscriptions that are indexed already.

The four extension rules add domains, attributes and event types; beyond them an existing domain may get values and
aliases, an attribute may get another name, or become one with a redundant one, and anything may be deprecated. Nothing
that was valid becomes invalid. What is indexed speaks of keys of values and of attributes' names; `moved` says which
attributes a new version gives other ones, so that only subscriptions that mention these are indexed again.
"""

from __future__ import annotations

from collections.abc import Iterable
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
