"""Registry: the operators that subscriptions may call, by name.

    registry = Registry([locIn, distanceFrom])      # operators made by the decorator
    registry = Registry.installed()                 # the built-in ones, and those that packages offer by entry points
    bound = registry.bind("camera where locIn('Bronx') and mobPattern(?p) and ?p > 50", schema)

A package offers operators in the entry point group `tocsin.operators`: an Operator, an iterable of them, or a function
without arguments that returns either. operator.py checks the calls of a subscription; questions.py has them run.

Registries by name: what a setting, an option or a worker of Spark says, and the registry that it stands for.

installed                       the built-in operators, and those that packages offer
operators.toml                  the same, with a settings file (builtin/settings.py)
package.module:function         what a function without arguments returns

Runner: calls operators, here or beside (foreign.py), and turns what comes of it into a CallResult.

The rule for failures: an operator that raises, takes longer than its time-out, or returns what its declaration does not
allow, has no answer for that event. The predicate does not hold then, and neither does its negation; the failure is
counted, and the last reason of each operator is kept. Nothing else of the event is affected.

What an operator that depends on nothing but what it `reads` has said is remembered, and not asked again.
"""

from __future__ import annotations

import importlib
import inspect
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from tocsin.errors import BadDefinition, BindError, FormulaFailed, NotSupported, UnknownOperator, shown
from tocsin.language import BoundSubscription, Subscription, bind
from tocsin.language.formula import Substitution
from tocsin.language.syntax import OperatorCall
from tocsin.operators.foreign import Flight, ForeignCalls, LeftAlone, TookTooLong
from tocsin.operators.operator import CallPattern, Operator, Row, Slot, bind_call, unify, variable_domains
from tocsin.schema import Domain, Event, Schema, Value, ViewAttribute

MAX_ROWS = 1_000  # bindings of one call; more is a failure, since they are joined with those of other calls
REMEMBERED = 10_000  # results across events
COSTLY_SECONDS = 0.002  # from which on it pays to run an operator beside others


@dataclass(frozen=True, slots=True)
class CallResult:
    """What came of calling an operator: the rows that it found, or why there are none to speak of."""

    rows: tuple[Row, ...] = ()
    failure: str | None = None


@dataclass
class Counts:
    """What one operator has done so far."""

    calls: int = 0
    batches: int = 0
    seconds: float = 0.0
    failures: int = 0
    timeouts: int = 0  # those of the failures that took too long
    left_alone: int = 0  # those of the failures for which it was not called: its circuit was open
    remembered: int = 0  # answers without a call
    last_failure: str | None = None


@dataclass
class Runner:
    """Calls operators; close it to let its threads and processes go."""

    counts: dict[str, Counts] = field(default_factory=dict)
    calls: ForeignCalls = field(default_factory=ForeignCalls)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _remembered: OrderedDict[Hashable, CallResult] = field(default_factory=OrderedDict)

    def run(self, pattern: CallPattern, event: Event) -> CallResult:
        """Return what the operator finds for the event."""
        known = self.recall(pattern, event)
        if known is not None:
            return known
        operator = pattern.operator
        started = time.perf_counter()
        returned = self._call(operator, operator.function, (event, *pattern.inputs), operator.timeout)
        return self.finish(pattern, event, returned, time.perf_counter() - started)

    def run_batch(self, pattern: CallPattern, events: Sequence[Event]) -> list[CallResult]:
        """Return what the operator finds for each event, asked about all of them at once."""
        operator = pattern.operator
        assert operator.evaluate_batch is not None
        started = time.perf_counter()
        limit = None if operator.timeout is None else operator.timeout * len(events)
        returned = self._call(operator, operator.evaluate_batch, (list(events), *pattern.inputs), limit)
        if not isinstance(returned, BaseException) and len(returned) != len(events):
            returned = ValueError(f"evaluate_batch returned {len(returned)} results for {len(events)} events")
        if isinstance(returned, BaseException):
            outcomes = [CallResult(failure=_reason(operator, returned))] * len(events)
        else:
            outcomes = [_judged(pattern, each) for each in returned]
        self._count(operator, outcomes, returned, time.perf_counter() - started, batch=True)
        return outcomes

    # --- beside -------------------------------------------------------------------------------------------------------

    def runs_beside(self, operator: Operator) -> bool:
        """Return whether calls of the operator are worth running beside others: by what it says, or by what they took."""
        if operator.runs in ("thread", "process") or inspect.iscoroutinefunction(operator.function):
            return True
        if operator.runs == "here":
            return False
        counts = self.counts.get(operator.name) or Counts()
        return (operator.cost + counts.seconds) / (1 + counts.calls) > COSTLY_SECONDS

    def start(self, flight: Flight, key: object, pattern: CallPattern, event: Event) -> None:
        """Start a call; `finish` makes a result of what the flight says about it."""
        operator = pattern.operator
        flight.start(
            key, operator.name, operator.function, (event, *pattern.inputs),
            timeout=operator.timeout, process=operator.runs == "process",
        )  # fmt: skip

    def finish(self, pattern: CallPattern, event: Event, returned: object, seconds: float) -> CallResult:
        """Return what a call comes to, which has returned or ended with an exception; it is counted, maybe remembered."""
        operator = pattern.operator
        if isinstance(returned, BaseException):
            outcome = CallResult(failure=_reason(operator, returned))
        else:
            outcome = _judged(pattern, returned)
        self._count(operator, [outcome], returned, seconds)
        if operator.remembers and not isinstance(returned, TookTooLong | LeftAlone | OSError):
            with self._lock:
                self._remembered[_memory_key(pattern, event)] = outcome
                if len(self._remembered) > REMEMBERED:
                    self._remembered.popitem(last=False)
        return outcome

    def recall(self, pattern: CallPattern, event: Event) -> CallResult | None:
        """Return what the operator said about the same before, None where it is to be asked."""
        if not pattern.operator.remembers:
            return None
        key = _memory_key(pattern, event)
        with self._lock:
            found = self._remembered.get(key)
            if found is not None:
                self._remembered.move_to_end(key)
                self.counts.setdefault(pattern.operator.name, Counts()).remembered += 1
        return found

    def close(self) -> None:
        """Let threads and processes go; threads that hang are left behind, and end with the process."""
        self.calls.close()

    def __getstate__(self) -> dict[str, object]:
        """Pools stay behind: a copy in a Spark worker makes its own."""
        return {"counts": {}}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__()  # type: ignore[misc]

    # --- calling ------------------------------------------------------------------------------------------------------

    def _call(self, operator: Operator, function: Any, arguments: tuple[Any, ...], limit: float | None) -> Any:
        """Return what a function returns, or the exception that it ends with."""
        if operator.runs in ("here", "auto") and not inspect.iscoroutinefunction(function):
            try:
                return function(*arguments)
            except Exception as error:  # noqa: BLE001 - whatever foreign code raises is its failure, counted and told
                return error
        flight = Flight(self.calls)
        flight.start(None, operator.name, function, arguments, timeout=limit, process=operator.runs == "process")
        return flight.wait()[1]

    def _count(
        self, operator: Operator, outcomes: list[CallResult], returned: object, seconds: float, *, batch: bool = False
    ) -> None:
        with self._lock:
            counts = self.counts.setdefault(operator.name, Counts())
            if isinstance(returned, LeftAlone):
                counts.left_alone += len(outcomes)
            else:
                counts.calls += len(outcomes)
                counts.batches += batch
                counts.seconds += seconds
            for outcome in outcomes:
                if outcome.failure is not None:
                    counts.failures += 1
                    counts.timeouts += isinstance(returned, TookTooLong)
                    counts.last_failure = outcome.failure


def _memory_key(pattern: CallPattern, event: Event) -> Hashable:
    read = tuple(event.values.get(entry.partition(":")[0]) for entry in pattern.operator.reads)
    return (
        pattern.operator,
        pattern.arguments,
        tuple(None if each is None else tuple(map(_typed, each)) for each in read),
    )


def _typed(value: Value) -> tuple[str, Value]:
    return type(value).__name__, value  # 1 is not true


def _judged(pattern: CallPattern, returned: object) -> CallResult:
    try:
        return CallResult(rows_of(pattern, returned))
    except Exception as error:  # noqa: BLE001 - what it returns is foreign code, too: iterators
        return CallResult(failure=_reason(pattern.operator, error))


def _reason(operator: Operator, error: BaseException) -> str:
    if isinstance(error, TookTooLong | LeftAlone):
        return str(error)
    return f"{operator.name} raised {type(error).__name__}: {error}"[:300]


# --- what operators return --------------------------------------------------------------------------------------------


def rows_of(pattern: CallPattern, returned: object) -> tuple[Row, ...]:
    """Return the rows that a function's result stands for, values canonical; raises TypeError, ValueError, BadValue.

    Without anything to find, true is one empty row. Otherwise None is no row, a list (or other iterable) has several,
    and anything else is one row, or its only value.
    """
    domains = _found_domains(pattern)
    if not domains:
        result = _plain(returned)
        if not isinstance(result, bool):
            raise TypeError(f"it must return true or false, not {shown(returned)}")
        return ((),) if result else ()
    if returned is None or (returned is False and domains[0].kind != "boolean"):
        return ()
    listed = [returned] if isinstance(returned, tuple | str) or not hasattr(returned, "__iter__") else list(returned)
    if len(listed) > MAX_ROWS:
        raise ValueError(f"it found {len(listed):,} bindings; at most {MAX_ROWS:,} are allowed")
    return tuple(dict.fromkeys(_row(domains, found) for found in listed))


def _found_domains(pattern: CallPattern) -> list[Any]:
    pairs = list(zip(pattern.operator.parameters, pattern.arguments, strict=True))
    opened = [entry.domain for entry, found in pairs if entry.role == "open" and isinstance(found, Slot)]
    return opened + [entry.domain for entry, _ in pairs if entry.role == "output"]


def _row(domains: list[Any], found: object) -> Row:
    single = len(domains) == 1 and not (isinstance(found, tuple) and len(found) == 1)
    values = (found,) if single or not isinstance(found, tuple) else found
    if len(values) != len(domains):
        raise TypeError(f"it must return rows of {len(domains)} values, not {shown(found)}")
    return tuple(_admitted(domain, value) for domain, value in zip(domains, values, strict=True))


def _admitted(domain: Any, value: object) -> Value:
    admitted: Value = domain.admit(_plain(value))
    return admitted


def _plain(value: object) -> object:
    """Return a NumPy scalar as the Python value that it is."""
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value


# --- The registry -----------------------------------------------------------------------------------------------------


GROUP = "tocsin.operators"


class Registry:
    """Operators by name. It is itself the `Operators` that binding and the definition ask (language/formula.py)."""

    def __init__(self, operators: Iterable[Operator] = ()) -> None:
        self._operators: dict[str, Operator] = {}
        self.runner = Runner()
        for entry in operators:
            self.add(entry)

    @classmethod
    def installed(cls, settings: Path | None = None) -> Registry:
        """Return the registry of the built-in operators, and of those that installed packages offer.

        Which built-in ones there are, and on what they work, a settings file may say (builtin/settings.py).
        """
        from tocsin.operators.builtin import builtin_operators
        from tocsin.operators.builtin.settings import configured_operators

        registry = cls(builtin_operators() if settings is None else configured_operators(settings))
        for point in entry_points(group=GROUP):
            for found in _offered(point.name, point.load()):
                registry.add(found)
        return registry

    def add(self, operator: Operator) -> None:
        """Take an operator; raises BadDefinition where there is one of its name."""
        if operator.name in self._operators:
            raise BadDefinition(f"there is an operator {operator.name!r} already")
        self._operators[operator.name] = operator

    def get(self, name: str) -> Operator:
        """Return the operator of that name; raises UnknownOperator."""
        found = self._operators.get(name)
        if found is None:
            raise UnknownOperator(name, self._operators)
        return found

    def __iter__(self) -> Iterator[Operator]:
        return iter(self._operators.values())

    def __len__(self) -> int:
        return len(self._operators)

    def __contains__(self, name: object) -> bool:
        return name in self._operators

    def bind(self, subscription: str | Subscription, schema: Schema) -> BoundSubscription:
        """Return the subscription bound to the schema and to these operators; raises LanguageError."""
        return bind(subscription, schema, operators=self)

    # --- what binding and the definition ask --------------------------------------------------------------------------

    def bind_call(self, call: OperatorCall, attributes: Mapping[str, ViewAttribute]) -> OperatorCall:
        """Return the call with canonical arguments; raises BindError."""
        try:
            operator = self.get(call.name)
        except UnknownOperator as error:
            raise BindError(str(error), span=call.span) from None
        return bind_call(call, operator, attributes)

    def variable_domains(self, call: OperatorCall) -> Mapping[str, Domain]:
        """Return the domain of each variable of a bound call."""
        return variable_domains(call, self.get(call.name))

    def solutions(self, call: OperatorCall, event: Event) -> Sequence[Substitution]:
        """Return every substitution of the call's variables for which it holds; raises FormulaFailed."""
        pattern, names = unify(call, self.get(call.name))
        outcome = self.runner.run(pattern, event)
        if outcome.failure is not None:
            raise FormulaFailed(outcome.failure)
        return [dict(zip(names, row, strict=True)) for row in pattern.solutions(outcome.rows)]


def _offered(name: str, found: object) -> list[Operator]:
    """Return the operators that an entry point leads to."""
    if callable(found) and not isinstance(found, Operator):
        found = found()
    listed = found if isinstance(found, Iterable) else [found]
    offered: list[Operator] = []
    for entry in listed:
        if not isinstance(entry, Operator):
            raise BadDefinition(
                f"the entry point {name!r} of {GROUP} leads to {type(entry).__name__}, not to operators"
            )
        offered.append(entry)
    return offered


# Registries by name.


INSTALLED = "installed"


def open_registry(given: Registry | str | Path | None) -> Registry:
    """Return the registry that is given or named; none is one without operators. Raises NotSupported, FileError."""
    if given is None:
        return Registry()
    if isinstance(given, Registry):
        return given
    if given == INSTALLED:
        return Registry.installed()
    module, colon, name = str(given).partition(":")
    if colon and not Path(given).exists() and not str(given).endswith(".toml"):
        return _made(str(given), module, name)
    return Registry.installed(Path(given))


def _made(reference: str, module: str, name: str) -> Registry:
    """Return what the function of that name makes."""
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise NotSupported(f"{reference!r} does not lead to a function that makes a registry: {error}") from None
    made = found()
    if not isinstance(made, Registry):
        raise NotSupported(f"{reference!r} returns {type(made).__name__}, not a Registry")
    return made
