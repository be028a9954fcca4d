"""Taking turns: requests of many threads wait in one line, and those that can share a commit do.

A commit costs an fsync, whatever is in it. So the thread whose turn it is takes along all requests of its kind that
wait behind it, and commits once for all of them (group commit). Nobody waits for company: a lone request goes at once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from tocsin.errors import Overloaded, TocsinError

Request = TypeVar("Request")
Answer = TypeVar("Answer")
_MOST_TOGETHER = 1000


class Waiting(Generic[Request, Answer]):
    """A request in the line. Whoever runs it sets its answer or its error."""

    __slots__ = ("answer", "called", "done", "error", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.answer: Answer | None = None
        self.error: TocsinError | None = None
        self.done = False
        self.called = threading.Lock()  # released when it is done, or when it is its turn
        self.called.acquire()

    def result(self) -> Answer:
        """Return the answer, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.answer  # type: ignore[return-value]


Run = Callable[[Sequence[Waiting[Any, Any]]], None]


class Turns:
    """The line in front of the store. The first in it is the one whose turn it is, or will be next."""

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._line: deque[tuple[Run, Waiting[Any, Any]]] = deque()
        self._guard = threading.Lock()  # of the line, and of who is at the store
        self._busy = False

    def take(self, run: Callable[[Sequence[Waiting[Request, Answer]]], None], request: Request) -> Answer:
        """Return what `run` answers to the request, when its turn has come; raises Overloaded where the line is full.

        Requests with the same `run` that stand one behind the other are run together.
        """
        waiting: Waiting[Request, Answer] = Waiting(request)
        with self._guard:
            if len(self._line) >= self._most_waiting:
                raise Overloaded(f"{len(self._line)} requests wait for the store already; try again later")
            self._line.append((run, waiting))
            first = not self._busy
            self._busy = True
        if not first:
            waiting.called.acquire()  # by whoever did it for us, or was before us
        if not waiting.done:
            try:
                self._run_first()
            finally:
                self._call_next()
        return waiting.result()

    def _run_first(self) -> None:
        run, together = self._next()
        try:
            run(together)
        except TocsinError as error:
            for waiting in together:
                waiting.error = waiting.error or error
        except BaseException as error:
            wrapped = TocsinError(f"the turn was broken off: {error!r}")
            for waiting in together:
                waiting.error = waiting.error or wrapped
            raise
        finally:
            for waiting in together:
                waiting.done = True
                waiting.called.release()

    def _next(self) -> tuple[Run, list[Waiting[Any, Any]]]:
        with self._guard:
            run, first = self._line.popleft()
            together = [first]
            while self._line and self._line[0][0] == run and len(together) < _MOST_TOGETHER:
                together.append(self._line.popleft()[1])
        return run, together

    def _call_next(self) -> None:
        """Give the turn to the first in the line."""
        with self._guard:
            if self._line:
                self._line[0][1].called.release()
            else:
                self._busy = False
