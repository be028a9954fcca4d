"""Operator: code that decides a predicate, with all that is known about it before it runs.

    @operator(cost=0.002, reads=("location",), outputs={"metres": float})
    def distanceFrom(event: Event, place: str) -> float:
        'How far the event is from a named place.'

A function takes the event and the inputs, and returns whether the predicate holds; with outputs, it returns their
values: one value or row, several in a list, or None for none. An input annotated `str | Open` may be given as a
variable too: the function then gets OPEN, and returns rows that begin with its value. registry.py holds operators,
registry.py calls them.

Calls: an operator with its arguments, and when two of them are one evaluation (Liu et al., section 3).

Two calls unify where they agree but for the names of their variables: p(?x, ?y) is p(?a, ?b), but not p(?x, ?x). A
CallPattern is what unified calls have in common. From the values that an operator returned (registry.py), it picks the
solutions: rows in which repeated variables are equal, and outputs given as constants have that value.

Binding calls: each argument checked against the operator's declaration, when the subscription is made.

Constants become canonical values of their parameters; variables stand only where the operator can find their values; the
attributes that the operator reads must be attributes of the event types. registry.py offers it as the `Operators` of
language/formula.py, by which language/bind.py asks.

StoredCalls: operators as stored subscriptions call them, some of which may be gone.

A call of an operator that is not installed here, or no longer takes its arguments, is kept as it is, and fails: the
subscription matches nothing by it, and matches again where the operator is there.
"""

from __future__ import annotations

import inspect
import logging
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, overload

from tocsin.errors import BadArgument, BadDefinition, BadValue, BindError, FormulaFailed, Span
from tocsin.language.formula import BOOLEAN, DECIMAL, FLOAT, INT, POINT, TEXT, TIME, Operators, Substitution
from tocsin.language.sides import variables_of
from tocsin.language.syntax import Constant, OperatorCall, Variable
from tocsin.schema import Domain, Event, Point, Value, View, ViewAttribute

Runs = Literal["auto", "here", "thread", "process"]
Row = tuple[Value, ...]

_DOMAINS: dict[Any, Domain] = {
    bool: BOOLEAN,
    int: INT,
    float: FLOAT,
    Decimal: DECIMAL,
    str: TEXT,
    datetime: TIME,
    Point: POINT,
}


class Open(Enum):
    """Stands for an input that is given as a variable."""

    OPEN = "open"


OPEN = Open.OPEN


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of an operator.

    An `input` must be a constant; an `open` one may be a constant or a variable; an `output` is found by the operator,
    and a constant in its place asks whether that value is found.
    """

    name: str
    domain: Domain
    role: Literal["input", "open", "output"]


@dataclass(frozen=True, slots=True)
class Operator:
    """A predicate's code.

    `cost` is what one evaluation takes, in seconds, for schedules to begin with. After `timeout` seconds an evaluation
    counts as failed. A `pure` operator answers the same whenever it is asked about the same event, and changes
    nothing: only these may be evaluated ahead of need, in batches, and on Spark, which may run a task again. `reads`
    are the attributes of the event that it needs, with the kind of domain where it matters: "location:point". One that
    `remembers` depends on nothing else but its arguments, so that what it said holds for other events.

    It `runs` in a thread or a process, or here, in whichever thread needs it; "auto" is here until it turns out to take
    milliseconds, and beside others then. A coroutine function runs in an event loop.
    """

    name: str
    function: Callable[..., Any] = field(compare=False)
    parameters: tuple[Parameter, ...]
    cost: float = 0.001
    timeout: float | None = None
    pure: bool = True
    runs: Runs = "auto"
    reads: tuple[str, ...] = ()
    remembers: bool = False
    check: Callable[..., None] | None = field(default=None, compare=False)  # of the inputs, raises BadArgument
    evaluate_batch: Callable[..., Sequence[Any]] | None = field(default=None, compare=False)
    help: str = ""

    @property
    def signature(self) -> str:
        """How it is called: `distanceFrom(place: text, ?metres: float)`."""
        marks = {"input": "", "open": "[?]", "output": "?"}
        listed = (f"{marks[entry.role]}{entry.name}: {entry.domain.name}" for entry in self.parameters)
        return f"{self.name}({', '.join(listed)})"

    def as_document(self) -> dict[str, object]:
        """Return all that is declared of it, as JSON has it."""
        return {
            "name": self.name,
            "signature": self.signature,
            "parameters": [
                {"name": entry.name, "domain": entry.domain.name, "role": entry.role} for entry in self.parameters
            ],
            "reads": list(self.reads),
            "cost_seconds": self.cost,
            "timeout_seconds": self.timeout,
            "pure": self.pure,
            "runs": self.runs,
            "remembers": self.remembers,
            "batches": self.evaluate_batch is not None,
            "help": self.help,
        }

    def __call__(self, event: Event, *inputs: object) -> Any:
        """Return what the function returns."""
        return self.function(event, *inputs)


@overload
def operator(function: Callable[..., Any], /) -> Operator: ...


@overload
def operator(
    *,
    name: str | None = None,
    cost: float = 0.001,
    timeout: float | None = None,
    pure: bool = True,
    runs: Runs | None = None,
    reads: Sequence[str] = (),
    remembers: bool = False,
    outputs: Mapping[str, Any] | None = None,
    check: Callable[..., None] | None = None,
    evaluate_batch: Callable[..., Sequence[Any]] | None = None,
) -> Callable[[Callable[..., Any]], Operator]: ...


def operator(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    cost: float = 0.001,
    timeout: float | None = None,
    pure: bool = True,
    runs: Runs | None = None,
    reads: Sequence[str] = (),
    remembers: bool = False,
    outputs: Mapping[str, Any] | None = None,
    check: Callable[..., None] | None = None,
    evaluate_batch: Callable[..., Sequence[Any]] | None = None,
) -> Operator | Callable[[Callable[..., Any]], Operator]:
    """Return the operator that a function is; as a decorator, with or without arguments.

    `evaluate_batch(events, *inputs)` returns the results for many events at once. With a timeout an operator runs in a
    thread unless it says otherwise, since what runs in this one cannot be left behind.
    """

    def made(function: Callable[..., Any]) -> Operator:
        where = name or function.__name__
        if not (cost > 0 and (timeout is None or timeout > 0)):
            raise BadDefinition(f"operator {where}: cost and timeout are seconds, above zero")
        if runs == "process" and "<" in function.__qualname__:
            raise BadDefinition(
                f"operator {where}: to run in a process, its function must stand at the top of a module"
            )
        if remembers and not pure:
            raise BadDefinition(f"operator {where}: only what a pure one said can be remembered")
        if evaluate_batch is not None and not pure:
            raise BadDefinition(f"operator {where}: batches run ahead of need, so it must be pure to offer them")
        return Operator(
            name=where,
            function=function,
            parameters=(*_inputs(where, function), *_outputs(where, outputs or {})),
            cost=cost,
            timeout=timeout,
            pure=pure,
            runs=runs or ("auto" if timeout is None else "thread"),
            reads=tuple(reads),
            remembers=remembers,
            check=check,
            evaluate_batch=evaluate_batch,
            help=inspect.getdoc(function) or "",
        )

    return made if function is None else made(function)


def _inputs(name: str, function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters after the event, from the function's annotations."""
    try:
        hints = typing.get_type_hints(function)
    except NameError as error:
        raise BadDefinition(f"operator {name}: an annotation cannot be resolved: {error}") from None
    declared = list(inspect.signature(function).parameters.values())
    if not declared or any(entry.kind is not entry.POSITIONAL_OR_KEYWORD for entry in declared):
        raise BadDefinition(f"operator {name}: its function takes the event first, then each argument by name")
    return [_input(name, entry.name, hints.get(entry.name)) for entry in declared[1:]]


def _input(name: str, parameter: str, annotation: Any) -> Parameter:
    parts = set(typing.get_args(annotation)) if isinstance(annotation, types.UnionType) else {annotation}
    role: Literal["input", "open"] = "open" if Open in parts else "input"
    kinds = parts - {Open}
    return Parameter(parameter, _domain(name, parameter, kinds.pop() if len(kinds) == 1 else annotation), role)


def _outputs(name: str, outputs: Mapping[str, Any]) -> list[Parameter]:
    return [Parameter(output, _domain(name, output, kind), "output") for output, kind in outputs.items()]


def _domain(name: str, parameter: str, annotation: Any) -> Domain:
    if isinstance(annotation, Domain):
        return annotation
    try:
        return _DOMAINS[annotation]
    except (KeyError, TypeError):
        known = "str, int, float, Decimal, bool, datetime, Point"
        raise BadDefinition(
            f"operator {name}: annotate {parameter} with one of {known}, or with one of these | Open"
        ) from None


# --- Calls ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a variable; equal numbers, one variable."""

    number: int


Argument = Slot | tuple[str, Value]  # a constant is kept with its type: 1 is not true


@dataclass(frozen=True, slots=True)
class CallPattern:
    """A call, whatever its variables are called."""

    operator: Operator
    arguments: tuple[Argument, ...]

    @property
    def inputs(self) -> tuple[Value | Open, ...]:
        """What the operator's function is given; calls with the same inputs share one call of it."""
        pairs = zip(self.operator.parameters, self.arguments, strict=True)
        return tuple(_value(argument) for entry, argument in pairs if entry.role != "output")

    @property
    def input_key(self) -> tuple[object, ...]:
        pairs = zip(self.operator.parameters, self.arguments, strict=True)
        return (
            self.operator.name,
            *(OPEN if isinstance(found, Slot) else found for entry, found in pairs if entry.role != "output"),
        )

    @property
    def found(self) -> list[Argument]:
        """The arguments that the function finds: open inputs given as variables, then the outputs."""
        pairs = list(zip(self.operator.parameters, self.arguments, strict=True))
        opened = [found for entry, found in pairs if entry.role == "open" and isinstance(found, Slot)]
        return opened + [found for entry, found in pairs if entry.role == "output"]

    @property
    def slots(self) -> int:
        """How many different variables it has."""
        return 1 + max((entry.number for entry in self.arguments if isinstance(entry, Slot)), default=-1)

    def solutions(self, rows: Iterable[Row]) -> tuple[Row, ...]:
        """Return the different solutions among the rows that the operator found, each a value per slot."""
        return tuple(dict.fromkeys(found for row in rows if (found := self._solution(row)) is not None))

    def _solution(self, row: Row) -> Row | None:
        values: dict[int, Value] = {}
        for argument, value in zip(self.found, row, strict=True):
            if isinstance(argument, Slot):
                if values.setdefault(argument.number, value) != value:
                    return None
            elif argument[1] != value:
                return None
        return tuple(values[slot] for slot in range(len(values)))

    def __str__(self) -> str:
        return f"{self.operator.name}({', '.join(map(_shown, self.arguments))})"


def unify(call: OperatorCall, operator: Operator) -> tuple[CallPattern, tuple[str, ...]]:
    """Return the call's pattern, and the variables that stand in its slots."""
    slots: dict[str, Slot] = {}
    arguments: list[Argument] = []
    for argument in call.arguments:
        if isinstance(argument, Variable):
            arguments.append(slots.setdefault(argument.name, Slot(len(slots))))
        else:
            assert isinstance(argument, Constant), "bind folds other arguments"
            assert not isinstance(argument.value, timedelta), "bind takes no duration here"
            arguments.append((type(argument.value).__name__, argument.value))
    return CallPattern(operator, tuple(arguments)), tuple(slots)


def _value(argument: Argument) -> Value | Open:
    return OPEN if isinstance(argument, Slot) else argument[1]


def _shown(argument: Argument) -> str:
    if isinstance(argument, Slot):
        return f"?{argument.number}"
    return repr(argument[1]) if isinstance(argument[1], str) else str(argument[1])


# Binding calls.


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
        return replace(argument, value=entry.domain.admit(argument.value))  # type: ignore[arg-type]
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


# StoredCalls.


log = logging.getLogger("tocsin.operators")


class StoredCalls:
    """The `Operators` (language/formula.py) that stored subscriptions are bound to."""

    def __init__(self, operators: Operators) -> None:
        self._operators = operators
        self.missing: dict[str, str] = {}  # operators that are called but cannot be, and why

    def bind_call(self, call: OperatorCall, attributes: Mapping[str, ViewAttribute]) -> OperatorCall:
        """Return a stored call as it is used here; one that cannot be is kept, and fails."""
        try:
            return self._operators.bind_call(call, attributes)
        except BindError as error:
            if call.name not in self.missing:
                log.warning("subscriptions that call the operator %s fail: %s", call.name, error)
            self.missing[call.name] = str(error)
            return call

    def variable_domains(self, call: OperatorCall) -> Mapping[str, Domain]:
        """Return the domain of each variable of a call."""
        if call.name in self.missing:
            return dict.fromkeys(variables_of(call), FLOAT)
        return self._operators.variable_domains(call)

    def solutions(self, call: OperatorCall, event: Event) -> Sequence[Substitution]:
        """Return every substitution of the call's variables for which it holds; raises FormulaFailed."""
        if call.name in self.missing:
            raise FormulaFailed(self.missing[call.name])
        return self._operators.solutions(call, event)
