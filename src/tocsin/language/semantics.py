"""The definition of matching.

Everything else in Tocsin that answers "does this event satisfy this subscription?" is an optimisation of this module
and is tested against it. It is written to be read, not to be fast.

Conditions
  - An event binds each of its attributes to a non-empty set of values.
  - A predicate holds only if its attribute is bound. `!=` asks that no value equals; every other operator asks that
    some value satisfies. `is present` and `is absent` ask about binding itself. Of `all (…)` patterns each is satisfied by
    some value.
  - A comparison of two formulas holds only if both have a value; one side that has none makes it false, also where the
    other fails. A formula has none where something that it mentions is
    absent, or has several values, and where no branch of a case holds and there is no else.
  - `now()` is when the event arrived, a value of the event's like others; it has none where that was never said.
  - A call of an operator holds if the operator finds the values that its variables have.
  - A scope asks about the elements of an array of objects, one by one: `some items (…)` holds if the condition does for one
    of them, `every items (…)` if for each, `no items (…)` if for none. The array must be bound, and so have an element, also
    under `not`. For an element, its attributes have the values that it has, and are absent where it has none; all other
    names are what they are outside.
  - `and`, `or`, `not` are those of logic, with one rule: `not` of a leaf needs what the leaf mentions, too. So
    `not (price < 10)` needs a price. (Negation moves inwards: `not (p and q)` is `not p or not q`.)
  - A variable has the values that calls find, within its branch: the conjunction that it is part of, `or` taken outwards.
    A branch holds if it holds for some of them; the match tells which, up to a bound, unless a branch without variables
    holds. Under `not`, a variable
    without a value outside is local: the negation must hold for all values that calls find there.

Failures
  - A leaf may fail: an operator or a function raised or took too long, a number was divided by zero, a result is not
    finite. Then its negation fails too. In a conjunction what is false wins over what fails, in a disjunction what holds.
    An engine may know more: that a pair is false, where no values of what failed would make it hold.

Pairs
  - A subscription that names event types asks that the event has one of them.
  - An offer is an event with rules and computed attributes (offer.py). Its rules are conditions about the subscriber's
    properties and the event; its computed attributes are formulas about the same and one another, computed for each
    subscriber. A pair matches if all rules hold, all computed attributes can be computed (to a value, or to none), and
    the condition holds for the event with what was computed. What is false wins over what fails here as well, so no
    order of looking at things changes the answer. Operators see the event as it was published.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

from tocsin.errors import BadValue, FormulaFailed, shown
from tocsin.language.bind import BoundSubscription
from tocsin.language.formula import (
    NO_OPERATORS,
    Function,
    Operators,
    Substitution,
    ValueFormula,
    domain_of,
    is_numeric,
    numeric_type,
)
from tocsin.language.offer import Offer
from tocsin.language.sides import bound_in, variables_of
from tocsin.language.syntax import (
    And,
    Arithmetic,
    AttributeValue,
    Call,
    Case,
    Comparison,
    Constant,
    Expression,
    Negative,
    Node,
    Not,
    Op,
    OperatorCall,
    Or,
    Predicate,
    Quantifier,
    ScopeCondition,
    TextPatterns,
    Variable,
    Within,
    names_of,
)
from tocsin.language.text_patterns import in_network, is_like, matches, satisfies, words
from tocsin.language.units import METRES, MICROSECONDS, distance_metres, in_box, in_polygon
from tocsin.schema import (
    Domain,
    Element,
    EnumeratedDomain,
    Event,
    HierarchicalDomain,
    Number,
    TextDomain,
    TimeDomain,
    Value,
)
from tocsin.schema.domain import LARGEST_INTEGER, is_reasonable
from tocsin.schema.readings import ReadableValues, joined_values

Row = Mapping[str, tuple[Value, ...]]  # name -> values; a name that is not there is absent
Solutions = Callable[[OperatorCall], Sequence[Substitution]]  # raises FormulaFailed

MOST_BINDINGS = 100  # that a match tells
MOST_CHOICES = 100_000  # of values for the variables of a branch; more are a failure
DIVIDED_BY_ZERO = "division by zero"
TOO_LARGE = "the result is too large"
_ROUNDED = decimal.Context(prec=34)


# --- pairs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a pair.

    `refused_by` names the sides that are false: "subscriber", "offer". `failure` is set only where nobody refuses. Of a
    match, `bindings` are the values of variables that satisfy it, none where it holds without any; `computed` those of the offer's computed attributes
    (None where one is absent).
    """

    matched: bool
    refused_by: tuple[str, ...] = ()
    failure: str | None = None
    bindings: tuple[Substitution, ...] = ()
    computed: Mapping[str, Value | None] = field(default_factory=dict)


def evaluate(subscription: BoundSubscription, event: Event, operators: Operators = NO_OPERATORS) -> bool:
    """Return whether the event satisfies the subscription."""
    return decide(subscription, event, operators).matched


def decide(subscription: BoundSubscription, event: Event, operators: Operators = NO_OPERATORS) -> Verdict:
    """Return whether the event, or offer, and the subscription match; which side refuses, or what fails."""
    types = subscription.subscription.event_types
    if types and not set(types) & set(event.types):
        return Verdict(False, ("subscriber",))
    situation = situation_of(subscription, event, operators)
    rules = [rule.root for rule in event.rules] if isinstance(event, Offer) else []
    sides = [("offer", rule) for rule in rules] + [("subscriber", subscription.subscription.where)]
    refused: dict[str, None] = {}
    failures = list(situation.failed.values())
    found: list[Substitution] = []
    for side, condition in sides:
        try:
            found = satisfying(condition, situation)
        except FormulaFailed as error:
            failures.append(error)
        else:
            if not found:
                refused[side] = None
    values = {name: situation.row.get(name, (None,))[0] for name in computed_names(event)}
    if refused or failures:
        return Verdict(False, tuple(refused), None if refused else failures[0].reason, computed=values)
    return Verdict(True, bindings=() if {} in found else tuple(found), computed=values)


def computed_names(event: Event) -> tuple[str, ...]:
    """Return the names of an offer's computed attributes."""
    return tuple(each.name for each in event.computed) if isinstance(event, Offer) else ()


def situation_of(subscription: BoundSubscription, event: Event, operators: Operators = NO_OPERATORS) -> Situation:
    """Return what the subscription's condition is decided about: the event, the properties, and what is computed."""
    own = {name: (value,) for name, value in subscription.properties.items()}
    found = Situation(
        joined_values(event.values, own) if own else event.values, lambda call: operators.solutions(call, event)
    )
    for attribute in event.computed if isinstance(event, Offer) else ():  # each after those that it mentions
        try:
            for name in attribute.formula.names:
                if name in found.failed:
                    raise found.failed[name]
            value = attribute.value(value_of(attribute.formula.root, found))
        except FormulaFailed as error:
            found = replace(found, failed={**found.failed, attribute.name: error})
        else:
            if value is not None:
                found = replace(found, row=joined_values(found.row, {attribute.name: (value,)}))
    return found


# --- conditions -------------------------------------------------------------------------------------------------------


def _no_solutions(call: OperatorCall) -> Sequence[Substitution]:
    raise AssertionError(f"{call.name} is called where no operators are")


@dataclass(frozen=True, slots=True)
class Situation:
    """What a condition is decided about: the values of names, what operators find, and what could not be computed."""

    row: Row
    solutions: Solutions = _no_solutions
    failed: Mapping[str, FormulaFailed] = field(default_factory=dict)

    def given(self, values: Mapping[str, Value | None], failed: Mapping[str, FormulaFailed]) -> Situation:
        """Return the situation in which variables have these values; None: no value."""
        row = joined_values(self.row, {})
        row.update((f"?{name}", (value,)) for name, value in values.items() if value is not None)
        return replace(self, row=row, failed={**self.failed, **failed})

    def knows(self, name: str) -> bool:
        """Return whether a name has a value, or failed to get one."""
        return name in self.row or name in self.failed

    def within(self, array: str, element: Element) -> Situation:
        """Return the situation of one element of an array."""
        below = f"{array}."
        outside = {name: values for name, values in self.row.items() if not name.startswith(below)}
        row = {**outside, **element}
        if isinstance(self.row, ReadableValues):
            row = ReadableValues(row, self.row.attributes, tuple(name for name in self.row.given if name in row))
        return replace(self, row=row)

    def check(self, tree: Node | Expression) -> None:
        """Raise FormulaFailed where something that is mentioned could not be computed."""
        if self.failed:
            for name in names_of(tree):
                if name in self.failed:
                    raise self.failed[name]


def satisfying(node: Node, situation: Situation) -> list[Substitution]:
    """Return the values of variables for which a condition holds, in a fixed order, the first MOST_BINDINGS of them.

    One empty substitution where it holds without variables; none where it does not hold. Raises FormulaFailed where it
    holds for none and fails for some.
    """
    if not bound_in(node):
        return [{}] if holds(node, situation) else []
    found: dict[tuple[tuple[str, int, Any], ...], Substitution] = {}
    failure: FormulaFailed | None = None
    for branch in branches(node):
        for values, failed in choices(branch, situation):
            try:
                if holds(branch, situation.given(values, failed)):
                    told = {name: value for name, value in sorted(values.items()) if value is not None}
                    found[tuple((name, *_sortable(value)) for name, value in told.items())] = told
            except FormulaFailed as error:
                failure = failure or error
    if not found and failure is not None:
        raise failure
    return [found[key] for key in sorted(found)[:MOST_BINDINGS]]


def in_order(bindings: Iterable[Substitution]) -> tuple[Substitution, ...]:
    """Return bindings in the order in which `satisfying` tells them."""
    return tuple(sorted(bindings, key=lambda each: [(name, *_sortable(each[name])) for name in sorted(each)]))


def _sortable(value: Any) -> tuple[int, Any]:
    """Return a key by which values of one variable are put in order."""
    kinds = ((bool, 0), (int | float | Decimal, 1), (str, 2), (datetime, 3))
    return next((rank for kind, rank in kinds if isinstance(value, kind)), 4), value


def branches(node: Node) -> list[Node]:
    """Return the alternatives of a condition, `or` taken outwards as far as variables are concerned."""
    match node:
        case And(parts) if bound_in(node):
            return [And(chosen) for chosen in product(*map(branches, parts))]
        case Or(parts) if bound_in(node):
            return [branch for part in parts for branch in branches(part)]
        case _:
            return [node]


_Choice = tuple[dict[str, Value | None], dict[str, FormulaFailed]]


def choices(branch: Node, situation: Situation) -> Iterable[_Choice]:
    """Return every choice of a value for each variable of a branch, among those that calls find.

    A variable for which nothing is found has no value; one that a failing call would have found values for may fail.
    Where there are too many choices, all variables fail.
    """
    values: dict[str, dict[Value | None, None]] = {}
    failed: dict[str, FormulaFailed] = {}
    for call in _calls(branch):
        names = [name for name in variables_of(call) if not situation.knows(f"?{name}")]
        for name in names:
            values.setdefault(name, {})
        try:
            for solution in situation.solutions(call) if names else ():
                for name in names:
                    values[name][solution[name]] = None
        except FormulaFailed as error:
            failed.update((name, error) for name in names)
    listed: list[list[Value | FormulaFailed | None]] = []
    for name, found in values.items():
        listed.append([*(found or [None]), *([failed[name]] if name in failed else [])])
    if math.prod(map(len, listed)) > MOST_CHOICES:
        too_many = FormulaFailed(f"its variables have more than {MOST_CHOICES:,} combinations of values")
        return [_choice(dict.fromkeys(values, too_many))]
    return (_choice(dict(zip(values, chosen, strict=True))) for chosen in product(*listed))


def _choice(chosen: Mapping[str, Value | FormulaFailed | None]) -> _Choice:
    given = {name: value for name, value in chosen.items() if not isinstance(value, FormulaFailed)}
    return given, {f"?{name}": error for name, error in chosen.items() if isinstance(error, FormulaFailed)}


def _calls(branch: Node) -> list[OperatorCall]:
    """Return the calls that give variables their values: those outside of any `not`."""
    match branch:
        case And(parts) | Or(parts):
            return [call for part in parts for call in _calls(part)]
        case OperatorCall() if branch.function is None:
            return [branch]
        case _:
            return []


def holds(node: Node, situation: Situation, *, negated: bool = False) -> bool:
    """Return whether the node, or its negation, holds; raises FormulaFailed where that cannot be told."""
    match node:
        case And(parts) | Or(parts):
            each = [partial(holds, part, situation, negated=negated) for part in parts]
            return _joined(each, conjunction=isinstance(node, And) != negated)
        case Not(part):
            return _negation_holds(part, situation, negated=negated)
        case Predicate():
            situation.check(node)
            return predicate_holds(node, situation.row.get(node.attribute), negated=negated)
        case Comparison(left, op, right):
            sides = [_attempted(left, situation), _attempted(right, situation)]
            if None in sides:
                return False
            for side in sides:
                if isinstance(side, FormulaFailed):
                    raise side
            return compare(_domain(node), op, *sides) != negated
        case OperatorCall():
            return _call_holds(node, situation, negated=negated)
        case ScopeCondition(quantifier, array, part):
            situation.check(node)
            elements = situation.row.get(array)
            if elements is None:
                return False
            asked = [partial(holds, part, situation.within(array, element)) for element in elements]  # type: ignore[arg-type]
            held = _joined(asked, conjunction=quantifier is Quantifier.EVERY)
            return (held != (quantifier is Quantifier.NO)) != negated


def _attempted(side: Expression, situation: Situation) -> Any:
    """Return a value, None where it is absent, or why there is no telling."""
    try:
        situation.check(side)
        return value_of(side, situation)
    except FormulaFailed as error:
        return error


def _joined(parts: Iterable[Callable[[], bool]], *, conjunction: bool) -> bool:
    """Return the conjunction or disjunction of the parts; a part that decides wins over one that fails."""
    failure: FormulaFailed | None = None
    for part in parts:
        try:
            if part() != conjunction:
                return not conjunction
        except FormulaFailed as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return conjunction


def _negation_holds(part: Node, situation: Situation, *, negated: bool) -> bool:
    """Return whether `not part` holds: for all values of variables that are local to it."""
    if all(situation.knows(f"?{name}") for name in bound_in(part)):
        return holds(part, situation, negated=not negated)
    if negated:
        return bool(satisfying(part, situation))
    each = [
        partial(holds, branch, situation.given(*choice), negated=True)
        for branch in branches(part)
        for choice in choices(branch, situation)
    ]
    return _joined(each, conjunction=True)


def _call_holds(call: OperatorCall, situation: Situation, *, negated: bool) -> bool:
    if call.function is not None:
        situation.check(call)
        answer = invoke(call.function, [value_of(each, situation) for each in call.arguments[call.function.leading :]])
        return answer is not None and bool(answer) != negated
    given = {name: situation.row[f"?{name}"][0] for name in variables_of(call) if f"?{name}" in situation.row}
    found = situation.solutions(call)
    unknown = [error for name in variables_of(call) if (error := situation.failed.get(f"?{name}")) is not None]
    if unknown and any(given.items() <= each.items() for each in found):
        raise unknown[0]  # else it is false whatever the values are
    return (not unknown and given in found) != negated


def predicate_holds(predicate: Predicate, values: tuple[Value, ...] | None, *, negated: bool = False) -> bool:
    """Return whether these values of its attribute (None: it is not bound) satisfy a predicate, or its negation."""
    if predicate.op is Op.PRESENT or predicate.op is Op.ABSENT:
        return ((values is not None) == (predicate.op is Op.PRESENT)) != negated
    if values is None:
        return False
    domain = _domain(predicate)
    if predicate.op is Op.NE:
        satisfied = not any(_equal(domain, value, predicate.operand) for value in values)
    elif predicate.op is Op.CONTAINS_ALL:  # each member, not all in the same value
        satisfied = all(any(_contains(domain, value, member) for value in values) for member in predicate.operand)  # type: ignore[union-attr]
    elif isinstance(predicate.operand, TextPatterns) and predicate.operand.every:  # each, not all by the same value
        each = [replace(predicate.operand, texts=(text,), every=False) for text in predicate.operand.texts]
        satisfied = all(any(value_satisfies(domain, predicate.op, value, one) for value in values) for one in each)
    else:
        satisfied = any(value_satisfies(domain, predicate.op, value, predicate.operand) for value in values)
    return satisfied != negated


def _domain(bound: Predicate | Comparison) -> Domain:
    assert bound.domain is not None, "a leaf that was not bound"
    return bound.domain


# --- values -----------------------------------------------------------------------------------------------------------


def compute(formula: ValueFormula, row: Row) -> Value | None:
    """Return the formula's value for the row, None where it is absent; raises FormulaFailed."""
    return value_of(formula.root, Situation(row))


def value_of(tree: Expression, situation: Situation) -> Value | None:
    """Return an expression's value, None where it has none.

    Numbers are of their declared type: of an int domain exact integers, of a float domain floats (the nearest, for a value
    that is none), of a decimal domain decimals, computed exactly and then rounded to 34 digits. int / int is the nearest
    float. `%` has the sign of its right side. Comparisons are exact, whatever the types.
    """
    match tree:
        case Constant(value):
            return typed(value, domain_of(tree))
        case AttributeValue(name):
            return _one_value(situation.row.get(name), domain_of(tree))
        case Variable(name):
            return _one_value(situation.row.get(f"?{name}"), domain_of(tree))
        case Negative(part):
            inner = value_of(part, situation)
            return None if inner is None else arithmetic("-", 0, inner, domain_of(tree))
        case Arithmetic(op, left, right):
            a, b = value_of(left, situation), value_of(right, situation)
            return None if a is None or b is None else arithmetic(op, a, b, domain_of(tree))
        case Case(branches, otherwise):
            chosen = next((then for when, then in branches if holds(when, situation)), otherwise)
            found = None if chosen is None else value_of(chosen, situation)
            return None if found is None else typed(found, domain_of(tree))
        case Call(_, arguments, function=function):
            assert function is not None, "a call that was not bound"
            return invoke(function, [value_of(each, situation) for each in arguments[function.leading :]])


def _one_value(values: tuple[Value, ...] | None, domain: Domain) -> Value | None:
    return typed(values[0], domain) if values is not None and len(values) == 1 else None


def typed(value: Any, domain: Domain) -> Value:
    """Return the value in the form in which formulas compute with values of the domain; durations are microseconds."""
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if is_numeric(domain) and numeric_type(domain) == "float" and not isinstance(value, float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise FormulaFailed(TOO_LARGE)
        return number
    return value  # type: ignore[no-any-return]


def arithmetic(op: str, left: Any, right: Any, domain: Domain) -> Number | datetime:
    """Return left op right, a number of this numeric domain, or a time; raises FormulaFailed."""
    if isinstance(left, datetime) or isinstance(right, datetime):
        return _of_times(op, left, right)
    if op in "/%" and right == 0:
        raise FormulaFailed(DIVIDED_BY_ZERO)
    kind = numeric_type(domain)
    if kind == "decimal":
        return _rounded(_exact(op, Fraction(left), Fraction(right)))
    try:
        if kind == "float" and not (isinstance(left, int) and isinstance(right, int)):
            left, right = typed(left, domain), typed(right, domain)
        result: Number = _exact(op, left, right)
    except OverflowError:
        raise FormulaFailed(TOO_LARGE) from None
    if isinstance(result, float):
        fits = math.isfinite(result)
        result += 0.0  # no negative zero
    else:
        fits = abs(result) < LARGEST_INTEGER
    if not fits:
        raise FormulaFailed(TOO_LARGE)
    return result


def _of_times(op: str, left: Any, right: Any) -> int | datetime:
    """Return a time with a duration added or subtracted, or the duration between two times."""
    if isinstance(left, datetime) and isinstance(right, datetime):
        return (left - right) // timedelta(microseconds=1)
    instant, shift = (left, right) if isinstance(left, datetime) else (right, left)
    try:
        moved: datetime = instant + timedelta(microseconds=-shift if op == "-" else shift)
    except OverflowError:
        raise FormulaFailed(TOO_LARGE) from None
    return moved


def _exact(op: str, left: Any, right: Any) -> Any:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
        case _:
            return left % right


def _rounded(value: Fraction) -> Number:
    result = _ROUNDED.divide(Decimal(value.numerator), Decimal(value.denominator))
    if not is_reasonable(result):
        raise FormulaFailed(TOO_LARGE)
    return result


def invoke(function: Function, arguments: list[Value | None]) -> Value | None:
    """Return what the function says, None where an argument is absent; raises FormulaFailed."""
    given = [
        typed(value, domain) for value, domain in zip(arguments, function.parameters, strict=True) if value is not None
    ]
    if len(given) < len(arguments):
        return None
    return returned(function, function.scalar(*given))


def returned(function: Function, value: object) -> Value | None:
    """Return a function's result as a value of its domain; raises FormulaFailed where it is none."""
    if value is None:
        return None
    try:
        return typed(function.returns.admit(value), function.returns)
    except BadValue as error:
        raise FormulaFailed(f"{function.name} returned {shown(value)}, which is not {error.right}") from None


def compare(domain: Domain, op: Op, left: Value, right: Value) -> bool:
    """Return whether left op right."""
    if op is Op.NE:
        return not value_satisfies(domain, Op.EQ, left, right)
    return value_satisfies(domain, op, left, right)


# --- what each operator asks of one value -----------------------------------------------------------------------------


def value_satisfies(domain: Domain, op: Op, value: Value, operand: Any) -> bool:
    """Return whether one value satisfies an operator other than those that ask about all values of an attribute."""
    return _TESTS[op](domain, value, operand)


def _equal(domain: Domain, value: Value, operand: Any) -> bool:
    return domain.key(value) == domain.key(operand)


def _less(domain: Domain, a: Value, b: Value) -> bool:
    """Return whether a < b: below in a hierarchy, by the declared order in an enumeration, else by key."""
    match domain:
        case HierarchicalDomain():
            first, last = domain.intervals[b]  # type: ignore[index]
            return first < domain.intervals[a][0] <= last  # type: ignore[index]
        case EnumeratedDomain():
            return domain.key(b) in domain.above[domain.key(a)]
        case _:
            return domain.key(a) < domain.key(b)  # type: ignore[operator]


def _less_or_equal(domain: Domain, a: Value, b: Value) -> bool:
    return _equal(domain, a, b) or _less(domain, a, b)


def _contains(domain: Domain, value: Value, operand: Any) -> bool:
    """On text: all words of the operand occur, or its word pattern is satisfied. Elsewhere: the value is the operand."""
    if domain.kind != "text":
        return _equal(domain, value, operand)
    text_words = words(value)  # type: ignore[arg-type]
    if isinstance(operand, str):
        return set(words(operand)) <= set(text_words)
    return satisfies(text_words, operand)


def _within(domain: Domain, value: Value, operand: Within) -> bool:
    if isinstance(domain, TimeDomain):
        reach = operand.amount * MICROSECONDS[operand.unit]
        return abs(domain.key(value) - domain.key(operand.center)) <= reach
    return distance_metres(value, operand.center) <= float(operand.amount) * METRES[operand.unit]  # type: ignore[arg-type]


def _patterned(test: Callable[[str, str], bool]) -> Callable[[Domain, Value, Any], bool]:
    """Return the test of a text by one of several patterns, in the form in which the domain, or the predicate, compares."""

    def holds_for(domain: Domain, value: Value, operand: Any) -> bool:
        if not isinstance(operand, TextPatterns):
            return test(str(domain.key(value)), str(domain.key(operand)))
        text, patterns = str(domain.key(value)), [str(domain.key(each)) for each in operand.texts]
        if operand.ignoring_case:
            text, patterns = text.casefold(), [each.casefold() for each in patterns]
        return any(test(text, pattern) for pattern in patterns)

    return holds_for


def _matches(domain: Domain, value: Value, operand: Any) -> bool:
    folded = isinstance(domain, TextDomain) and domain.case == "folded"
    if not isinstance(operand, TextPatterns):
        return matches(str(value), operand, ignoring_case=folded)
    ignoring_case = folded or operand.ignoring_case
    return any(matches(str(value), text, ignoring_case=ignoring_case) for text in operand.texts)


def _in_network(_: Domain, value: Value, operand: Any) -> bool:
    texts = operand.texts if isinstance(operand, TextPatterns) else (operand,)
    return any(in_network(str(value), text) for text in texts)


_TESTS: dict[Op, Callable[[Domain, Value, Any], bool]] = {
    Op.EQ: _equal,
    Op.LT: _less,
    Op.LE: _less_or_equal,
    Op.GT: lambda domain, value, operand: _less(domain, operand, value),
    Op.GE: lambda domain, value, operand: _less_or_equal(domain, operand, value),
    Op.IN: lambda domain, value, operand: any(_equal(domain, value, member) for member in operand),
    Op.BETWEEN: lambda domain, value, operand: (
        _less_or_equal(domain, operand[0], value) and _less_or_equal(domain, value, operand[1])
    ),
    Op.CONTAINS: _contains,
    Op.CONTAINS_ANY: lambda domain, value, operand: any(_contains(domain, value, member) for member in operand),
    Op.KIND_OF: _less_or_equal,
    Op.STARTS_WITH: _patterned(str.startswith),
    Op.ENDS_WITH: _patterned(str.endswith),
    Op.CONTAINS_TEXT: _patterned(str.__contains__),
    Op.LIKE: _patterned(is_like),
    Op.MATCHES: _matches,
    Op.IN_NETWORK: _in_network,
    Op.WITHIN: _within,
    Op.IN_BOX: lambda _, value, operand: in_box(value, operand),  # type: ignore[arg-type]
    Op.IN_POLYGON: lambda _, value, operand: in_polygon(value, operand),  # type: ignore[arg-type]
}
