"""Why an event, or offer, and a subscription match, or do not.

Follows semantics.py node by node, keeping what it found: each predicate with the actual values, each comparison with the
values of what it mentions, each call with what its operator found, and whether it held or failed; the offer's rules as
parts beside the subscriber's condition. For a match, variables have the first values that satisfy everything; for a miss,
those with which the fewest conditions would have to come out otherwise: these are its `changes`, the near miss. Operators
are asked once for each call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from itertools import islice

from tocsin.errors import FormulaFailed
from tocsin.language.bind import BoundSubscription
from tocsin.language.formula import NO_OPERATORS, Operators
from tocsin.language.offer import Offer
from tocsin.language.render import render
from tocsin.language.semantics import Situation, Verdict, branches, choices, decide, holds, satisfying, situation_of
from tocsin.language.sides import bound_in, variables_of
from tocsin.language.syntax import (
    And,
    Node,
    Not,
    Op,
    OperatorCall,
    Or,
    Predicate,
    Quantifier,
    ScopeCondition,
    names_of,
)
from tocsin.schema import EVENT_TYPE, Domain, Element, Event, Value, ViewAttribute, arrived
from tocsin.schema.shown import Shown, ShownTable

HIDDEN_RULE = "a rule of the offer"
_TRIED = 1_000  # choices of values among which the nearest miss is looked for
_TOLD = 100  # bindings of a call that JSON tells


@dataclass(frozen=True, slots=True)
class ExplainedNode:
    """A node of a condition, negation moved inwards, with what came of it.

    `condition` is the text of a leaf (with its `not`), or "and" / "or" for a node with parts. `actual` are the event's
    values of a predicate's attribute: None where it is not bound. Of comparisons, `values` are those of the names that
    they mention, `variables` those of variables; of calls, `found` is all that the operator found. `failure` says why
    there is no answer. `side` is "offer" for the rules of an offer. Of a scope, `element` is the number (from 1) of the element
    that decides, or comes nearest, and the one part is its outcome; it is None where all elements are alike.
    """

    condition: str
    held: bool
    attribute: str | None = None
    actual: tuple[Value, ...] | None = None
    parts: tuple[ExplainedNode, ...] = ()
    variables: Mapping[str, Value] | None = None
    found: tuple[Mapping[str, Value], ...] | None = None
    failure: str | None = None
    values: Mapping[str, Value] | None = None
    side: str | None = None
    element: int | None = None

    @property
    def note(self) -> str:
        """What there is to say about it beside whether it held: the values, what was found, or why it failed."""
        if self.failure is not None:
            return f"failed: {self.failure}"
        if self.found is not None:
            more = ", …" if len(self.found) > 5 else ""
            return f"found {'; '.join(map(_shown_variables, self.found[:5])) or 'nothing'}{more}"
        if self.element is not None and self.parts:
            return f"element {self.element}"
        if self.variables is not None or self.values is not None:
            told = [_shown_variables(self.variables)] if self.variables else []
            told += [f"{name} is {_shown_value(value)}" for name, value in (self.values or {}).items()]
            return ", ".join(told)
        return "" if self.attribute is None else f"{self.attribute} {_shown_values(self.actual)}"

    def __str__(self) -> str:
        mark = "✓" if self.held else "✗" if self.failure is None else "!"
        return f"{mark} {self.condition}   ({self.note})" if self.note else f"{mark} {self.condition}"

    def as_json(self) -> dict[str, object]:
        """Return the outcome as JSON has it."""
        if self.attribute is None:
            more: dict[str, object] = {"parts": [part.as_json() for part in self.parts]} if self.parts else {}
            if self.element is not None:
                more["element"] = self.element
            if self.variables is not None:
                more["variables"] = plain_values(self.variables)
            if self.found is not None:
                more["found"] = [plain_values(each) for each in self.found[:_TOLD]]
            if self.failure is not None:
                more["failure"] = self.failure
            if self.values is not None:
                more["values"] = plain_values(self.values)
            if self.side is not None:
                more["side"] = self.side
            return {"condition": self.condition, "held": self.held, **more}
        actual = None if self.actual is None else [plain_value(value) for value in self.actual]
        found = {"condition": self.condition, "held": self.held, "attribute": self.attribute, "actual": actual}
        return found if self.side is None else {**found, "side": self.side}


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Shown):
    """The answer for one pair, with its reasons.

    Of a match, `bindings` are the values of variables that satisfy it. `computed` are the values of an offer's computed
    attributes for this subscriber. `failure` says why there is no answer.
    """

    matched: bool
    root: ExplainedNode
    changes: tuple[ExplainedNode, ...]  # what would have to come out otherwise; empty for a match
    bindings: tuple[Mapping[str, Value], ...] = ()
    computed: Mapping[str, Value | None] = field(default_factory=dict)
    failure: str | None = None

    @classmethod
    def of(cls, root: ExplainedNode, verdict: Verdict | None = None) -> Explanation:
        """Return the explanation that an outcome is."""
        changes = () if root.held else _changes(root)
        if verdict is None:
            return cls(root.held, root, changes, failure=root.failure)
        return cls(verdict.matched, root, changes, verdict.bindings, verdict.computed, verdict.failure)

    def as_json(self) -> dict[str, object]:
        """Return the explanation as JSON has it."""
        more: dict[str, object] = {}
        if self.bindings:
            more["bindings"] = [plain_values(each) for each in self.bindings]
        if self.computed:
            more["computed"] = plain_values(self.computed)
        if self.failure is not None:
            more["failure"] = self.failure
        return {
            "matched": self.matched,
            "outcome": self.root.as_json(),
            "changes": [change.as_json() for change in self.changes],
            **more,
        }

    def as_table(self) -> ShownTable:
        rows = [
            (f"{'  ' * (depth - 1)}{str(one).partition('   (')[0]}", one.note or "")
            for depth, one in _walk(self.root, 1)
        ]
        rows += [(f"it would take: {one.condition}", one.note or "") for one in self.changes]
        return ShownTable(str(self).partition("\n")[0], ("condition", "the event"), rows)

    def __str__(self) -> str:
        lines = ["matches" if self.matched else "does not match"]
        if self.bindings:
            lines[0] += f", with {_shown_variables(self.bindings[0])}"
        if self.failure is not None:
            lines[0] += f": {self.failure}"
        lines += [
            f"computed: {name} {'is absent' if value is None else f'= {_shown_value(value)}'}"
            for name, value in self.computed.items()
        ]
        lines += [f"{'  ' * depth}{outcome}" for depth, outcome in _walk(self.root, 1)]
        if self.changes:
            lines.append("to match, it would take:")
            lines += [f"  {_wish(outcome)}" for outcome in self.changes]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)  # it is asked for to be read, at a prompt as well


def explain(
    subscription: BoundSubscription,
    event: Event,
    operators: Operators = NO_OPERATORS,
    *,
    reveal_rules: bool = True,
) -> Explanation:
    """Return whether the event, or offer, and the subscription match, and why.

    What the rules of an offer say is its publisher's: without `reveal_rules` only whether they held is told.
    """
    asked, event = _Remembered(operators), arrived(event)
    verdict = decide(subscription, event, asked)
    situation = situation_of(subscription, event, asked)
    types = (
        [_type_outcome(subscription.subscription.event_types, event)] if subscription.subscription.event_types else []
    )
    rules = [
        _rule_outcome(rule.root, situation, reveal=reveal_rules)
        for rule in (event.rules if isinstance(event, Offer) else ())
    ]
    failures = [
        ExplainedNode(f"{name} is computed", False, failure=error.reason, side="offer")
        for name, error in situation.failed.items()
    ]
    where = _best(subscription.subscription.where, situation, verdict)
    before = (*types, *rules, *failures)
    root = combined((*before, where), conjunction=True) if before else where
    return Explanation.of(root, verdict)


class _Remembered:
    """Operators that are asked once about each call and event."""

    def __init__(self, operators: Operators) -> None:
        self._operators = operators
        self._known: dict[OperatorCall, Sequence[Mapping[str, Value]] | FormulaFailed] = {}

    def bind_call(self, call: OperatorCall, attributes: Mapping[str, ViewAttribute]) -> OperatorCall:
        return self._operators.bind_call(call, attributes)

    def variable_domains(self, call: OperatorCall) -> Mapping[str, Domain]:
        return self._operators.variable_domains(call)

    def solutions(self, call: OperatorCall, event: Event) -> Sequence[Mapping[str, Value]]:
        if call not in self._known:
            try:
                self._known[call] = self._operators.solutions(call, event)
            except FormulaFailed as error:
                self._known[call] = error
        found = self._known[call]
        if isinstance(found, FormulaFailed):
            raise found
        return found


def _type_outcome(event_types: tuple[str, ...], event: Event) -> ExplainedNode:
    condition = render(Predicate(EVENT_TYPE, Op.IN, event_types))
    return ExplainedNode(condition, bool(set(event_types) & set(event.types)), EVENT_TYPE, event.types)


def _rule_outcome(rule: Node, situation: Situation, *, reveal: bool) -> ExplainedNode:
    try:
        held, failure = bool(satisfying(rule, situation)), None
    except FormulaFailed as error:
        held, failure = False, error.reason
    if not reveal:
        return ExplainedNode(
            HIDDEN_RULE, held, failure=None if failure is None else "it could not be decided", side="offer"
        )
    leaf = _leaf_outcome(rule, situation, negated=False)
    return replace(leaf, condition=f"the offer's rule {render(rule)}", held=held, failure=failure, side="offer")


def _best(where: Node, situation: Situation, verdict: Verdict) -> ExplainedNode:
    """Return the outcome of a condition for the values of variables with which it holds, or nearly does."""
    tried = (
        _outcome(where, situation.given(*choice), negated=False)
        for branch in branches(where)
        for choice in choices(branch, situation)
    )
    if verdict.bindings:
        return _outcome(where, situation.given(verdict.bindings[0], {}), negated=False)
    listed = list(islice(tried, _TRIED))
    return next((one for one in listed if one.held), None) or min(listed, key=lambda one: len(_changes(one)))


def _outcome(node: Node, situation: Situation, *, negated: bool) -> ExplainedNode:
    match node:
        case Not(part) if not bound_in(part) - {name[1:] for name in situation.row}:
            return _outcome(part, situation, negated=not negated)
        case And(parts) | Or(parts):
            outcomes = tuple(_outcome(part, situation, negated=negated) for part in parts)
            return combined(outcomes, conjunction=isinstance(node, And) != negated)
        case ScopeCondition():
            return _scope_outcome(node, situation, negated=negated)
        case _:
            return _leaf_outcome(node, situation, negated=negated)


def _scope_outcome(scope: ScopeCondition, situation: Situation, *, negated: bool) -> ExplainedNode:
    """Return the outcome of a scope with that of the element that decides it, else of the one that comes nearest."""
    whole = _leaf_outcome(scope, situation, negated=negated)
    elements = situation.row.get(scope.array)
    if elements is None:
        return replace(whole, attribute=scope.array, values=None)
    each = [_outcome(scope.part, situation.within(scope.array, one), negated=False) for one in elements]  # type: ignore[arg-type]
    wanted = scope.quantifier is not Quantifier.EVERY  # what one element is enough for
    deciding = [at for at, one in enumerate(each) if one.failure is not None or one.held == wanted]
    if deciding:
        at = deciding[0]
    elif wanted and not whole.held:
        at = min(range(len(each)), key=lambda at: len(_changes(each[at])))
    else:
        return whole
    return replace(whole, parts=(each[at],), element=at + 1, values=None)


def combined(parts: tuple[ExplainedNode, ...], *, conjunction: bool) -> ExplainedNode:
    """Return the outcome of a node with parts."""
    held = all(part.held for part in parts) if conjunction else any(part.held for part in parts)
    failures = [part.failure for part in parts if part.failure is not None]
    refused = any(not part.held and part.failure is None for part in parts)
    failure = failures[0] if failures and not held and not (conjunction and refused) else None
    return ExplainedNode("and" if conjunction else "or", held, parts=parts, failure=failure)


def _leaf_outcome(node: Node, situation: Situation, *, negated: bool) -> ExplainedNode:
    """Return the outcome of a node without parts, with the values of what it mentions."""
    failure = None
    try:
        held = holds(node, situation, negated=negated)
    except FormulaFailed as error:
        held, failure = False, error.reason
    text = render(Not(node) if negated else node)
    if isinstance(node, Predicate) and failure is None:
        return ExplainedNode(text, held, node.attribute, situation.row.get(node.attribute))
    row = situation.row
    names = dict.fromkeys(names_of(node))
    variables = {name[1:]: row[name][0] for name in names if name.startswith("?") and name in row}
    single = (name for name in names if not name.startswith("?") and len(row.get(name, ())) == 1)
    values = {name: row[name][0] for name in single if not isinstance(row[name][0], Element)}
    found = None
    if isinstance(node, OperatorCall) and node.function is None and failure is None and variables_of(node):
        found = tuple(situation.solutions(node))
    return ExplainedNode(text, held, variables=variables or None, found=found, failure=failure, values=values or None)


def _changes(outcome: ExplainedNode) -> tuple[ExplainedNode, ...]:
    """Return a smallest set of predicates whose change would make the outcome hold."""
    if outcome.held:
        return ()
    if outcome.condition == "and":
        return tuple(change for part in outcome.parts for change in _changes(part))
    if outcome.condition == "or" and outcome.parts:
        return min((_changes(part) for part in outcome.parts), key=len)
    return (outcome,)


def _walk(outcome: ExplainedNode, depth: int) -> Iterator[tuple[int, ExplainedNode]]:
    yield depth, outcome
    for part in outcome.parts:
        yield from _walk(part, depth + 1)


def _wish(outcome: ExplainedNode) -> str:
    if outcome.element is not None and (nearest := _changes(outcome.parts[0])):
        return f"{outcome.condition}; of element {outcome.element}, {' and '.join(map(_wish, nearest))}"
    return f"{outcome.condition}, where {outcome.note}" if outcome.attribute is not None else outcome.condition


def _shown_values(values: tuple[Value, ...] | None) -> str:
    if values is None:
        return "is absent"
    shown = ", ".join(map(_shown_value, values[:5])) + (", …" if len(values) > 5 else "")
    return f"is {shown}"


def _shown_variables(variables: Mapping[str, Value]) -> str:
    return ", ".join(f"?{name} = {_shown_value(value)}" for name, value in variables.items())


def plain_values(values: Mapping[str, Value | None]) -> dict[str, object]:
    """Return values by name as JSON has them."""
    return {name: None if value is None else plain_value(value) for name, value in values.items()}


def plain_value(value: Value) -> object:
    """Return a value as JSON has it."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Element):
        return {name: [plain_value(each) for each in values] for name, values in value.items()}
    return str(value) if isinstance(value, Decimal) else value


def _shown_value(value: Value) -> str:
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
