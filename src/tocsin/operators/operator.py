"""Operator: code that decides a predicate, with all that is known about it before it runs.

    @operator(cost=0.002, reads=("location",), outputs={"metres": float})
    def distanceFrom(event: Event, place: str) -> float:
        'How far the event is from a named place.'

A function takes the event and the inputs, and returns whether the predicate holds; with outputs, it returns their
values: one value or row, several in a list, or None for none. An input annotated `str | Open` may be given as a
variable too: the function then gets OPEN, and returns rows that begin with its value. registry.py holds operators,
runner.py calls them.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, overload

from tocsin.errors import BadDefinition
from tocsin.language.formula import BOOLEAN, DECIMAL, FLOAT, INT, POINT, TEXT, TIME
from tocsin.schema import Domain, Event, Point, Value

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
