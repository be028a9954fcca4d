"""Binding: a subscription, a rule or a formula checked against what it may speak of, its tree made canonical and typed.

Names must be known where they stand (sides.py says which are, for a subscription and for the rules of an offer); each
operator of a predicate must be one that the attribute's domain offers, its operand a value of the domain (operands.py);
formulas must fit by their types (formula.py); calls must be of operators that are there, and variables must have a value
where they are asked about (sides.py). Parts made of constants alone are computed here, exactly (literals.py). Nothing in
what comes out needs checking again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TypeVar

from tocsin.errors import BadValue, BindError, LanguageError, Span, UnknownEventType, did_you_mean, nearest, shown
from tocsin.language import syntax
from tocsin.language.bounds import ANY_ATTRIBUTE, check_name, check_size
from tocsin.language.formula import (
    DURATION,
    NO_OPERATORS,
    TIME,
    ConditionFormula,
    Function,
    Operators,
    Scope,
    ValueFormula,
    arithmetic_domain,
    common_domain,
    comparing_domain,
    domain_of,
    domain_of_literal,
    is_numeric,
    is_ordered,
    is_text_like,
    kind_of,
    numeric_type,
    plain_number,
    said,
)
from tocsin.language.functions import FUNCTIONS, NAMES, ZONE, zone_of
from tocsin.language.literals import check_literal, fold
from tocsin.language.operands import canonical_operand, check_offered
from tocsin.language.parse import parse, parse_condition, parse_expression
from tocsin.language.render import render
from tocsin.language.sides import check_variables, properties_of, sides_of
from tocsin.language.syntax import Comparison, Expression, Node, Op, OperatorCall, Predicate, Subscription
from tocsin.schema import NOW, Domain, Schema, Value, View, ViewAttribute

_EQUALITY = frozenset({Op.EQ, Op.NE})
_LISTS = frozenset({Op.IN, Op.BETWEEN, Op.CONTAINS_ANY, Op.CONTAINS_ALL})
_KIND_OF_OPERAND = {bool: "boolean", int: "number", float: "number", Decimal: "number", datetime: "time", tuple: ""}
_READ_AS = {"numeric": "number", "time": "time", "boolean": "boolean"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BoundSubscription:
    """A subscription that is about a schema.

    `view` is the view of its event types; `properties` say who asks, by their names in conditions (`driver.age`);
    `operators` and `variables` are the names of the operators and variables that it uses, in the order of their first
    appearance.
    """

    subscription: Subscription
    view: View = field(hash=False)
    operators: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    properties: Mapping[str, Value] = field(default_factory=dict, hash=False)


def bind(
    subscription: str | Subscription, schema: Schema, *, text: str | None = None, operators: Operators = NO_OPERATORS
) -> BoundSubscription:
    """Return the subscription bound to the schema and to operators; raises ParseError, BindError or TooLarge.

    `text`, where the subscription came as one and was parsed already, lets errors show the place.
    """
    if isinstance(subscription, str):
        text, subscription = subscription, parse(subscription)
    if not isinstance(subscription, Subscription):
        raise BindError(
            f'a subscription is a text, such as "price < 10", or a tree, and not {type(subscription).__name__}'
        )
    with _shown_in(text):
        check_size(subscription)
        return _bound(subscription, schema, operators)


def _bound(tree: Subscription, schema: Schema, operators: Operators) -> BoundSubscription:
    types = tuple(dict.fromkeys(tree.event_types))
    for at, name in enumerate(tree.event_types):
        if name not in schema.event_types:
            spans = tree.event_type_spans
            raise BindError(
                str(UnknownEventType(name, schema.event_types)), span=spans[at] if at < len(spans) else None
            )
    sides = sides_of(schema, types)
    binding = _Binding(replace(sides.subscription_scope, operators=operators, has_arrival=True))
    binding.texts = [name for name, entry in sides.view.attributes.items() if entry.domain.kind == "text"]
    where = binding.condition(tree.where)
    given = properties_of(tree, sides)
    literals = tuple((check_name(name), check_literal(value)) for name, value in tree.properties)
    bound = replace(tree, event_types=types, where=where, properties=literals)
    return BoundSubscription(bound, sides.view, tuple(binding.operators), tuple(binding.variables), given)


def bind_value(formula: str | Expression, scope: Scope) -> ValueFormula:
    """Return the value formula of a text or tree; raises ParseError, BindError or TooLarge."""
    tree = parse_expression(formula) if isinstance(formula, str) else formula
    with _shown_in(formula if isinstance(formula, str) else None):
        check_size(tree)
        root = _Binding(scope).value(tree)
    return ValueFormula(root, tuple(dict.fromkeys(syntax.names_of(root))))


def bind_condition(formula: str | Node, scope: Scope) -> ConditionFormula:
    """Return the condition formula of a text or tree; raises ParseError, BindError or TooLarge."""
    tree = parse_condition(formula) if isinstance(formula, str) else formula
    with _shown_in(formula if isinstance(formula, str) else None):
        check_size(tree)
        root = _Binding(scope).condition(tree)
    return ConditionFormula(root, tuple(dict.fromkeys(syntax.names_of(root))))


@contextmanager
def _shown_in(text: str | None) -> Iterator[None]:
    """Let errors of the block show the place in a text."""
    try:
        yield
    except LanguageError as error:
        if text is not None and error.span is not None and not error.text:
            error.text = text
        raise


@contextmanager
def _shown_at(span: Span | None) -> Iterator[None]:
    """Let an error of the block be of this place."""
    try:
        yield
    except BindError as error:
        raise BindError(error.message, span=span) from None


class _Binding:
    """The work of binding one condition or value."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.texts: list[str] | None = None  # attributes that `any attribute` means
        self.operators: dict[str, None] = {}
        self.variables: dict[str, Domain] = dict(scope.variables or {})
        self.calls: dict[OperatorCall, OperatorCall] = {}  # of operators, as written -> bound

    def condition(self, tree: Node) -> Node:
        """Return a whole condition, in which calls of operators give variables their values."""
        calls = [leaf for leaf in syntax.leaves(tree) if isinstance(leaf, OperatorCall)]
        self.calls = {call: self._operator_call(call) for call in calls if self._function(call) is None}
        bound = self.node(tree)
        check_variables(bound, frozenset(self.scope.variables or ()))
        return bound

    # --- conditions ---------------------------------------------------------------------------------------------------

    def node(self, node: Node) -> Node:
        match node:
            case syntax.And(parts) | syntax.Or(parts):
                bound = tuple(map(self.node, parts))
                return bound[0] if len(bound) == 1 else type(node)(bound)
            case syntax.Not(part):
                return syntax.Not(self.node(part))
            case Predicate():
                return self._predicate(node)
            case Comparison():
                return self._comparison(node)
            case OperatorCall():
                return self._call_as_condition(node)
            case syntax.ScopeCondition():
                return self._scope_condition(node)

    def _scope_condition(self, node: syntax.ScopeCondition) -> syntax.ScopeCondition:
        """Return a scope; names within are those of elements first, and operators are called outside of it."""
        entry = self._attribute(node.array, node.array_span or node.span)
        if entry.domain.kind != "object":
            arrays = [name for name, each in self.scope.attributes.items() if each.domain.kind == "object"]
            hint = did_you_mean(nearest(node.array, arrays)) or (f"; there are: {', '.join(arrays)}" if arrays else "")
            if entry.domain.kind == "dynamic":
                hint = ": declare it in a schema, which Schema.infer makes of sample events"
            message = f"{node.quantifier} asks about an array of objects; {node.array} is {said(entry.domain)}{hint}"
            raise BindError(message, span=node.array_span or node.span)
        scope = replace(self.scope, operators=None, variables=self.variables, arrays=(entry.name, *self.scope.arrays))
        inner = _Binding(scope)
        inner.texts = [name for name in self.texts or () if name.startswith(f"{entry.name}.")]
        return replace(node, array=entry.name, part=inner.condition(node.part))

    def _predicate(self, predicate: Predicate) -> Node:
        if predicate.attribute == ANY_ATTRIBUTE and not self._knows(ANY_ATTRIBUTE):
            return self._any_attribute(predicate)
        attribute = self._attribute(predicate.attribute, predicate.attribute_span or predicate.span)
        if attribute.domain.kind == "dynamic":
            return self._predicate(replace(predicate, attribute=f"{attribute.name} as {self._asked_as(predicate)}"))
        if not self.scope.trusted:  # what was bound before may be written with a simpler operator now
            check_offered(predicate, attribute)
        operand = canonical_operand(predicate, attribute)
        return replace(
            predicate, attribute=attribute.name, operand=operand, domain=attribute.domain, multiple=attribute.multiple
        )

    @staticmethod
    def _asked_as(predicate: Predicate) -> str:
        """Return as what a predicate asks about an attribute that has no type: as what it compares it with."""
        if predicate.op in (Op.PRESENT, Op.ABSENT):
            return "text"  # whatever is bound has one
        operand = predicate.operand
        values = operand if isinstance(operand, tuple) and predicate.op in _LISTS else (operand,)
        kinds = dict.fromkeys(_KIND_OF_OPERAND.get(type(each), "text") for each in values)
        if isinstance(operand, syntax.Within) and not isinstance(operand.center, tuple):
            kinds = {"time": None}
        if "" in kinds or (isinstance(operand, syntax.Box | syntax.Polygon | syntax.Within) and "time" not in kinds):
            message = (
                f"{predicate.attribute} is of no declared type, and places are asked about where the schema has a point"
            )
            raise BindError(message, span=predicate.span)
        if len(kinds) > 1:
            name = predicate.attribute
            listed = " or ".join(f"{name} as {kind} {predicate.op.value} (…)" for kind in kinds)
            raise BindError(f"{name} is of no declared type; ask for one at a time: {listed}", span=predicate.span)
        return next(iter(kinds))

    def _any_attribute(self, predicate: Predicate) -> Node:
        """Return the alternatives of a predicate about all texts that an event may have."""
        if self.texts is None:
            raise BindError("`any attribute` stands in subscriptions only", span=predicate.attribute_span)
        parts = [self._predicate(replace(predicate, attribute=name)) for name in self.texts]
        if not parts:
            raise BindError("there is no attribute that is text", span=predicate.attribute_span)
        return parts[0] if len(parts) == 1 else syntax.Or(tuple(parts))

    def _comparison(self, comparison: Comparison) -> Comparison:
        left, right = self._read_alike(comparison)
        left, right = self._side(left, comparison), self._side(right, comparison)
        left, right = _adapted(left, domain_of(right)), _adapted(right, domain_of(left))
        domain = comparing_domain(domain_of(left), domain_of(right))
        if domain is None:
            message = f"{said(domain_of(left))} cannot be compared with {said(domain_of(right))}{_hyphens(comparison)}"
            raise BindError(message, span=comparison.span)
        if comparison.op not in _EQUALITY and not is_ordered(domain):
            message = f"{said(domain_of(left))} has no order that {render(comparison)} could ask about"
            raise BindError(f"{message}; compare by = or !=", span=comparison.span)
        return replace(comparison, left=left, right=right, domain=domain)

    def _read_alike(self, comparison: Comparison) -> tuple[Expression, Expression]:
        """Return the sides of a comparison; attributes without a type as what they are compared with, else as numbers."""
        left, right = comparison.left, comparison.right
        if not self._is_dynamic(left) and not self._is_dynamic(right):
            return left, right
        kind = "text" if comparison.op in _EQUALITY else "number"
        if not (self._is_dynamic(left) and self._is_dynamic(right)):
            other = self._side(right if self._is_dynamic(left) else left, comparison)
            kind = _READ_AS.get(domain_of(other).kind, "text")
        return self._read_as(left, kind), self._read_as(right, kind)

    def _is_dynamic(self, tree: Expression) -> bool:
        if not isinstance(tree, syntax.AttributeValue) or tree.name == NOW or not self._knows(tree.name):
            return False
        return self._attribute(tree.name, tree.span).domain.kind == "dynamic"

    def _read_as(self, tree: Expression, kind: str) -> Expression:
        if isinstance(tree, syntax.AttributeValue) and self._is_dynamic(tree):
            return replace(tree, name=f"{self._attribute(tree.name, tree.span).name} as {kind}")
        return tree

    def _side(self, tree: Expression, comparison: Comparison) -> Expression:
        """Return one side of a comparison; a lone name that is not known may be a text without its quotes."""
        try:
            return self.value(tree)
        except BindError as error:
            if isinstance(tree, syntax.AttributeValue) and not self._knows(tree.name):
                message = f"{error.message}. Text goes in single quotes: '{tree.name}'"
                raise BindError(message, span=tree.span or comparison.span) from None
            raise

    def _call_as_condition(self, call: OperatorCall) -> OperatorCall:
        if call in self.calls:
            return replace(self.calls[call], span=call.span)
        function = self._function(call)
        if function is None:
            raise BindError(f"{call.name} is an operator; none can be called within a formula", span=call.span)
        arguments = self._arguments(call, function)
        if function.returns.kind != "boolean":
            message = f"{function.name} gives {said(function.returns)}, which is no condition; compare it"
            raise BindError(message, span=call.span)
        return replace(call, arguments=arguments, function=function)

    def _operator_call(self, call: OperatorCall) -> OperatorCall:
        """Return a call of an operator with canonical arguments, and learn the domains of its variables."""
        if self.scope.operators is None:
            raise BindError(f"there is no function {call.name} here", span=call.span)
        folded = replace(call, arguments=tuple(self._operator_argument(call, each) for each in call.arguments))
        bound = self.scope.operators.bind_call(folded, self.scope.attributes)
        self.operators[check_name(call.name)] = None
        for name, domain in self.scope.operators.variable_domains(bound).items():
            known = self.variables.get(name, domain)
            common = common_domain(known, domain)
            if common is None:
                raise BindError(
                    f"?{name} is {known.kind} elsewhere, and {domain.kind} in {render(call)}", span=call.span
                )
            self.variables[name] = common
        return bound

    def _operator_argument(self, call: OperatorCall, argument: Expression) -> Expression:
        if isinstance(argument, syntax.Variable):
            return argument
        value = fold(argument)
        if value is None:
            message = f"the arguments of {call.name} must be constants and variables; {render(argument)} is neither"
            if isinstance(argument, syntax.AttributeValue):
                message += f". Text goes in single quotes: '{argument.name}'"
            raise BindError(message, span=getattr(argument, "span", None) or call.span)
        return syntax.Constant(check_literal(value), span=getattr(argument, "span", None))

    # --- values -------------------------------------------------------------------------------------------------------

    def value(self, tree: Expression) -> Expression:
        """Return an expression with the domains of its parts."""
        constant = self._folded(tree)
        if constant is not None:
            return constant
        match tree:
            case syntax.AttributeValue(name) if name == NOW:
                return self._arrival(tree.span)
            case syntax.AttributeValue(name):
                attribute = self._attribute(name, tree.span)
                if attribute.domain.kind == "object":
                    message = f"{name} is an array of objects, which has no one value; ask about its elements: some {name} (…)"
                    raise BindError(message, span=tree.span)
                of_element = any(attribute.name.startswith(f"{array}.") for array in self.scope.arrays)
                if attribute.multiple and not self.scope.trusted and not of_element:
                    message = f"{name} may have several values, so it has no one value; ask about it: {name} contains …"
                    raise BindError(message, span=tree.span)
                if attribute.domain.kind == "dynamic":
                    raise BindError(f"{name} has no type of its own: {name} as number, as text, …", span=tree.span)
                return replace(tree, name=attribute.name, domain=attribute.domain)
            case syntax.Variable():
                return self._variable(tree)
            case syntax.Negative(part):
                bound = self.value(self._read_as(part, "number"))
                if domain_of(bound) == DURATION:
                    return replace(tree, part=bound, domain=DURATION)
                self._check_number(part, bound, "-")
                return replace(tree, part=bound, domain=plain_number(domain_of(bound)))
            case syntax.Arithmetic(op, left, right):
                self._check_hyphen(tree)
                first, second = self._computed_with(left, right)
                domain = arithmetic_domain(op, domain_of(first), domain_of(second))
                if domain is None:
                    for side, bound in ((left, first), (right, second)):
                        self._check_number(side, bound, op)
                    raise AssertionError(f"numbers that cannot be computed with: {render(tree)}")
                return replace(tree, left=first, right=second, domain=domain)
            case syntax.Case():
                return self._case(tree)
            case syntax.Call("now", ()):
                return self._arrival(tree.span)
            case syntax.Call("today", zone):
                return self.value(replace(tree, name="start_of_day", arguments=(syntax.AttributeValue(NOW), *zone)))
            case syntax.Call():
                function = self._function(tree)
                if function is None:
                    hint = did_you_mean(nearest(tree.name, NAMES | {"now", "today"}))
                    raise BindError(f"there is no function {self._called(tree)} here{hint}", span=tree.span)
                return replace(
                    tree, arguments=self._arguments(tree, function), function=function, domain=function.returns
                )
            case _:
                raise AssertionError(f"a constant that does not fold: {tree}")

    def _check_hyphen(self, tree: syntax.Arithmetic) -> None:
        """Raise where a difference was most likely meant as a name."""
        sides = [tree.left, tree.right]
        names = [each.name for each in sides if isinstance(each, syntax.AttributeValue)]
        name = "-".join(names)
        if tree.op == "-" and len(names) == 2 and self._knows(name) and not all(map(self._knows, names)):
            raise BindError(f'{name} has a hyphen; as a name it is written "{name}"', span=_place(tree))

    def _folded(self, tree: Expression) -> syntax.Constant | None:
        try:
            value = fold(tree)
        except LanguageError as error:
            raise BindError(f"{render(tree)} has no value: {error.message}", span=_place(tree)) from None
        if value is None:
            return None
        checked = value if isinstance(value, timedelta) else check_literal(value)
        return syntax.Constant(checked, _place(tree), domain_of_literal(checked))

    def _variable(self, variable: syntax.Variable) -> syntax.Variable:
        if self.scope.variables is None and self.scope.operators is None:
            raise BindError(f"?{variable.name} is a variable, and there are none here", span=variable.span)
        if variable.name not in self.variables:
            hint = did_you_mean(nearest(variable.name, self.variables))
            message = f"?{variable.name} has no value here{hint}"
            if self.scope.operators is not None:
                message = (
                    f"?{variable.name} has no value: it must be an argument of an operator, such as f(?{variable.name})"
                )
            raise BindError(message, span=variable.span)
        return replace(variable, domain=self.variables[variable.name])

    def _arrival(self, span: Span | None) -> Expression:
        if not (self.scope.has_arrival or self.scope.trusted):
            raise BindError(
                "there is no now() here: it is when an event arrived, and stands in subscriptions", span=span
            )
        return syntax.AttributeValue(NOW, span, TIME)

    def _computed_with(self, left: Expression, right: Expression) -> tuple[Expression, Expression]:
        """Return the sides of a sum or product; attributes without a type beside a time or a duration are times."""
        sides = [None if self._is_dynamic(side) else self.value(side) for side in (left, right)]
        kinds = {domain_of(side).kind for side in sides if side is not None}
        read = "time" if kinds & {"time", "duration"} else "number"
        first, second = (
            self.value(self._read_as(side, read)) if bound is None else bound
            for side, bound in zip((left, right), sides, strict=True)
        )
        return first, second

    def _check_number(self, tree: Expression, bound: Expression, op: str) -> None:
        if not is_numeric(domain_of(bound)):
            message = f"{render(tree)} is {said(domain_of(bound))}, and `{op}` takes numbers"
            if domain_of(bound).kind in ("time", "duration"):
                message += "; a time takes a duration: + 2 hours, and the difference of two times is one"
            raise BindError(message, span=_place(tree))

    def _case(self, tree: syntax.Case) -> syntax.Case:
        branches = tuple((self._when(when), self.value(then)) for when, then in tree.branches)
        otherwise = None if tree.otherwise is None else self.value(tree.otherwise)
        results = [then for _, then in branches] + ([] if otherwise is None else [otherwise])
        domain = domain_of(results[0])
        for result in results[1:]:
            common = common_domain(domain, domain_of(result))
            if common is None:
                message = f"this branch is {said(domain_of(result))}, and an earlier one is {said(domain)}"
                raise BindError(f"{message}; they must agree", span=_place(result))
            domain = common
        return replace(tree, branches=branches, otherwise=otherwise, domain=domain)

    def _when(self, node: Node) -> Node:
        """Return the condition of a case, which calls no operators: what they find belongs to the whole condition."""
        inner = _Binding(replace(self.scope, operators=None, variables=self.variables))
        return inner.condition(node)

    # --- names and functions ------------------------------------------------------------------------------------------

    def _knows(self, name: str) -> bool:
        return self._meant(name) in self.scope.attributes

    def _meant(self, name: str) -> str:
        """Return the name that a written one has in a bound tree."""
        for array in self.scope.arrays:
            if name.startswith(f"{array}.") and name in self.scope.attributes:
                return name
            inner = self.scope.aliases.get(f"{array}.{name}", f"{array}.{name}")
            if inner in self.scope.attributes:
                return inner
        return self.scope.aliases.get(name, name)

    def _attribute(self, name: str, span: Span | None) -> ViewAttribute:
        known = self._meant(name)
        found = self.scope.attributes.get(known)
        if found is None:
            unknown = self.scope.unknown or self._unknown
            raise BindError(unknown(name), span=span)
        return found if found.name == known else replace(found, name=known)

    def _unknown(self, name: str) -> str:
        hint = did_you_mean(nearest(name, [*self.scope.aliases, *self.scope.attributes]))
        return f"there is no attribute {name!r} here{hint}"

    def _function(self, call: syntax.Call | OperatorCall) -> Function | None:
        first = call.arguments[0].value if call.arguments and isinstance(call.arguments[0], syntax.Constant) else None
        found = self.scope.resolve(call.name, first)
        if found is not None or not isinstance(call, syntax.Call) or call.name not in NAMES:
            return found
        taken = [count for name, count in FUNCTIONS if name == call.name]
        count = len(call.arguments)
        return FUNCTIONS[call.name, count if count in taken else taken[0]]  # one of the wrong number is told so

    @staticmethod
    def _called(call: syntax.Call) -> str:
        first = call.arguments[0].value if call.arguments and isinstance(call.arguments[0], syntax.Constant) else None
        return f"{call.name}({shown(first)}, …)" if isinstance(first, str) else call.name

    def _arguments(self, call: syntax.Call | OperatorCall, function: Function) -> tuple[Expression, ...]:
        arguments = call.arguments[function.leading :]
        if len(arguments) != len(function.parameters):
            wanted = f"{len(function.parameters)} argument{'' if len(function.parameters) == 1 else 's'}"
            raise BindError(f"{function.name} takes {wanted}; here it has {len(arguments)}", span=call.span)
        pairs = zip(arguments, function.parameters, strict=True)
        bound = tuple(self._argument(call, written, parameter) for written, parameter in pairs)
        return (*call.arguments[: function.leading], *bound)

    def _argument(self, call: syntax.Call | OperatorCall, written: Expression, parameter: Domain) -> Expression:
        bound = self.value(self._read_as(written, _READ_AS.get(parameter.kind, "text")))
        found = domain_of(bound)
        fits = kind_of(found) == kind_of(parameter)
        if fits and is_numeric(parameter):
            fits = numeric_type(parameter) != "int" or numeric_type(found) == "int"
        if parameter is ZONE:
            if not isinstance(bound, syntax.Constant) or not isinstance(bound.value, str):
                raise BindError(f"the time zone of {call.name} is a text such as 'Europe/Berlin'", span=_place(written))
            with _shown_at(_place(written)):
                zone_of(bound.value)
        if not fits:
            message = f"{call.name} takes {said(parameter)} here; {render(written)} is {said(found)}"
            raise BindError(message, span=_place(written) or call.span)
        return bound


def _hyphens(comparison: Comparison) -> str:
    """Return advice where a difference of two names was most likely meant as one name."""
    for side in (comparison.left, comparison.right):
        if isinstance(side, syntax.Arithmetic) and side.op == "-":
            names = [each.name for each in (side.left, side.right) if isinstance(each, syntax.AttributeValue)]
            if len(names) == 2:
                return f'. A name with a hyphen is written in double quotes: "{"-".join(names)}"'
    return ""


def _adapted(side: Expression, other: Domain) -> Expression:
    """Return a constant text as a value of the domain that it is compared with, where it is one."""
    if (
        isinstance(side, syntax.Constant)
        and isinstance(side.value, str)
        and (is_text_like(other) or other.kind == "ip")
    ):
        try:
            return replace(side, value=other.admit(side.value), domain=other)  # type: ignore[arg-type]
        except BadValue:
            return side
    return side


def _place(tree: Expression) -> Span | None:
    """Return where an expression stood: from its first part with a place to its last."""
    spans = [span for part in _parts(tree) if (span := getattr(part, "span", None)) is not None]
    return Span(min(span.start for span in spans), max(span.end for span in spans)) if spans else None


def _parts(tree: Expression) -> list[Expression]:
    match tree:
        case syntax.Negative(part):
            return _parts(part)
        case syntax.Arithmetic(_, left, right):
            return _parts(left) + _parts(right)
        case _:
            return [tree]
