"""What is wrong with a request: the statuses, codes and lines of the errors in a reply."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tocsin.errors import (
    AttributeInType,
    BrokerError,
    DuplicateName,
    EventRejected,
    FileError,
    IdempotencyConflict,
    LanguageError,
    LimitExceeded,
    MatchError,
    QuotaExceeded,
    SchemaError,
    StoreError,
    TocsinError,
    UnknownName,
)

MOST_SHOWN = 100  # problems in one reply


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where."""

    code: str
    message: str
    line: int | None = None
    attribute: str | None = None


class XmlRefused(TocsinError):
    """A request is refused: nothing of it was done. `problems` are all that is wrong with it."""

    def __init__(self, status: int, problems: Iterable[Problem], *, retry_after_seconds: float | None = None) -> None:
        self.status, self.problems, self.retry_after_seconds = status, tuple(problems), retry_after_seconds
        super().__init__("; ".join(problem.message for problem in self.problems))

    @property
    def shown(self) -> tuple[Problem, ...]:
        """The problems, of very many only the first."""
        more = len(self.problems) - MOST_SHOWN
        last = (Problem("more", f"and {more} more"),) if more > 0 else ()
        return (*self.problems[:MOST_SHOWN], *last)


def refused(status: int, code: str, message: str, *, line: int | None = None) -> XmlRefused:
    """Return the refusal for one problem."""
    return XmlRefused(status, [Problem(code, message, line)])


# The first class that fits decides.
_KINDS: tuple[tuple[type[TocsinError], int, str], ...] = (
    (FileError, 400, "malformed"),
    (DuplicateName, 409, "exists"),
    (AttributeInType, 409, "exists"),
    (UnknownName, 422, "unknown"),
    (SchemaError, 422, "invalid"),
    (LanguageError, 422, "predicate"),
    (MatchError, 422, "predicate"),
    (IdempotencyConflict, 409, "idempotency"),
    (QuotaExceeded, 429, "quota"),
    (LimitExceeded, 503, "overloaded"),
    (BrokerError, 422, "invalid"),
    (StoreError, 503, "store"),
    (TocsinError, 422, "invalid"),
)
_LINE = re.compile(r"line (\d+): ")


def problem_of(error: TocsinError, line: int | None = None) -> Problem:
    """Return an error as a problem; `line` is where it belongs, unless its message knows better."""
    message = error.message if isinstance(error, FileError | LanguageError) else str(error)
    if isinstance(error, FileError):
        line = error.line or line
    elif found := _LINE.match(message):
        line, message = int(found[1]), message[found.end() :]
    return Problem(_kind(error)[1], message, line)


def refusal_of(error: TocsinError, problems: Iterable[Problem] = ()) -> XmlRefused:
    """Return an error as a refusal; `problems` are the parts of it, where they are known."""
    if isinstance(error, XmlRefused):
        return error
    if isinstance(error, EventRejected) and not (problems := tuple(problems)):
        problems = [Problem(code_of(one.rule), one.message, None, one.attribute) for one in error.violations]
    retry = error.retry_after_seconds if isinstance(error, LimitExceeded) else None
    return XmlRefused(_kind(error)[0], tuple(problems) or (problem_of(error),), retry_after_seconds=retry)


def code_of(rule: str) -> str:
    """Return the code of a rule that an event breaks: 'bad value' is bad-value."""
    return rule.replace(" ", "-")


def _kind(error: TocsinError) -> tuple[int, str]:
    return next((status, code) for kind, status, code in _KINDS if isinstance(error, kind))
