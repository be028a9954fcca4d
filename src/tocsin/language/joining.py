"""Joining: what a schema needs so that a site's documents become its events, and the mapping that then makes them so.

Fields that go to attributes are placed by mapping_infer.py. A field without one gets an attribute, over a domain that is there
and is defined alike, whatever its name, or a new one. What contradicts the schema is a conflict, with what would settle it; the
first remedy is what is proposed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tocsin.errors import BadValue
from tocsin.language.mapping import MappingDocument, MappingRule, admitted, paths_of, text_of_value, values_at
from tocsin.language.mapping_infer import MISSING, MOST_SHOWN, infer_mapping
from tocsin.schema import (
    BooleanDomain,
    Domain,
    EnumeratedDomain,
    HierarchicalDomain,
    NumericDomain,
    Schema,
    TextDomain,
    TimeDomain,
)
from tocsin.schema.growth import definition

# The first that takes all values of a field is proposed; numbers of any kind, since samples that are whole prove little.
_PLAIN: dict[str, Domain] = {
    "numeric": NumericDomain(name="number"), "boolean": BooleanDomain(name="flag"), "time": TimeDomain(name="time"),
    "text": TextDomain(name="text"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class JoinConflict:
    """What contradicts the schema, and what would settle it; the first remedy is proposed."""

    text: str
    remedies: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.text}: {', or '.join(self.remedies)}"


@dataclass(slots=True)
class JoiningProposal:
    """Extensions of the schema, as the service takes them, the mapping over the schema with them, and what to know."""

    schema: Schema
    mapping: MappingDocument
    changes: list[dict[str, Any]] = field(default_factory=list)
    conflicts: list[JoinConflict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def propose_joining(
    site: str, samples: Sequence[Mapping[str, Any]], schema: Schema, event_type: str | None = None
) -> JoiningProposal:
    """Return what lets a site's samples be events of a type; of the first one, where none is named."""
    inferred = infer_mapping(site, samples, schema, event_type)
    found = JoiningProposal(schema, inferred.document)
    placed = {path for rule in inferred.document.rules for path in rule.paths}
    for rule in inferred.document.rules:
        _complete_values(found, rule, samples)
    rules = list(inferred.document.rules)
    for path in dict.fromkeys(path for sample in samples for path in paths_of(sample)):
        if path not in placed:
            rules += _new_attribute(found, site, path, _raws(samples, path))
    settled = ("has no attribute", "also has", "looks like")  # what extensions and conflicts say better
    found.notes = [note for note in inferred.notes if not any(words in note for words in settled)] + found.notes
    found.mapping = msgspec.structs.replace(inferred.document, rules=tuple(rules))
    return found


def _raws(samples: Sequence[Mapping[str, Any]], path: str) -> list[Any]:
    raws = [raw for sample in samples for raw in values_at(sample, path)]
    return [raw for raw in raws if not (isinstance(raw, str) and raw in MISSING)]


def _complete_values(found: JoiningProposal, rule: MappingRule, samples: Sequence[Mapping[str, Any]]) -> None:
    """Add the values that a domain lacks for a rule."""
    domain = found.schema.domain_of(rule.targets[0])
    if not isinstance(domain, EnumeratedDomain | HierarchicalDomain) or not isinstance(rule.source, str):
        return
    known = {*domain.values, *domain.meaning, *(rule.table or ())}
    texts = dict.fromkeys(text_of_value(raw) for raw in _raws(samples, rule.source))
    lacking = [text for text in texts if text not in known]
    if lacking:
        has, yours = ", ".join(domain.values[:MOST_SHOWN]), ", ".join(lacking[:MOST_SHOWN])
        found.schema = found.schema.add_values(domain.name, lacking)
        found.changes.append({"add_values": {"domain": domain.name, "values": lacking}})
        remedies = ("add the values", f"map them by a table of {rule.targets[0]}")
        found.conflicts.append(JoinConflict(f"{domain.name} exists with {has}; {rule.source} has {yours}", remedies))


def _new_attribute(found: JoiningProposal, site: str, path: str, raws: list[Any]) -> list[MappingRule]:
    """Add an attribute for a field, and return the rule that fills it; none where no domain takes its values."""
    wanted = _domain_for(raws)
    if wanted is None or any(isinstance(raw, Mapping) for raw in raws):
        found.notes.append(f"{path} has values that no plain domain takes; map it by hand, or ignore it")
        return []
    name = re.sub(r"\W+", "_", path).strip("_").casefold() or "field"
    schema = found.schema
    taken = schema.attributes.get(schema.meaning(name))
    if taken is not None and definition(schema.domains[taken]) != definition(wanted):
        other = f"{re.sub(chr(92) + 'W+', '_', site).strip('_').casefold()}_{name}"
        text = f"{name} exists over {taken} ({schema.domains[taken].kind}); {path} is {wanted.kind}"
        found.conflicts.append(JoinConflict(text, (f"name it {other}", f"map it to {name} by a table or a pattern")))
        name, taken = other, schema.attributes.get(other)
    if taken is None:
        domain = next((each.name for each in schema.domains.values() if definition(each) == definition(wanted)), None)
        if domain is None:
            domain = wanted.name if wanted.name not in schema.domains else f"{name}_{wanted.name}"
            _change(found, {"add_domain": {"name": domain, "kind": wanted.kind}})
        _change(found, {"add_attribute": {"name": name, "domain": domain}})
    types = found.mapping.event_type
    for event_type in [types] if isinstance(types, str) else types or ():
        if found.schema.event_type(event_type).get(name) is None:
            _change(found, {"extend_event_type": {"event_type": event_type, "attribute": name}})
    return [MappingRule(to=name, source=path)]


def _change(found: JoiningProposal, change: dict[str, Any]) -> None:
    """Note an extension, and put it into the schema that is proposed; what cannot be raises SchemaError here."""
    (rule, what), schema = next(iter(change.items())), found.schema
    if rule == "add_domain":
        found.schema = schema.add_domain(msgspec.structs.replace(_PLAIN[what["kind"]], name=what["name"]))
    elif rule == "add_attribute":
        found.schema = schema.add_attribute(what["name"], what["domain"])
    else:
        found.schema = schema.extend_event_type(what["event_type"], what["attribute"])
    found.changes.append(change)


def _domain_for(raws: list[Any]) -> Domain | None:
    """Return the plain domain that takes all values of a field; text where there are none."""
    for domain in _PLAIN.values() if raws else [_PLAIN["text"]]:
        if all(_takes(domain, raw) for raw in raws):
            return domain
    return None


def _takes(domain: Domain, raw: Any) -> bool:
    try:
        admitted(domain, raw)
    except BadValue:
        return False
    return True
