"""The two sides of a match: what a subscription may speak of, and what the rules and formulas of an offer may.

A union of the schema (schema/event_type.py) names the event type of offers, and the type whose attributes are the properties of
those who subscribe to it. Both may have an attribute of one name (an insurance and a driver both have a `name`). So in a
bound tree an attribute of the event goes by its own name, and a property by `driver.name`. As written, a name means the
other side's attribute where it has one, else one's own: in a subscription `name` is the insurance's, in a rule the driver's;
`insurance.name` and `driver.name` say which everywhere.

Which variables of a condition have a value where they are needed, and where a variable is local.

A call of an operator gives its variables their values, within its branch: the conjunction that it is part of. Value
constraints, and calls under `not`, ask about values that another call of the same branch gives. Under `not`, a variable
that has no value outside is local: `not (mobPattern(?p) and ?p > 50)` says that no number found is above 50.

    mobPattern(?people) and ?people > 50          holds where one of the numbers found is above 50
    count(?n) and not usual(?n)                   holds where one of the numbers found is not a usual one
    not mobPattern(?people)                       holds where no number is found
    mobPattern(?people) or ?people > 50           refused: in the second alternative, ?people has no value
    count(?n) or not usual(?n)                    refused: is ?n the one that is counted?
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tocsin.errors import BadValue, BindError, Span, did_you_mean, nearest
from tocsin.language.formula import Scope, one_value
from tocsin.language.render import render
from tocsin.language.syntax import (
    And,
    Arithmetic,
    Call,
    Case,
    Comparison,
    Expression,
    Negative,
    Node,
    Not,
    OperatorCall,
    Or,
    Predicate,
    ScopeCondition,
    Subscription,
    Variable,
)
from tocsin.language.tokens import is_bare_name
from tocsin.schema import EVENT_TYPE, Schema, Union, Value, View, ViewAttribute
from tocsin.schema.readings import ReadableAttributes, reading_of


@dataclass(frozen=True)
class Sides:
    """Events of some types (of all, where none is named), and the properties of those who subscribe to them."""

    schema: Schema
    event_types: tuple[str, ...]

    @cached_property
    def view(self) -> View:
        return self.schema.view(self.event_types)

    @cached_property
    def unions(self) -> tuple[Union, ...]:
        """The unions that say which properties there are."""
        return tuple(union for union in self.schema.unions.values() if union.event in self.view.event_types)

    @cached_property
    def properties(self) -> dict[str, ViewAttribute]:
        """The properties, by their names in bound trees."""
        return {
            f"{union.subscriber}.{name}": one_value(f"{union.subscriber}.{name}", entry.domain)
            for union in self.unions
            for name, entry in self.schema.view([union.subscriber]).attributes.items()
            if name != EVENT_TYPE
        }

    @cached_property
    def property_names(self) -> dict[str, list[str]]:
        """Property as written -> its names in bound trees: one for each union that has it."""
        found: dict[str, list[str]] = {}
        for union in self.unions:
            attributes = self.schema.view([union.subscriber]).attributes
            aliases = [(alias, name) for alias, name in self.schema.aliases.items() if name in attributes]
            for name, meant in (*((name, name) for name in attributes if name != EVENT_TYPE), *aliases):
                found.setdefault(name, []).append(f"{union.subscriber}.{meant}")
        return found

    @cached_property
    def mandatory_properties(self) -> list[frozenset[str]]:
        """What a whole record of each union has, as written; who gives properties at all gives those of one of these."""
        entries = [self.schema.event_type(union.subscriber).attributes for union in self.unions]
        return [frozenset(self.schema.meaning(one.attribute) for one in each if one.mandatory) for each in entries]

    @cached_property
    def subscription_scope(self) -> Scope:
        """What a subscription's condition may speak of: the event first, then its own properties."""
        listed = set(self.view.attributes)
        own = {name: full[0] for name, full in self.property_names.items() if name not in listed}
        return Scope(self._attributes, aliases={**own, **self._qualified}, unknown=self._unknown)

    @cached_property
    def rule_scope(self) -> Scope:
        """What a rule, or the formula of a computed attribute, may speak of: the subscriber first, then the event."""
        own = {name: full[0] for name, full in self.property_names.items()}
        return Scope(self._attributes, aliases={**self._qualified, **own}, unknown=self._unknown)

    @cached_property
    def _attributes(self) -> Mapping[str, ViewAttribute]:
        known = self.view.attributes
        joined = {**self.properties, **known}
        return ReadableAttributes(joined, known.unknown) if isinstance(known, ReadableAttributes) else joined

    @cached_property
    def _qualified(self) -> dict[str, str]:
        """The event's attributes under other names: their aliases, and with the name of their type before them."""
        names = {name: name for name in self.view.attributes}
        aliases = {alias: name for alias, name in self.schema.aliases.items() if name in names}
        listed = {f"{union.event}.{name}": meant for union in self.unions for name, meant in (names | aliases).items()}
        known = set(self._attributes)
        return {full: name for full, name in (aliases | listed).items() if full not in known}

    def _unknown(self, name: str) -> str:
        if (reading := reading_of(name)) is not None and name not in self.schema.attributes:
            if reading[0] in self.view.attributes:
                return f"{reading[0]} is {self.view[reading[0]].domain.kind}; it is asked about without `as`"
            asked = ", ".join(sorted(self.view.event_types))
            return f"events of type {asked} keep no attribute that the schema does not have; it can say: kept = [{asked!r}]"
        if self.view.unknown == "kept" and name not in self.schema.attributes:
            guess = did_you_mean(nearest(name, self.view.attributes))
            said = name if is_bare_name(name) else f'"{name}"'
            return (
                f"the schema has no attribute {name!r}{guess}. One that events have all the same is asked about with its "
                f"type: {said} as number, as text, as time or as boolean"
            )
        if name not in self.schema.attributes:
            known = [*self.view.attributes, *self.property_names, *self.properties]
            return f"there is no attribute {name!r}{did_you_mean(nearest(name, known))}"
        types = [entry.name for entry in self.schema.event_types.values() if entry.get(name) is not None]
        if not types:
            return f"no event type has the attribute {name!r} yet"
        asked = ", ".join(sorted(self.view.event_types))
        return f"events of type {asked} have no attribute {name!r}; those of type {', '.join(types)} have"


def sides_of(schema: Schema, event_types: tuple[str, ...]) -> Sides:
    """Return the sides of events of these types, made once for a schema."""
    key = frozenset(event_types)
    return schema.derived(("sides", key), lambda: Sides(schema, tuple(sorted(key))))


def properties_of(tree: Subscription, sides: Sides) -> dict[str, Value]:
    """Return the properties of a subscription by their names in bound trees, each admitted by its domain."""
    found: dict[str, Value] = {}
    for at, (name, raw) in enumerate(tree.properties):
        span = tree.property_spans[at] if at < len(tree.property_spans) else None
        for full in _meant(name, sides, span):
            try:
                found[full] = sides.properties[full].domain.admit(raw)
            except BadValue as error:
                raise BindError(f"the property {name}: {error}", span=span) from None
    # Who says nothing of itself is no such record, and satisfies no rule about one.
    if found:
        _check_mandatory(found, sides)
    return found


def _meant(name: str, sides: Sides, span: Span | None) -> list[str]:
    if name in sides.properties:
        return [name]
    if name in sides.property_names:
        return sides.property_names[name]
    if not sides.unions:
        listed = ", ".join(sorted(sides.view.event_types))
        message = f"those who subscribe to {listed} have no properties: no union of the schema gives them some"
        raise BindError(f"{message}. Leave out: with {name} = …", span=span)
    who = " or ".join(dict.fromkeys(union.subscriber for union in sides.unions))
    hint = did_you_mean(nearest(name, sides.property_names))
    there = "" if hint else f"; it has: {', '.join(sides.property_names)}"
    raise BindError(f"a {who} has no property {name!r}{hint}{there}", span=span)


def _check_mandatory(found: dict[str, Value], sides: Sides) -> None:
    """Raise BindError unless the properties make a whole record of some union."""
    missing: list[tuple[str, str]] = []
    for union in sides.unions:
        entries = sides.schema.event_type(union.subscriber).attributes
        lacking = [
            entry.attribute
            for entry in entries
            if entry.mandatory and f"{union.subscriber}.{sides.schema.meaning(entry.attribute)}" not in found
        ]
        if not lacking:
            return
        missing.append((union.subscriber, lacking[0]))
    who, name = missing[0]
    raise BindError(f"every {who} has the property {name!r}; add: with {name} = …")


def lenient(schema: Schema, event_types: tuple[str, ...]) -> Schema:
    """Return the schema with these types' attributes optional, for offers whose missing attributes are computed."""

    def make() -> Schema:
        types = {
            name: replace(entry, attributes=tuple(replace(one, mandatory=False) for one in entry.attributes))
            if name in event_types
            else entry
            for name, entry in schema.event_types.items()
        }
        return replace(schema, event_types=types)

    return schema.derived(("lenient", frozenset(event_types)), make)


# Which variables of a condition have a value where they are needed, and where a variable is local.


_NONE: frozenset[str] = frozenset()


def check_variables(where: Node, given: frozenset[str] = _NONE) -> None:
    """Raise BindError where a variable is asked about that has no value; `given` are those that have one anyway."""
    everywhere = {name: span for call in _calls(where) for name, span in variables_of(call).items()}
    _check(where, given, everywhere)


def variables_of(tree: Node | Expression) -> dict[str, Span | None]:
    """Return the variables of a condition or expression in the order of their first appearance, with that place."""
    found: dict[str, Span | None] = {}
    _collect(tree, found)
    return found


def _collect(tree: Expression | Node, found: dict[str, Span | None]) -> None:
    match tree:
        case Variable(name):
            found.setdefault(name, tree.span)
        case Negative(part) | Not(part) | ScopeCondition(part=part):
            _collect(part, found)
        case Arithmetic(_, left, right) | Comparison(left, _, right):
            _collect(left, found)
            _collect(right, found)
        case Call(_, parts) | OperatorCall(_, parts) | And(parts) | Or(parts):
            for part in parts:
                _collect(part, found)
        case Case(branches, otherwise):
            for when, then in branches:
                _collect(when, found)
                _collect(then, found)
            if otherwise is not None:
                _collect(otherwise, found)


def bound_in(node: Node) -> frozenset[str]:
    """Return the variables that calls of a condition give values to, outside of any `not` within it."""
    match node:
        case And(parts) | Or(parts):
            return _NONE.union(*map(bound_in, parts))
        case OperatorCall() if node.function is None:
            return frozenset(variables_of(node))
        case _:
            return _NONE


def _calls(node: Node) -> list[OperatorCall]:
    """Return the calls of operators outside of any `not`."""
    match node:
        case And(parts) | Or(parts):
            return [call for part in parts for call in _calls(part)]
        case OperatorCall() if node.function is None:
            return [node]
        case _:
            return []


def _given(node: Node) -> frozenset[str]:
    """Return the variables that have a value wherever the node holds."""
    match node:
        case And(parts):
            return _NONE.union(*map(_given, parts))
        case Or(parts):
            each = list(map(_given, parts))
            return each[0].intersection(*each[1:]) if each else _NONE
        case OperatorCall() if node.function is None:
            return frozenset(variables_of(node))
        case _:
            return _NONE


def _check(node: Node, given: frozenset[str], elsewhere: dict[str, Span | None]) -> None:
    match node:
        case Not(part):
            for name, span in variables_of(part).items():
                if name not in given and name in elsewhere:
                    message = (
                        f"?{name} has a value in another alternative only; under `not` it would be another one. "
                        "Give it a name of its own there"
                    )
                    raise BindError(message, span=span)
            within = {name: span for call in _calls(part) for name, span in variables_of(call).items()}
            _check(part, given, {name: span for name, span in within.items() if name not in given})
        case And(parts):
            each = list(map(_given, parts))
            for at, part in enumerate(parts):
                _check(part, given.union(*each[:at], *each[at + 1 :]), elsewhere)
        case Or(parts):
            for part in parts:
                _check(part, given, elsewhere)
        case Comparison() | ScopeCondition():
            _refuse_missing(node, given)
        case OperatorCall() if node.function is not None:
            _refuse_missing(node, given)
        case Predicate() | OperatorCall():
            return


def _refuse_missing(node: OperatorCall | Comparison | ScopeCondition, given: frozenset[str]) -> None:
    for name, span in variables_of(node).items():
        if name not in given:
            written = render(node)
            message = (
                f"?{name} has no value here: {written} only asks about it. In the same alternative, an operator must give "
                f"it one, such as: f(?{name}) and {written}"
            )
            raise BindError(message, span=span or node.span)
