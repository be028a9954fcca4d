"""Binding calls: each argument checked against the operator's declaration, when the subscription is made.

Constants become canonical values of their parameters; variables stand only where the operator can find their values;
a variable has one domain wherever it stands, and value constraints are checked with it; the attributes that the
operator reads must be attributes of the event types. registry.py offers it as `Registry.bind`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from tocsin.errors import BadArgument, BadValue, BindError, LanguageError, Span, UnknownOperator
from tocsin.language import BoundSubscription, Subscription, bind, parse
from tocsin.language.formula import Scope
from tocsin.language.formula_bind import bind_condition, common_domain
from tocsin.language.render import render
from tocsin.language.syntax import And, Constant, Comparison, Node, Not, OperatorCall, Or, Variable
from tocsin.operators.operator import OPEN, Operator, Parameter
from tocsin.schema import Domain, Schema, View

T = TypeVar("T", OperatorCall, Comparison)
Find = Callable[[str], Operator]


def bind_operators(subscription: str | Subscription, schema: Schema, find: Find) -> BoundSubscription:
    """Return the subscription bound to a schema and to operators; raises LanguageError, showing the place."""
    text = subscription if isinstance(subscription, str) else None
    tree = parse(subscription) if isinstance(subscription, str) else subscription
    bound = bind(tree, schema, text=text)
    try:
        where = _bound(bound.subscription.where, bound.view, find)
        scope = Scope(names={}, variables=variable_domains(where, find))
        for constraint in _leaves(where, Comparison):
            bind_condition(constraint, scope)
    except LanguageError as error:
        if text is not None and error.span is not None and error.text is None:
            error.text = text
        raise
    return replace(bound, subscription=replace(bound.subscription, where=where))


def variable_domains(where: Node, find: Find) -> dict[str, Domain]:
    """Return the domain of each variable; raises BindError where two operators mean different things by it."""
    domains: dict[str, Domain] = {}
    for call in _leaves(where, OperatorCall):
        for entry, argument in zip(find(call.name).parameters, call.arguments, strict=True):
            if isinstance(argument, Variable):
                known = domains.get(argument.name, entry.domain)
                common = common_domain(known, entry.domain)
                if common is None:
                    message = f"?{argument.name} is {known.kind} elsewhere, and {entry.domain.kind} in {render(call)}"
                    raise BindError(message, span=argument.span or call.span)
                domains[argument.name] = common
    return domains


def _bound(node: Node, view: View, find: Find) -> Node:
    match node:
        case And(parts) | Or(parts):
            return type(node)(tuple(_bound(part, view, find) for part in parts))
        case Not(part):
            return Not(_bound(part, view, find))
        case OperatorCall():
            return _bound_call(node, view, find)
        case _:
            return node


def _bound_call(call: OperatorCall, view: View, find: Find) -> OperatorCall:
    try:
        operator = find(call.name)
    except UnknownOperator as error:
        raise BindError(str(error), span=call.span) from None
    if len(call.arguments) != len(operator.parameters):
        wanted = f"{len(operator.parameters)} argument{'' if len(operator.parameters) == 1 else 's'}"
        message = f"{operator.name} takes {wanted}, not {len(call.arguments)}: {operator.signature}"
        raise BindError(message, span=call.span)
    _check_reads(operator, view, call.span)
    pairs = zip(operator.parameters, call.arguments, strict=True)
    arguments = tuple(_bound_argument(operator, entry, argument, call.span) for entry, argument in pairs)
    _check_inputs(operator, arguments, call.span)
    return replace(call, arguments=arguments)


def _bound_argument(operator: Operator, entry: Parameter, argument: object, span: Span | None) -> Constant | Variable:
    if isinstance(argument, Variable):
        if entry.role == "input":
            message = f"{entry.name} of {operator.name} must be a constant, not a variable: {operator.signature}"
            raise BindError(message, span=argument.span or span)
        return argument
    assert isinstance(argument, Constant), "language.bind folds other arguments"
    try:
        return replace(argument, value=entry.domain.admit(argument.value))
    except BadValue as error:
        message = f"{entry.name} of {operator.name}: {error}. It is {operator.signature}"
        raise BindError(message, span=argument.span or span) from None


def _check_reads(operator: Operator, view: View, span: Span | None) -> None:
    for entry in operator.reads:
        name, _, kind = entry.partition(":")
        attribute = view.attributes.get(name)
        if attribute is None:
            types = ", ".join(sorted(view.event_types))
            message = f"{operator.name} reads the attribute {name}, which events of type {types} do not have"
            raise BindError(message, span=span)
        if kind and attribute.domain.kind != kind:
            message = f"{operator.name} reads the attribute {name} as {kind}; it is {attribute.domain.kind}"
            raise BindError(message, span=span)


def is_usable(operator: Operator, view: View) -> bool:
    """Return whether events of a view have what the operator reads."""
    try:
        _check_reads(operator, view, None)
    except BindError:
        return False
    return True


def _check_inputs(operator: Operator, arguments: tuple[Constant | Variable, ...], span: Span | None) -> None:
    if operator.check is None:
        return
    pairs = zip(operator.parameters, arguments, strict=True)
    inputs = [
        OPEN if isinstance(argument, Variable) else argument.value
        for entry, argument in pairs
        if entry.role != "output"
    ]
    try:
        operator.check(*inputs)
    except BadArgument as error:
        raise BindError(f"{operator.name}: {error}", span=span) from None


def _leaves(node: Node, kind: type[T]) -> Iterator[T]:
    """Yield the calls, or the constraints, of a condition."""
    match node:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _leaves(part, kind)
        case Not(part):
            yield from _leaves(part, kind)
        case _ if isinstance(node, kind):
            yield node
        case _:
            return
