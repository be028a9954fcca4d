"""Binding: a subscription checked against a schema, its operands made canonical.

Names must be in the view of the subscription's event types; each operator must be one that the attribute's domain
offers; each operand must be a value of the domain (operands.py). What semantics.py, compile/ and the engines see is a
BoundSubscription, and nothing in it needs checking again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tocsin.errors import BindError, LanguageError, Span, UnknownEventType, did_you_mean, nearest
from tocsin.language import syntax
from tocsin.language.bounds import check_name, check_size
from tocsin.language.fold import fold
from tocsin.language.literals import check_literal
from tocsin.language.offers import check_offered
from tocsin.language.operands import canonical_operand
from tocsin.language.render import render
from tocsin.language.syntax import Constant, Constraint, Expression, Node, OperatorCall, Predicate, Subscription
from tocsin.language.variables import check_variables
from tocsin.schema import Schema, View, ViewAttribute


@dataclass(frozen=True, slots=True)
class BoundSubscription:
    """A subscription that is about a schema.

    `view` is the view of its event types; `operators` and `variables` are the names of the user-supplied operators and
    of the variables that it uses, in the order of their first appearance.
    """

    subscription: Subscription
    view: View = field(hash=False)
    operators: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


def bind(subscription: Subscription, schema: Schema, *, text: str | None = None) -> BoundSubscription:
    """Return the subscription bound to the schema; raises BindError or TooLarge.

    `text`, where the subscription came as one, lets errors show the place.
    """
    try:
        check_size(subscription)
        return _Binding(schema, _view(subscription, schema)).bind(subscription)
    except LanguageError as error:
        if text is not None and error.span is not None:
            error.text = text
        raise


def _view(subscription: Subscription, schema: Schema) -> View:
    for at, name in enumerate(subscription.event_types):
        if name not in schema.event_types:
            spans = subscription.event_type_spans
            message = str(UnknownEventType(name, schema.event_types))
            raise BindError(message, span=spans[at] if at < len(spans) else None)
    return schema.view(subscription.event_types)


class _Binding:
    """The work of binding one subscription."""

    def __init__(self, schema: Schema, view: View) -> None:
        self.schema, self.view = schema, view
        self.operators: dict[str, None] = {}
        self.variables: dict[str, None] = {}
        self.constrained: dict[str, Span | None] = {}  # variables that constraints use

    def bind(self, subscription: Subscription) -> BoundSubscription:
        where = self.node(subscription.where)
        for name, span in self.constrained.items():
            if name not in self.variables:
                raise BindError(
                    f"?{name} has no value: it must be an argument of an operator, such as f(?{name})", span=span
                )
        check_variables(where)
        bound = replace(
            subscription,
            event_types=tuple(dict.fromkeys(subscription.event_types)),
            where=where,
            properties=tuple((check_name(name), check_literal(value)) for name, value in subscription.properties),
        )
        return BoundSubscription(bound, self.view, tuple(self.operators), tuple(self.variables))

    # --- conditions ---------------------------------------------------------------------------------------------------

    def node(self, node: Node) -> Node:
        match node:
            case syntax.And(parts) | syntax.Or(parts):
                bound = tuple(map(self.node, parts))
                return bound[0] if len(bound) == 1 else type(node)(bound)
            case syntax.Not(part):
                return syntax.Not(self.node(part))
            case Predicate():
                return self.predicate(node)
            case OperatorCall():
                return self.operator_call(node)
            case Constraint():
                self.constraint(node)
                return node

    def predicate(self, predicate: Predicate) -> Predicate:
        attribute = self.attribute(predicate.attribute, predicate.attribute_span or predicate.span)
        check_offered(predicate, attribute)
        return replace(predicate, operand=canonical_operand(predicate, attribute))

    def attribute(self, name: str, span: Span | None) -> ViewAttribute:
        """Return the attribute as the view has it."""
        found = self.view.attributes.get(name)
        if found is None:
            raise BindError(self._unknown(name), span=span)
        return found

    def _unknown(self, name: str) -> str:
        if name not in self.schema.attributes:
            return f"there is no attribute {name!r}{did_you_mean(nearest(name, self.view.attributes))}"
        types = [entry.name for entry in self.schema.event_types.values() if entry.get(name) is not None]
        if not types:
            return f"no event type has the attribute {name!r} yet"
        asked = ", ".join(sorted(self.view.event_types))
        return f"events of type {asked} have no attribute {name!r}; those of type {', '.join(types)} have"

    # --- operators, variables and constraints -------------------------------------------------------------------------

    def operator_call(self, call: OperatorCall) -> OperatorCall:
        self.operators[check_name(call.name)] = None
        return replace(call, arguments=tuple(self._argument(call, argument) for argument in call.arguments))

    def _argument(self, call: OperatorCall, argument: Expression) -> Expression:
        if isinstance(argument, syntax.Variable):
            self.variables[argument.name] = None
            return argument
        value = fold(argument)
        if value is None:
            message = f"the arguments of {call.name} must be constants and variables; {render(argument)} is neither"
            if isinstance(argument, syntax.AttributeValue):
                message += f". Text goes in single quotes: '{argument.name}'"
            raise BindError(message, span=getattr(argument, "span", None) or call.span)
        return Constant(check_literal(value), span=getattr(argument, "span", None))

    def constraint(self, constraint: Constraint) -> None:
        """Check a value constraint: variables and constants only."""
        if isinstance(constraint.left, syntax.AttributeValue) and isinstance(constraint.right, syntax.AttributeValue):
            name, span = constraint.right.name, constraint.right.span or constraint.span
            message = f"compare an attribute with a constant; {name} is a name. Text goes in single quotes: '{name}'"
            raise BindError(message, span=span)
        self._expression(constraint.left, constraint)
        self._expression(constraint.right, constraint)

    def _expression(self, tree: Expression, constraint: Constraint) -> None:
        match tree:
            case Constant():
                check_literal(tree.value)
            case syntax.Variable(name):
                self.constrained.setdefault(name, tree.span)
            case syntax.Negative(part):
                self._expression(part, constraint)
            case syntax.Arithmetic(_, left, right):
                self._expression(left, constraint)
                self._expression(right, constraint)
            case syntax.Case():
                self._case(tree, constraint)
            case syntax.AttributeValue():
                message = (
                    f"compare an attribute with a constant, such as: {tree.name} < 100; here it stands in a formula"
                )
                raise BindError(message, span=tree.span or constraint.span)
            case syntax.Call(name):
                message = f"a value constraint has variables and constants only; {name} is a function"
                raise BindError(message, span=tree.span or constraint.span)

    def _case(self, tree: syntax.Case, constraint: Constraint) -> None:
        for when, then in tree.branches:
            self._when(when, constraint)
            self._expression(then, constraint)
        if tree.otherwise is not None:
            self._expression(tree.otherwise, constraint)

    def _when(self, node: Node, constraint: Constraint) -> None:
        match node:
            case syntax.And(parts) | syntax.Or(parts):
                for part in parts:
                    self._when(part, constraint)
            case syntax.Not(part):
                self._when(part, constraint)
            case Constraint():
                self.constraint(node)
            case _:
                message = f"a value constraint has variables and constants only; {render(node)} is about the event"
                raise BindError(message, span=node.span or constraint.span)
