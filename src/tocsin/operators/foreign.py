"""Foreign code in flight: calls of operators and programs, in threads, processes or an event loop, several at a time.

Whoever needs answers starts calls in a `Flight` and waits for whichever comes first. Each has a deadline, from when it
begins. A thread that is past it is left behind, and only so many of one name are: beyond that nothing more is called under
that name until they return. Names have places of their own, so that what is slow keeps nobody but itself waiting.

Circuit breakers: a name that fails again and again is left alone for a while, then asked once whether it is back.

    closed      all is well, or there were fewer failures in a row than it takes
    open        nothing is called until a pause is over, which doubles as often as it was in vain
    half-open   the pause is over: one call goes; if it is answered, the circuit closes, else it opens for longer

A failure is a call past its deadline, a process that broke, or an error of the operating system (no connection). What code
raises for its arguments is an answer.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Generic, Literal, TypeVar

K = TypeVar("K", bound=Hashable)
Circuit = Literal["closed", "open", "half-open"]
FAILURES = 5  # in a row
PAUSE_SECONDS, LONGEST_PAUSE = 1.0, 60.0
THREADS = 64  # that run calls, besides those left behind
OF_NAME = 16  # calls of one name at a time
LEFT_BEHIND = 16  # threads of one name
WAITING = 10_000  # calls that wait for a place
TASKS = 256  # coroutines at a time
PROCESSES = 2
_IDLE_SECONDS = 5.0
_PATIENCE = 30.0  # seconds that a call waits for its place


@dataclass(slots=True)
class _Breaker:
    failures: int = 0
    opened: int = 0  # how often in a row
    until: float = 0.0
    probing: bool = False


class Breakers(Generic[K]):
    """The breakers of many, by name or number. Safe to share among threads."""

    def __init__(
        self,
        pause_seconds: float = PAUSE_SECONDS,
        longest_pause: float = LONGEST_PAUSE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pause, self._longest, self._clock = pause_seconds, longest_pause, clock
        self._lock = threading.RLock()
        self._breakers: dict[K, _Breaker] = {}  # of those whose last attempt failed

    def state(self, key: K) -> Circuit:
        """Return how a circuit stands."""
        breaker = self._breakers.get(key)
        if breaker is None or not breaker.opened:
            return "closed"
        return "open" if self._clock() < breaker.until else "half-open"

    def start(self, key: K) -> bool:
        """Return whether an attempt may be made now; in a half-open circuit only by the first who asks."""
        with self._lock:
            state, breaker = self.state(key), self._breakers.get(key)
            if breaker is None or state == "closed":
                return True
            if state == "open" or breaker.probing:
                return False
            breaker.probing = True
            return True

    def succeeded(self, key: K) -> None:
        """Close a circuit."""
        if key in self._breakers:
            with self._lock:
                self._breakers.pop(key, None)

    def failed(self, key: K) -> bool:
        """Count a failure; return whether the circuit is open by now."""
        with self._lock:
            breaker = self._breakers.setdefault(key, _Breaker())
            breaker.failures += 1
            if breaker.probing or (not breaker.opened and breaker.failures >= FAILURES):
                pause = min(self._pause * 2 ** min(breaker.opened, 20), self._longest)
                breaker.opened, breaker.until, breaker.probing = breaker.opened + 1, self._clock() + pause, False
            return breaker.opened > 0

    def ended(self, key: K) -> None:
        """Let another ask, where the one that was to had nothing to try."""
        with self._lock:
            if (breaker := self._breakers.get(key)) is not None:
                breaker.probing = False

    def resting(self) -> set[K]:
        """Return those of which nothing may be tried now."""
        with self._lock:
            return {key for key, one in self._breakers.items() if self.state(key) == "open" or one.probing}

    def seconds_to_next(self, most: float) -> float:
        """Return how long until one may be asked again."""
        with self._lock:
            now = self._clock()
            waits = [one.until - now for one in self._breakers.values() if one.opened and not one.probing]
        return min([most, *(max(0.0, wait) for wait in waits if wait > 0)])

    def forget(self, key: K) -> None:
        """Begin anew: whoever is behind it has been mended or removed."""
        with self._lock:
            self._breakers.pop(key, None)


# --- calls ------------------------------------------------------------------------------------------------------------


class TookTooLong(Exception):
    """A call was past its deadline."""

    def __init__(self, limit: float) -> None:
        super().__init__(f"took longer than {limit:g} s")


class LeftAlone(Exception):
    """Nothing was called: the name has failed too often of late, or hangs, or too many calls wait."""


@dataclass(eq=False, slots=True)
class _Call:
    """One call, for whoever waits at `done`."""

    key: Any
    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    timeout: float | None
    done: SimpleQueue[tuple[_Call, bool]]  # when it began (False), when it was over (True)
    process: bool = False
    began: float | None = None
    seconds: float = 0.0
    over: bool = False  # it has ended, or nobody waits for it any more
    is_behind: bool = False  # it hangs, and does not count as running
    given: float = field(default_factory=time.monotonic)
    outcome: Any = None  # a value, or the exception that it ended with


class Flight:
    """The calls that somebody waits for. Used by one thread."""

    def __init__(self, calls: ForeignCalls) -> None:
        self._calls = calls
        self._done: SimpleQueue[tuple[_Call, bool]] = SimpleQueue()
        self._open: dict[_Call, None] = {}
        self._at_once: deque[tuple[Any, Any, float]] = deque()

    def __len__(self) -> int:
        return len(self._open) + len(self._at_once)

    def start(
        self,
        key: object,
        name: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        *,
        timeout: float | None = None,
        process: bool = False,
    ) -> None:
        """Call a function, under the name that it fails by; `wait` tells what becomes of it, by the key."""
        call = _Call(key, name, function, arguments, timeout, self._done, process)
        refusal = self._calls.begin(call)
        if refusal is None:
            self._open[call] = None
        else:
            self._at_once.append((key, refusal, 0.0))

    def wait(self, until: float | None = None) -> tuple[Any, Any, float]:
        """Return the key of a call, what it returned, or the exception that it ended with, and the seconds it took.

        Past `until` (of time.monotonic) those that are open are given up, one after the other.
        """
        if self._at_once:
            return self._at_once.popleft()
        while True:
            call, deadline = self._soonest(until)
            try:
                found, over = self._done.get(
                    timeout=None if deadline is None else max(0.0, deadline - time.monotonic())
                )
            except Empty:
                if not self._calls.leave_behind(call):
                    continue  # it was over at the last moment
                self._open.pop(call)
                if call.began is None:
                    return call.key, LeftAlone(f"there was no place for a call of {call.name}"), 0.0
                return call.key, TookTooLong(call.timeout or 0.0), call.timeout or 0.0
            if over and found in self._open:
                self._open.pop(found)
                return found.key, found.outcome, found.seconds

    def _soonest(self, until: float | None) -> tuple[_Call, float | None]:
        found, soonest = next(iter(self._open)), until
        for call in self._open:
            if call.began is None:
                deadline = call.given + max(_PATIENCE, call.timeout or 0.0)
            elif call.timeout is not None and not call.process:
                deadline = call.began + call.timeout
            else:
                continue
            if soonest is None or deadline < soonest:
                found, soonest = call, deadline
        return found, soonest

    def leave(self) -> None:
        """Give up all that is open."""
        for call in self._open:
            self._calls.leave_behind(call)
        self._open.clear()
        self._at_once.clear()


class ForeignCalls:
    """Where calls run. Threads are made when they are needed, and end when they have nothing to do for a while."""

    def __init__(self, threads: int = THREADS, of_name: int = OF_NAME) -> None:
        self.breakers: Breakers[str] = Breakers()
        self.in_flight = self.most_in_flight = 0
        self._threads, self._of_name = threads, of_name
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[_Call]] = {}
        self._waits = 0
        self._running: dict[str, set[_Call]] = {}
        self._run_now = 0
        self._behind: Counter[str] = Counter()
        self._ready: SimpleQueue[_Call | None] = SimpleQueue()
        self._idle = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: Counter[str] = Counter()
        self._processes = _Processes()

    @property
    def left_behind(self) -> int:
        """How many threads run calls that nobody waits for any more."""
        with self._lock:
            return self._behind.total()

    def begin(self, call: _Call) -> LeftAlone | None:
        """Take a call; return why not."""
        if not self.breakers.start(call.name):
            return LeftAlone(f"{call.name} has failed {FAILURES} times in a row, and is left alone for a while")
        with self._lock:
            refusal = self._refusal(call)
            if refusal is None and not inspect.iscoroutinefunction(call.function):
                self._waiting.setdefault(call.name, deque()).append(call)
                self._waits += 1
                self._dispatch()
            elif refusal is None:
                self._tasks[call.name] += 1
        if refusal is not None:
            self.breakers.ended(call.name)
        elif inspect.iscoroutinefunction(call.function):
            asyncio.run_coroutine_threadsafe(self._await(call), self._event_loop())
        return refusal

    def _refusal(self, call: _Call) -> LeftAlone | None:
        if self._behind[call.name] >= LEFT_BEHIND:
            return LeftAlone(f"{LEFT_BEHIND} calls of {call.name} hang")
        if self._waits >= WAITING or self._tasks[call.name] >= TASKS:
            return LeftAlone(f"too many calls wait for {call.name}")
        return None

    def _dispatch(self) -> None:
        """Let calls run where there are places, one of each name in turn. To be called with the lock."""
        moved = True
        while moved and self._run_now < self._threads:
            moved = False
            for name in list(self._waiting):
                running = self._running.setdefault(name, set())
                if len(running) >= self._of_name:
                    self._reap(running)
                if len(running) >= self._of_name or self._run_now >= self._threads:
                    continue
                queue = self._waiting[name]
                call = queue.popleft()
                if not queue:
                    del self._waiting[name]
                self._waits -= 1
                running.add(call)
                self._run_now += 1
                moved = True
                if self._idle:
                    self._idle -= 1
                else:
                    threading.Thread(target=self._work, name="tocsin-call", daemon=True).start()
                self._ready.put(call)

    def _work(self) -> None:
        while True:
            try:
                call = self._ready.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._idle:
                        self._idle -= 1
                        return
                continue
            if call is None:
                return
            self._run(call)
            with self._lock:
                self._idle += 1

    def _run(self, call: _Call) -> None:
        with self._lock:
            if call.over:  # given up before it began
                self._leave(call)
                return
        self._begin(call)
        try:
            if call.process:
                outcome = self._processes.call(call.function, call.arguments, call.timeout)
            else:
                outcome = call.function(*call.arguments)
        except BaseException as error:  # noqa: BLE001 - whatever foreign code raises is its outcome
            outcome = error
        with self._lock:
            self.in_flight -= 1
            mine = not call.over
            call.over, call.outcome, call.seconds = True, outcome, time.monotonic() - (call.began or 0.0)
            if call.is_behind:
                self._behind[call.name] -= 1
            else:
                self._leave(call)
        if mine:
            self._judge(call)

    def _begin(self, call: _Call) -> None:
        with self._lock:
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            call.began = time.monotonic()
        call.done.put((call, False))

    def _leave(self, call: _Call) -> None:
        """Give up a place. To be called with the lock."""
        self._running[call.name].discard(call)
        self._run_now -= 1
        self._dispatch()

    def _reap(self, running: set[_Call]) -> None:
        """Leave behind what nobody waits for and has had its time. To be called with the lock."""
        for call in [call for call in running if call.over and _is_late(call)]:
            self._hang(call)

    def _hang(self, call: _Call) -> None:
        call.is_behind = True
        self._behind[call.name] += 1
        self._running[call.name].discard(call)
        self._run_now -= 1

    def _judge(self, call: _Call) -> None:
        """Tell the breaker, and who waits."""
        if isinstance(call.outcome, TookTooLong | OSError | BrokenProcessPool) and not _own(call.outcome):
            self.breakers.failed(call.name)
        else:
            self.breakers.succeeded(call.name)
        call.done.put((call, True))

    def leave_behind(self, call: _Call) -> bool:
        """Give up a call; return False where it is over. It has failed if it had its time."""
        with self._lock:
            if call.over:
                return False
            call.over = True
            late = _is_late(call)
            if call.began is None:
                self._forget_waiting(call)
            elif late and not inspect.iscoroutinefunction(call.function):
                self._hang(call)
                self._dispatch()
        if late:
            self.breakers.failed(call.name)
        else:
            self.breakers.ended(call.name)
        return True

    def _forget_waiting(self, call: _Call) -> None:
        queue = self._waiting.get(call.name)
        if queue is not None and call in queue:
            queue.remove(call)
            self._waits -= 1
            if not queue:
                del self._waiting[call.name]

    # --- coroutines ---------------------------------------------------------------------------------------------------

    async def _await(self, call: _Call) -> None:
        self._begin(call)
        try:
            outcome = await asyncio.wait_for(call.function(*call.arguments), call.timeout)
        except TimeoutError as error:
            outcome = TookTooLong(call.timeout) if call.timeout is not None else error
        except BaseException as error:  # noqa: BLE001 - as above
            outcome = error
        with self._lock:
            self.in_flight -= 1
            self._tasks[call.name] -= 1
            mine = not call.over
            call.over, call.outcome, call.seconds = True, outcome, time.monotonic() - (call.began or 0.0)
        if mine:
            self._judge(call)

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_serve, args=(self._loop,), name="tocsin-calls", daemon=True).start()
            return self._loop

    def close(self) -> None:
        """Let threads, processes and the loop go; what hangs is left behind, and ends with the process."""
        with self._lock:
            idle, self._idle = self._idle, 0
            loop, self._loop = self._loop, None
        for _ in range(idle):
            self._ready.put(None)
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
        self._processes.drop()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped; what is under way then is cancelled."""
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks))
    finally:
        loop.close()


def _is_late(call: _Call) -> bool:
    """Return whether a call has had its time, or nearly."""
    return call.began is not None and call.timeout is not None and time.monotonic() - call.began >= 0.9 * call.timeout


def _own(error: object) -> bool:
    """Return whether an error is one that code raises about its arguments, though it is the operating system's by type."""
    return isinstance(error, FileNotFoundError | PermissionError)


# --- processes --------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Processes:
    """Processes for calls, one call in each at a time; one that is past its deadline is ended."""

    _idle: list[ProcessPoolExecutor] = field(default_factory=list)
    _places: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(PROCESSES))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...], timeout: float | None) -> Any:
        """Return what a function of a module returns in another process."""
        reference = _Reference(function.__module__, function.__qualname__)
        with self._places:
            process = self._take(function.__module__)
            future = process.submit(reference, *arguments)
            try:
                found = future.result(timeout)
            except FutureTimeout:
                if future.done():  # the function's own
                    self._give_back(process)
                    raise
                _end(process)
                raise TookTooLong(timeout or 0.0) from None
            except BrokenProcessPool:
                _end(process)
                raise
            except BaseException:
                self._give_back(process)
                raise
            self._give_back(process)
            return found

    def _take(self, module: str) -> ProcessPoolExecutor:
        from multiprocessing import get_context

        with self._lock:
            if self._idle:
                return self._idle.pop()
        made = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        made.submit(_load, module).result()  # its start is not the call's time
        return made

    def _give_back(self, process: ProcessPoolExecutor) -> None:
        with self._lock:
            self._idle.append(process)

    def drop(self) -> None:
        """End the processes that do nothing."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            _end(process)


def _load(module: str) -> None:
    importlib.import_module(module)


def _end(pool: ProcessPoolExecutor) -> None:
    workers = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.terminate()


@dataclass(frozen=True, slots=True)
class _Reference:
    """A function by name, for another process: under its name, a module has the operator that it became."""

    module: str
    name: str

    def __call__(self, *arguments: object) -> object:
        found: Any = importlib.import_module(self.module)
        for part in self.name.split("."):
            found = getattr(found, part)
        return found(*arguments)
