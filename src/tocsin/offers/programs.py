"""Programs: what computes attributes of offers and answers rules, registered by name and version.

    programs.register(Program("auto_price", 1, {"age": INT, "years_ncd": INT}, FLOAT,
                              expression="case when years_ncd > 7 then 900 else 1200 end"))

A formula calls it as program('auto_price', age, years_ncd). A program is an expression over its parameters, computed
for all rows at once, or a Python callable that the operator of a service installs. A callable is called once for each
distinct combination of arguments where it is pure, and once for each row where it is not; results of pure ones are
cached. A program sees its arguments and nothing else. What it raises, returns wrongly, or does not finish in its time
limit fails those rows only. Calls run beside one another (operators/foreign.py): in threads, or in an event loop where the
callable is a coroutine function; one that hangs or is out of reach again and again is left alone for a while.

Whole columns of computed values admitted by a domain, as `Domain.admit` does for one value.

The cache of program results (symmetric subscriptions, section 4.2.2).

An entry per program holds the program's signature and an invocation table: argument values -> result. An entry whose
signature is not the program's any more is let go. Both the entries and the invocations of each are bounded; what was
used least recently goes first. Only results of pure programs come here, failures of theirs among them.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tocsin.errors import BadDefinition, DuplicateName, FormulaFailed, UnknownName
from tocsin.language.bind import bind_value
from tocsin.language.formula import Function, Scope, ValueFormula, numeric_type
from tocsin.language.formula_columns import EXACT, Bools, ValueColumn, column_of, compare_constant
from tocsin.language.formula_vector import compute_column
from tocsin.language.semantics import compute, returned
from tocsin.language.syntax import Op
from tocsin.operators.foreign import Flight, ForeignCalls, LeftAlone, TookTooLong
from tocsin.schema import Domain, NumericDomain, Value

IN_FLIGHT = 16  # calls of a program at a time, for one who waits for them


def admit_column(column: ValueColumn, domain: Domain, admit: Callable[[Value], Value]) -> ValueColumn:
    """Return the column as one of the domain; `admit` admits one value, or raises FormulaFailed, which marks its row.

    Numbers that arrays hold are admitted as arrays; `admit` then only words what is wrong with the others.
    """
    plain = _plain(column, domain)
    if plain is None:
        return _one_by_one(column, domain, admit)
    admitted, wrong = plain
    wrong &= ~column.absent
    if not wrong.any():
        return admitted
    failed = np.zeros(len(column), np.int32) if column.failed is None else column.failed.copy()
    reasons = {reason: number for number, reason in enumerate(column.reasons, 1)}
    for at in np.flatnonzero(wrong).tolist():
        try:
            admit(column.value(at))
        except FormulaFailed as error:
            failed[at] = reasons.setdefault(error.reason, len(reasons) + 1)
    return replace(admitted, absent=admitted.absent | wrong, failed=failed, reasons=tuple(reasons))


def _plain(column: ValueColumn, domain: Domain) -> tuple[ValueColumn, Bools] | None:
    """Return the admitted column and the rows that are not in the domain; None where arrays cannot tell."""
    if not isinstance(domain, NumericDomain) or column.members is not None or numeric_type(domain) == "decimal":
        return None
    values = column.values
    if ((values > EXACT) | (values < -EXACT)).any():
        return None
    wrong = np.zeros(len(column), np.bool_)
    if domain.minimum is not None:
        wrong |= compare_constant(values, Op.LT, domain.minimum)
    if domain.maximum is not None:
        wrong |= compare_constant(values, Op.GT, domain.maximum)
    if domain.type == "int" and values.dtype == np.float64:
        with np.errstate(invalid="ignore"):  # of rows without a value, anything may stand there
            wrong |= values != np.floor(values)
            values = np.floor(values).astype(np.int64)
    elif domain.type == "float":
        values = values.astype(np.float64)
    return replace(column, domain=domain, values=values), wrong


def _one_by_one(column: ValueColumn, domain: Domain, admit: Callable[[Value], Value]) -> ValueColumn:
    failed = np.zeros(len(column), np.int32) if column.failed is None else column.failed.copy()
    reasons = {reason: number for number, reason in enumerate(column.reasons, 1)}
    known: dict[Value, Value | FormulaFailed] = {}
    listed = column.to_list()
    for at, value in enumerate(listed):
        if value is None:
            continue
        if value not in known:
            try:
                known[value] = admit(value)
            except FormulaFailed as error:
                known[value] = error
        found = known[value]
        if isinstance(found, FormulaFailed):
            failed[at] = reasons.setdefault(found.reason, len(reasons) + 1)
        listed[at] = None if isinstance(found, FormulaFailed) else found
    return replace(column_of(domain, listed), failed=failed, reasons=tuple(reasons))


# The cache of program results (symmetric subscriptions, section 4.2.2).


Arguments = tuple[Any, ...]
Result = Any  # a value, None, or the FormulaFailed that the program ended with
MISSING = object()


@dataclass(slots=True)
class _Entry:
    signature: object
    invocations: OrderedDict[Arguments, Result] = field(default_factory=OrderedDict)


class ProgramCache:
    """Results of programs, by program, signature and argument values. Safe to share among threads."""

    def __init__(self, programs: int = 64, invocations: int = 100_000) -> None:
        self.programs, self.invocations = programs, invocations
        self.hits = self.misses = self.evictions = self.invalidations = 0
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def look_up(self, program: str, signature: object, asked: list[Arguments]) -> list[Result]:
        """Return the result for each of the arguments, MISSING where it is not known."""
        with self._lock:
            entry = self._current(program, signature)
            if entry is None:
                self.misses += len(asked)
                return [MISSING] * len(asked)
            known = entry.invocations
            found = [known.get(arguments, MISSING) for arguments in asked]
            for arguments, result in zip(asked, found, strict=True):
                if result is MISSING:
                    self.misses += 1
                else:
                    self.hits += 1
                    known.move_to_end(arguments)
            return found

    def store(self, program: str, signature: object, results: list[tuple[Arguments, Result]]) -> None:
        """Keep results; those used least recently give way."""
        if not self.programs or not self.invocations:
            return
        with self._lock:
            entry = self._current(program, signature)
            if entry is None:
                entry = self._entries[program] = _Entry(signature)
                while len(self._entries) > self.programs:
                    self._entries.popitem(last=False)
                    self.evictions += 1
            for arguments, result in results:
                entry.invocations[arguments] = result
                entry.invocations.move_to_end(arguments)
                if len(entry.invocations) > self.invocations:
                    entry.invocations.popitem(last=False)
                    self.evictions += 1

    def _current(self, program: str, signature: object) -> _Entry | None:
        entry = self._entries.get(program)
        if entry is not None and entry.signature != signature:
            del self._entries[program]
            self.invalidations += 1
            return None
        if entry is not None:
            self._entries.move_to_end(program)
        return entry

    def invalidate(self, program: str) -> None:
        """Let go of what is known about a program."""
        with self._lock:
            if self._entries.pop(program, None) is not None:
                self.invalidations += 1

    @property
    def hit_rate(self) -> float:
        """The share of look-ups that found a result; 0 where there were none."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0

    def __len__(self) -> int:
        return sum(len(entry.invocations) for entry in self._entries.values())

    def stats(self) -> dict[str, float]:
        """Return the counters, for people and for metrics."""
        return {
            "programs": len(self._entries),
            "invocations": len(self),
            "hits": self.hits,
            "misses": self.misses,
            "hit_rate": self.hit_rate,
            "evictions": self.evictions,
            "invalidations": self.invalidations,
        }


# Programs.


CALL = "program"  # the function by which formulas call programs


class UnknownProgram(UnknownName):
    what = "program"


@dataclass(frozen=True)
class Program:
    """One version of a program: an expression over its parameters, or a callable."""

    name: str
    version: int
    parameters: Mapping[str, Domain]
    returns: Domain
    expression: str | None = None
    callable: Callable[..., Any] | None = None
    pure: bool = True
    time_limit_seconds: float = 1.0
    batch: int = (
        0  # the callable is given a list of so many arguments at most, and returns a list of results; 0: one at a time
    )

    def __post_init__(self) -> None:
        if (self.expression is None) == (self.callable is None):
            raise BadDefinition(f"program {self.name!r} needs an expression or a callable, and not both")
        if self.expression is not None:
            _ = self.formula  # a wrong expression is refused now

    @cached_property
    def formula(self) -> ValueFormula:
        assert self.expression is not None
        return bind_value(self.expression, Scope.of(self.parameters))

    @property
    def signature(self) -> object:
        """What a cached result belongs to: the version, the parameters, the result's domain and the code."""
        code = self.expression if self.expression is not None else id(self.callable)
        return self.version, tuple(self.parameters.items()), self.returns, code


class Programs:
    """The programs of a service, by name; the newest version of each counts."""

    def __init__(self, programs: Sequence[Program] = (), cache: ProgramCache | None = None) -> None:
        self.cache = ProgramCache() if cache is None else cache
        self.generation = 0  # one more with each change: what was bound before may be out of date
        self.take_long = False  # whether there are callables
        self.calls = 0  # of callables
        self.foreign = ForeignCalls()
        self._own = threading.local()  # the memo of each thread
        self._programs: dict[str, Program] = {}
        for program in programs:
            self.register(program)

    def register(self, program: Program) -> None:
        """Hold a program, in place of its older version; raises DuplicateName where the version is not newer."""
        old = self._programs.get(program.name)
        if old is not None and program.version <= old.version:
            raise DuplicateName(f"version {old.version} of program", program.name)
        self.replace(program)

    def replace(self, program: Program) -> None:
        """Hold a program in place of any other version of it, also a newer one."""
        self._programs[program.name] = program
        self.generation += 1
        self.take_long = any(one.callable for one in self)
        self.cache.invalidate(program.name)

    def remove(self, name: str) -> None:
        """Let go of a program."""
        del self._programs[self[name].name]
        self.generation += 1
        self.take_long = any(one.callable for one in self)
        self.cache.invalidate(name)

    def __getitem__(self, name: str) -> Program:
        try:
            return self._programs[name]
        except KeyError:
            raise UnknownProgram(name, self._programs) from None

    def __iter__(self) -> Any:
        return iter(self._programs.values())

    def resolve(self, name: str, first: object) -> Function | None:
        """Return the function that program('name', …) calls (a Resolver of formulas)."""
        program = self._programs.get(first) if name == CALL and isinstance(first, str) else None
        return None if program is None else self._function(program)

    def _function(self, program: Program) -> Function:
        parameters = tuple(program.parameters.values())
        made: list[Function] = []  # the function, for its own bulk form
        if program.expression is not None:

            def scalar(*values: Value) -> Value | None:
                return compute(program.formula, {n: (v,) for n, v in zip(program.parameters, values, strict=True)})

            def bulk(columns: Sequence[ValueColumn]) -> ValueColumn:
                return self._expression_bulk(program, made[0], columns)
        else:

            def scalar(*values: Value) -> Value | None:
                (result,) = self._answers(program, [values])
                if isinstance(result, FormulaFailed):
                    raise result
                return result  # type: ignore[no-any-return]

            def bulk(columns: Sequence[ValueColumn]) -> ValueColumn:
                return self._callable_bulk(program, made[0], columns)

        lasting = program.expression is not None
        made.append(Function(program.name, parameters, program.returns, scalar, bulk, leading=1, lasting=lasting))
        return made[0]

    def _expression_bulk(self, program: Program, function: Function, columns: Sequence[ValueColumn]) -> ValueColumn:
        size = len(columns[0]) if columns else 1
        found = compute_column(program.formula, dict(zip(program.parameters, columns, strict=True)), size)
        return admit_column(found, program.returns, lambda value: _returned(function, value))

    def _callable_bulk(self, program: Program, function: Function, columns: Sequence[ValueColumn]) -> ValueColumn:
        rows = list(zip(*(column.to_list() for column in columns), strict=True)) if columns else [()]
        asked = list(dict.fromkeys(rows)) if program.pure else rows
        answers = self._answers(program, asked)
        failed = np.zeros(len(rows), np.int32)
        reasons: dict[str, int] = {}
        values: list[Any] = []
        by_arguments = dict(zip(asked, answers, strict=True)) if program.pure else {}
        for at, row in enumerate(rows):
            try:
                answer = by_arguments[row] if program.pure else answers[at]
                if isinstance(answer, FormulaFailed):
                    raise answer
                values.append(returned(function, answer))
            except FormulaFailed as error:
                values.append(None)
                failed[at] = reasons.setdefault(error.reason, len(reasons) + 1)
        return replace(column_of(program.returns, values), failed=failed, reasons=tuple(reasons))

    def _answers(self, program: Program, asked: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return what a callable says for each of the arguments: as in the memo, from the cache, else by calling it."""
        memo: ProgramMemo | None = getattr(self._own, "memo", None)
        noted = [MISSING] * len(asked) if memo is None else [memo.recall(program, each) for each in asked]
        rest = [arguments for arguments, known in zip(asked, noted, strict=True) if known is MISSING]
        if not rest:
            return noted
        if program.pure:
            found = self.cache.look_up(program.name, program.signature, rest)
        else:
            found = [MISSING] * len(rest)
        missing = [arguments for arguments, known in zip(rest, found, strict=True) if known is MISSING]
        if missing and memo is not None and memo.closed:
            memo.missing = True
            fresh = iter([FormulaFailed(f"{program.name} was not asked yet")] * len(missing))
        else:
            answers = self._call(program, missing)
            if program.pure:
                kept = [pair for pair in zip(missing, answers, strict=True) if not isinstance(pair[1], TimedOut)]
                self.cache.store(program.name, program.signature, kept)
            fresh = iter(answers)
        answered = [next(fresh) if known is MISSING else known for known in found]
        if memo is not None and not memo.closed:
            for arguments, answer in zip(rest, answered, strict=True):
                memo.note(program, arguments, answer)
        told = iter(answered)
        return [next(told) if known is MISSING else known for known in noted]

    @contextmanager
    def remembering(self, memo: ProgramMemo) -> Iterator[ProgramMemo]:
        """Let what this thread asks of programs be noted in a memo; where it is closed, only what is there is told."""
        memo.begin()
        before = getattr(self._own, "memo", None)
        self._own.memo = memo
        try:
            yield memo
        finally:
            self._own.memo = before

    def _call(self, program: Program, asked: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the answers of a callable, or why there is none; it has its time limit for all of them together."""
        if not asked:
            return []
        callable_, limit = program.callable, program.time_limit_seconds
        assert callable_ is not None
        self.calls += len(asked)
        size = program.batch or 1
        batches = [range(at, min(at + size, len(asked))) for at in range(0, len(asked), size)]
        answers: list[Any] = [TimedOut(f"{program.name} took more than {limit:g} seconds")] * len(asked)
        flight, until, name = Flight(self.foreign), time.monotonic() + limit, f"program {program.name}"
        waiting = deque(batches)
        while waiting or len(flight):
            while waiting and len(flight) < IN_FLIGHT:
                places = waiting.popleft()
                given = ([asked[at] for at in places],) if program.batch else asked[places[0]]
                flight.start(places, name, callable_, given, timeout=limit)
            places, returned, _ = flight.wait(until)
            if isinstance(returned, TookTooLong) and time.monotonic() >= until:
                flight.leave()
                if all(isinstance(answer, TimedOut) for answer in answers):
                    self.foreign.breakers.failed(name)
                break
            for at, answer in zip(places, _each(program, returned, len(places)), strict=True):
                answers[at] = answer
        return answers


def _each(program: Program, returned: Any, size: int) -> list[Any]:
    """Return what a call says for each of the arguments that it was given."""
    if isinstance(returned, TookTooLong | LeftAlone):
        return [TimedOut(f"{program.name}: {returned}")] * size
    if isinstance(returned, FormulaFailed):
        return [returned] * size
    if isinstance(returned, BaseException):
        return [FormulaFailed(f"{program.name} raised {type(returned).__name__}: {returned}")] * size
    if not program.batch:
        return [returned]
    if not isinstance(returned, list) or len(returned) != size:
        return [FormulaFailed(f"{program.name} must answer with a list of {size} results")] * size
    return returned


class ProgramMemo:
    """What programs said while an event was looked at, so that it is not asked again when the event is matched.

    Impure programs may say something else each time: their answers are told in the order in which they came.
    """

    def __init__(self) -> None:
        self.closed = self.missing = False
        self._programs: dict[int, Program] = {}
        self._said: dict[tuple[Any, ...], list[Any]] = {}
        self._told: Counter[tuple[Any, ...]] = Counter()

    @classmethod
    def joined(cls, memos: Sequence[ProgramMemo], *, closed: bool) -> ProgramMemo:
        """Return what all of them know."""
        found = cls()
        found.closed = closed
        for memo in memos:
            found._programs |= memo._programs
            for key, said in memo._said.items():
                found._said.setdefault(key, []).extend(said)
        return found

    def begin(self) -> None:
        """Tell what is there from the start."""
        self._told.clear()
        self.missing = False

    def recall(self, program: Program, arguments: Arguments) -> Result:
        """Return what the program said, MISSING where it was not asked."""
        key = (id(program), *map(_typed, arguments))
        said = self._said.get(key)
        if said is None:
            return MISSING
        if program.pure:
            return said[0]
        self._told[key] += 1
        return said[self._told[key] - 1] if self._told[key] <= len(said) else MISSING

    def note(self, program: Program, arguments: Arguments, answer: Result) -> None:
        """Take note of what a program said."""
        self._programs[id(program)] = program  # so that nothing else gets its number
        self._said.setdefault((id(program), *map(_typed, arguments)), []).append(answer)


def _typed(value: Any) -> tuple[str, Any]:
    return type(value).__name__, value  # 1 is not true


class TimedOut(FormulaFailed):
    """A program did not answer in its time."""


def _returned(function: Function, value: Value) -> Value:
    found = returned(function, value)
    assert found is not None
    return found
