"""What a client raises."""

from __future__ import annotations

from typing import Any

from tocsin.errors import TocsinError


class ServiceRefused(TocsinError):
    """The service refused a request; `problem` is its RFC 9457 document, `name` the last part of its type."""

    def __init__(self, status: int, problem: dict[str, Any], retry_after_seconds: float | None = None) -> None:
        self.status, self.problem = status, problem
        self.retry_after_seconds = retry_after_seconds
        self.name = str(problem.get("type", "")).rpartition("/")[2]
        super().__init__(f"{status} {problem.get('title', '')}: {problem.get('detail', '')}")


class ServiceUnreachable(TocsinError):
    """The service could not be reached, or the connection broke; what was asked may or may not have been done.

    Requests that can be repeated without harm were repeated before this is raised.
    """
