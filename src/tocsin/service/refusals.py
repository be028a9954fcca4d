"""What the service itself refuses, beside what the broker does. problems.py makes documents of them.

Refusal
├── Unauthenticated   401   nobody, or somebody whose token or session is not (or no longer) good
├── Forbidden         403   somebody who may not
├── NotFound          404   nothing there, or another's: the two look the same
├── TooSlow           408   the body did not come in time
├── Conflict          409   that name is taken
├── Stale             412   If-Match names another version
├── TooMuch           413   the body is larger than allowed
├── WrongMediaType    415
├── Misdirected       421   asked for by a name that is not ours
├── BadRequest        400
├── Invalid           422
└── Throttled         429   too often; says when again
"""

from __future__ import annotations

from typing import Any, ClassVar

from tocsin.errors import TocsinError


class Refusal(TocsinError):
    """A request that is refused; `more` goes into the problem."""

    status: ClassVar[int] = 400
    name: ClassVar[str] = "bad-request"
    title: ClassVar[str] = "Bad request"

    def __init__(self, detail: str, **more: Any) -> None:
        self.detail, self.more = detail, more
        super().__init__(detail)


class BadRequest(Refusal):
    """The request cannot be read as what it should be."""


class Unauthenticated(Refusal):
    """Nobody, or somebody whose token or session is not good."""

    status, name, title = 401, "unauthenticated", "Who are you?"


class Forbidden(Refusal):
    """Somebody who may not do that."""

    status, name, title = 403, "forbidden", "Not allowed"


class NotFound(Refusal):
    """Nothing there, or another's."""

    status, name, title = 404, "not-found", "There is no such thing"


class TooSlow(Refusal):
    """The body did not come in time."""

    status, name, title = 408, "too-slow", "The request came too slowly"


class Misdirected(Refusal):
    """The request asks for a host that is not this one."""

    status, name, title = 421, "misdirected", "That is not the name of this service"


class Conflict(Refusal):
    """It contradicts what is there."""

    status, name, title = 409, "conflict", "That contradicts what is there"


class Stale(Refusal):
    """If-Match names another version than the present one."""

    status, name, title = 412, "stale", "It has changed since"


class TooMuch(Refusal):
    """The body is larger than allowed."""

    status, name, title = 413, "too-large", "Too large"


class WrongMediaType(Refusal):
    """The body is of a kind that is not taken here."""

    status, name, title = 415, "wrong-media-type", "Not that media type"


class Invalid(Refusal):
    """The request is well formed, and what it says is not."""

    status, name, title = 422, "invalid-request", "The request is not valid"


class Throttled(Refusal):
    """Too often."""

    status, name, title = 429, "throttled", "Too often"

    def __init__(self, detail: str, retry_after_seconds: float) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(detail)
