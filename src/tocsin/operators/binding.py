"""Binding calls: each argument checked against the operator's declaration, when the subscription is made.

Constants become canonical values of their parameters; variables stand only where the operator can find their values; the
attributes that the operator reads must be attributes of the event types. registry.py offers it as the `Operators` of
language/formula.py, by which language/bind.py asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tocsin.errors import BadArgument, BadValue, BindError, Span
from tocsin.language.syntax import Constant, OperatorCall, Variable
from tocsin.operators.operator import OPEN, Operator, Parameter
from tocsin.schema import Domain, View, ViewAttribute


def bind_call(call: OperatorCall, operator: Operator, attributes: Mapping[str, ViewAttribute]) -> OperatorCall:
    """Return the call with canonical arguments; raises BindError, showing the place."""
    if len(call.arguments) != len(operator.parameters):
        wanted = f"{len(operator.parameters)} argument{'' if len(operator.parameters) == 1 else 's'}"
        message = f"{operator.name} takes {wanted}, not {len(call.arguments)}: {operator.signature}"
        raise BindError(message, span=call.span)
    _check_reads(operator, attributes, call.span)
    pairs = zip(operator.parameters, call.arguments, strict=True)
    arguments = tuple(_bound_argument(operator, entry, argument, call.span) for entry, argument in pairs)
    _check_inputs(operator, arguments, call.span)
    return replace(call, arguments=arguments)


def variable_domains(call: OperatorCall, operator: Operator) -> dict[str, Domain]:
    """Return the domain of each variable of a bound call."""
    pairs = zip(operator.parameters, call.arguments, strict=True)
    return {argument.name: entry.domain for entry, argument in pairs if isinstance(argument, Variable)}


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


def _check_reads(operator: Operator, attributes: Mapping[str, ViewAttribute], span: Span | None) -> None:
    for entry in operator.reads:
        name, _, kind = entry.partition(":")
        attribute = attributes.get(name)
        if attribute is None:
            message = f"{operator.name} reads the attribute {name}, which events of these types do not have"
            raise BindError(message, span=span)
        if kind and attribute.domain.kind != kind:
            message = f"{operator.name} reads the attribute {name} as {kind}; it is {attribute.domain.kind}"
            raise BindError(message, span=span)


def is_usable(operator: Operator, view: View) -> bool:
    """Return whether events of a view have what the operator reads."""
    try:
        _check_reads(operator, view.attributes, None)
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
