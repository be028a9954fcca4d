"""Runner: calls operators, here, in threads or in processes, and turns what comes of it into an CallResult.

The rule for failures: an operator that raises, takes longer than its time-out, or returns what its declaration does not
allow, has no answer for that event. The predicate does not hold then, and neither does its negation; the failure is
counted, and the last reason of each operator is kept. Nothing else of the event is affected.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from tocsin.errors import BadValue, shown
from tocsin.operators.calls import CallPattern, Slot
from tocsin.operators.operator import Operator, Row
from tocsin.schema import Event, Value

MAX_ROWS = 1_000  # bindings of one call; more is a failure, since they are joined with those of other calls


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
    last_failure: str | None = None


@dataclass
class Runner:
    """Calls operators; close it to let its threads and processes go."""

    counts: dict[str, Counts] = field(default_factory=dict)
    _processes: ProcessPoolExecutor | None = None
    _own: threading.local = field(default_factory=threading.local)  # the worker of each thread that calls
    _workers: list[_Worker] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, pattern: CallPattern, event: Event) -> CallResult:
        """Return what the operator finds for the event."""
        operator = pattern.operator
        started = time.perf_counter()
        try:
            returned = self._call(operator, operator.function, (event, *pattern.inputs), operator.timeout)
            outcome = CallResult(rows_of(pattern, returned))
        except Exception as error:  # noqa: BLE001 - whatever foreign code raises is its failure, counted and told
            outcome = CallResult(failure=_reason(operator, error))
        self._count(operator, [outcome], time.perf_counter() - started)
        return outcome

    def run_batch(self, pattern: CallPattern, events: Sequence[Event]) -> list[CallResult]:
        """Return what the operator finds for each event, asked about all of them at once."""
        operator = pattern.operator
        assert operator.evaluate_batch is not None
        started = time.perf_counter()
        limit = None if operator.timeout is None else operator.timeout * len(events)
        try:
            returned = self._call(operator, operator.evaluate_batch, (list(events), *pattern.inputs), limit)
            if len(returned) != len(events):
                raise ValueError(f"evaluate_batch returned {len(returned)} results for {len(events)} events")
            outcomes = [self._judged(pattern, each) for each in returned]
        except Exception as error:  # noqa: BLE001 - as above
            outcomes = [CallResult(failure=_reason(operator, error))] * len(events)
        self._count(operator, outcomes, time.perf_counter() - started, batch=True)
        return outcomes

    def close(self) -> None:
        """Let threads and processes go; threads that hang are left behind, and end with the process."""
        with self._lock:
            workers, self._workers = self._workers, []
        for worker in workers:
            worker.dismiss()
        self._own = threading.local()
        self._drop_processes()

    def __getstate__(self) -> dict[str, object]:
        """Pools stay behind: a copy in a Spark worker makes its own."""
        return {"counts": {}}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__()  # type: ignore[misc]

    # --- calling ------------------------------------------------------------------------------------------------------

    def _call(self, operator: Operator, function: Any, arguments: tuple[Any, ...], limit: float | None) -> Any:
        if operator.runs == "here":
            return function(*arguments)
        if operator.runs == "process":
            function = _Reference(function.__module__, function.__qualname__)
        submit = self._process_pool().submit if operator.runs == "process" else self._worker().submit
        future: Future[Any] = submit(function, *arguments)
        try:
            return future.result(limit)
        except FutureTimeout:
            if not future.done():
                self._leave_behind(operator)
                raise _TookTooLong(limit) from None
            raise
        except BrokenProcessPool:
            self._drop_processes()
            raise

    def _worker(self) -> _Worker:
        """Return the thread that runs operators for this one."""
        if getattr(self._own, "worker", None) is None:
            worker = self._own.worker = _Worker()
            with self._lock:
                self._workers.append(worker)
        found: _Worker = self._own.worker
        return found

    def _process_pool(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._processes is None:
                from multiprocessing import get_context

                self._processes = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
            return self._processes

    def _leave_behind(self, operator: Operator) -> None:
        """Make sure that what hangs does not keep later calls waiting: a process ends, a thread goes on by itself."""
        if operator.runs == "process":
            self._drop_processes()
            return
        worker, self._own.worker = self._own.worker, None
        worker.dismiss()
        with self._lock:
            self._workers.remove(worker)

    def _drop_processes(self) -> None:
        with self._lock:
            pool, self._processes = self._processes, None
        if pool is not None:
            workers = list((getattr(pool, "_processes", None) or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.terminate()

    def _judged(self, pattern: CallPattern, returned: object) -> CallResult:
        try:
            return CallResult(rows_of(pattern, returned))
        except (BadValue, TypeError, ValueError) as error:
            return CallResult(failure=_reason(pattern.operator, error))

    def _count(self, operator: Operator, outcomes: list[CallResult], seconds: float, *, batch: bool = False) -> None:
        with self._lock:
            counts = self.counts.setdefault(operator.name, Counts())
            counts.calls += len(outcomes)
            counts.batches += batch
            counts.seconds += seconds
            for outcome in outcomes:
                if outcome.failure is not None:
                    counts.failures += 1
                    counts.timeouts += outcome.failure.startswith(_LATE)
                    counts.last_failure = outcome.failure


class _Worker:
    """A thread that does one thing after the other. It ends with the process even while it hangs."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[tuple[Future[Any], Any, tuple[Any, ...]] | None] = SimpleQueue()
        threading.Thread(target=self._work, name="operator", daemon=True).start()

    def submit(self, function: Any, *arguments: Any) -> Future[Any]:
        """Return the future of calling the function."""
        future: Future[Any] = Future()
        self._waiting.put((future, function, arguments))
        return future

    def dismiss(self) -> None:
        """Let the thread end after what it does now."""
        self._waiting.put(None)

    def _work(self) -> None:
        while (given := self._waiting.get()) is not None:
            future, function, arguments = given
            try:
                future.set_result(function(*arguments))
            except BaseException as error:  # noqa: BLE001 - it is raised again where the result is asked for
                future.set_exception(error)


@dataclass(frozen=True, slots=True)
class _Reference:
    """A function by name, for another process: under its name, a module has the operator that it became."""

    module: str
    name: str

    def __call__(self, *arguments: object) -> object:
        import importlib

        found: Any = importlib.import_module(self.module)
        for part in self.name.split("."):
            found = getattr(found, part)
        return found(*arguments)


_LATE = "took longer than"


class _TookTooLong(Exception):
    def __init__(self, limit: float | None) -> None:
        super().__init__(f"{_LATE} {limit:g} s")


def _reason(operator: Operator, error: Exception) -> str:
    if isinstance(error, _TookTooLong):
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
