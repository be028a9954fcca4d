"""Group commit: requests wait in one queue, and those that can share a commit do.

A commit costs an fsync, whatever is in it. So whoever is first takes along all requests of its kind that wait behind it,
and commits once for all of them. Nobody waits for company: a lone request goes at once.

Threads (`call`) run their own batch when they are first. Coroutines (`submit`) have no thread to give: a thread of the
queue runs theirs, and goes on as long as it finds only theirs.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from tocsin.errors import Overloaded, TocsinError

Request = TypeVar("Request")
Answer = TypeVar("Answer")
log = logging.getLogger("tocsin.broker")
_MOST_TOGETHER = 1000


class Pending(Generic[Request, Answer]):
    """A request in the queue. Whoever runs it sets its answer or its error."""

    __slots__ = ("answer", "done", "error", "future", "request", "woken")

    def __init__(self, request: Request, future: asyncio.Future[Answer] | None = None) -> None:
        self.request = request
        self.future = future  # of a coroutine that waits for it
        self.answer: Answer | None = None
        self.error: TocsinError | None = None
        self.done = False
        self.woken: threading.Lock | None = None  # of a thread that waits: released when it is done, or the first

    def result(self) -> Answer:
        """Return the answer, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.answer  # type: ignore[return-value]

    def resolve(self) -> None:
        """Give the coroutine its answer; called in its loop."""
        if self.future is None or self.future.cancelled():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.answer)  # type: ignore[arg-type]


Run = Callable[[Sequence[Pending[Any, Any]]], None]


class GroupCommit:
    """The queue in front of the store. The first in it is the one that is run, or will be next."""

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._queue: deque[tuple[Run, Pending[Any, Any]]] = deque()
        self._guard = threading.Lock()  # of the queue, and of whether somebody runs
        self._busy = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tocsin-commit")  # started when it is needed

    def close(self) -> None:
        """Wait for what coroutines have submitted."""
        self._thread.shutdown()

    def call(self, run: Callable[[Sequence[Pending[Request, Answer]]], None], request: Request) -> Answer:
        """Return what `run` answers to the request; raises Overloaded where the queue is full.

        Requests with the same `run` that stand one behind the other are run together.
        """
        pending: Pending[Request, Answer] = Pending(request)
        pending.woken = threading.Lock()
        pending.woken.acquire()
        if not self._is_first(run, pending):
            pending.woken.acquire()  # by whoever did it for us, or was before us
        if not pending.done:
            try:
                self._run_first()
            finally:
                self._pass_on()
        return pending.result()

    def submit(
        self, run: Callable[[Sequence[Pending[Request, Answer]]], None], request: Request
    ) -> asyncio.Future[Answer]:
        """Return a future of the running event loop for what `run` answers; as `call`."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if self._is_first(run, Pending(request, future)):
            self._thread.submit(self._run_submitted)
        return future

    def _is_first(self, run: Run, pending: Pending[Any, Any]) -> bool:
        """Put a request into the queue; return whether nobody is at the store, so that it is run now."""
        with self._guard:
            if len(self._queue) >= self._most_waiting:
                raise Overloaded(f"{len(self._queue)} requests wait for the store already; try again later")
            self._queue.append((run, pending))
            first = not self._busy
            self._busy = True
        return first

    def _run_first(self) -> None:
        run, together = self._next()
        try:
            run(together)
        except TocsinError as error:
            for pending in together:
                pending.error = pending.error or error
        except BaseException as error:
            wrapped = TocsinError(f"the commit was broken off: {error!r}")
            for pending in together:
                pending.error = pending.error or wrapped
            raise
        finally:
            _wake(together)

    def _next(self) -> tuple[Run, list[Pending[Any, Any]]]:
        with self._guard:
            run, first = self._queue.popleft()
            together = [first]
            while self._queue and self._queue[0][0] == run and len(together) < _MOST_TOGETHER:
                together.append(self._queue.popleft()[1])
        return run, together

    def _pass_on(self) -> None:
        """Let the first in the queue be run, by its thread or by ours."""
        with self._guard:
            first = self._queue[0][1] if self._queue else None
            self._busy = first is not None
        if first is None:
            return
        if first.woken is not None:
            first.woken.release()
        else:
            self._thread.submit(self._run_submitted)

    def _run_submitted(self) -> None:
        """Run what coroutines wait for, until a thread is first or nobody is."""
        while True:
            try:
                self._run_first()
            except Exception:  # those who wait have it as their error
                log.exception("a commit was broken off")
            with self._guard:
                if self._queue and self._queue[0][1].woken is None:
                    continue
            self._pass_on()
            return


def _wake(together: Sequence[Pending[Any, Any]]) -> None:
    """Tell those who wait that their requests are done; a loop is told once of all its own."""
    loops: dict[asyncio.AbstractEventLoop, list[Pending[Any, Any]]] = {}
    for pending in together:
        pending.done = True
        if pending.woken is not None:
            pending.woken.release()
        elif pending.future is not None:
            loops.setdefault(pending.future.get_loop(), []).append(pending)
    for loop, mine in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, mine)


def _resolve(together: Sequence[Pending[Any, Any]]) -> None:
    for pending in together:
        pending.resolve()
