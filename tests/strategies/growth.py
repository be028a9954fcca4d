"""Schemas that grow: one random step by the extension rules, by values, by aliases, by deprecation."""

from __future__ import annotations

from random import Random

from tocsin.errors import SchemaError
from tocsin.schema import EnumeratedDomain, HierarchicalDomain, NumericDomain, Schema, TypeAttribute

STEPS = (
    *("values", "values", "values", "value alias", "value alias", "value merge", "alias", "merge"),
    *("domain", "event type", "extension", "deprecation"),
)


def grown(random: Random, schema: Schema, steps: tuple[str, ...] = STEPS) -> tuple[str, Schema]:
    """Return what was done, and the schema one version later."""
    while True:
        step = random.choice(steps)
        try:
            return step, _step(random, schema, step)
        except SchemaError:  # not every pair can be merged, for one
            continue


def _step(random: Random, schema: Schema, step: str) -> Schema:
    new = f"new {schema.version}.{random.randrange(10**6)}"
    finite = [each for each in schema.domains.values() if isinstance(each, EnumeratedDomain | HierarchicalDomain)]
    attributes = list(schema.attributes)
    if step in ("values", "value alias", "value merge") and not finite:
        raise SchemaError("no such domain")
    match step:
        case "values":
            domain = random.choice(finite)
            if isinstance(domain, HierarchicalDomain):
                return schema.add_values(domain.name, [new], below=random.choice([None, *domain.values]))
            less = [(random.choice(domain.values), new)] if domain.order == "partial" and random.random() < 0.7 else []
            less = [(high, low) for low, high in less] if random.random() < 0.5 else less
            return schema.add_values(domain.name, [new, new + "b"], less=less)
        case "value alias" | "value merge":
            domain = random.choice(finite)
            alias = new if step == "value alias" else random.choice(domain.values)
            return schema.add_value_alias(domain.name, alias, random.choice(domain.values))
        case "alias":
            return schema.add_alias(new, random.choice(attributes))
        case "merge":
            return schema.add_alias(*random.sample(attributes, 2) if len(attributes) > 1 else ("", ""))
        case "domain":
            return schema.add_domain(NumericDomain(name=new)).add_attribute(new, new)
        case "event type":
            chosen = random.sample(attributes, min(3, len(attributes)))
            return schema.add_event_type(new, [TypeAttribute(each, False, random.random() < 0.3) for each in chosen])
        case "extension":
            name, attribute = random.choice(list(schema.event_types)), random.choice(attributes)
            return schema.extend_event_type(name, attribute, multiple=random.random() < 0.3)
    return schema.deprecate(random.choice(attributes), "no longer")
