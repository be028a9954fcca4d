"""Problems: every refusal as an RFC 9457 document (application/problem+json), whatever raised it.

{"type": "/problems/event-rejected", "title": "…", "status": 422, "detail": "…", "instance": "request id", …}

The table below says which error is which status. Details come from the error's own message, which says what is wrong,
where, and what would be right; nothing of the request is repeated that the message does not hold.

What the service itself refuses, beside what the broker does:

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

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tocsin import errors
from tocsin.errors import TocsinError
from tocsin.store.store import instant


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


class InvalidFields(Invalid):
    """A field of the request is not what it should be; `more` says which."""


class Throttled(Refusal):
    """Too often."""

    status, name, title = 429, "throttled", "Too often"

    def __init__(self, detail: str, retry_after_seconds: float) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(detail)


# Problems.


PROBLEM = "application/problem+json"
log = structlog.get_logger("tocsin.service")

# The first class that the error is an instance of decides: status, the problem's name, its title.
_TABLE: Sequence[tuple[type[Exception], int, str, str]] = (
    (errors.EventRejected, 422, "event-rejected", "The event breaks the rules"),
    (errors.BatchRejected, 422, "batch-rejected", "Some events break the rules; none was published"),
    (errors.LanguageError, 400, "bad-expression", "The expression is wrong"),
    (errors.DuplicateName, 409, "exists", "That name is taken"),
    (errors.AttributeInType, 409, "exists", "The event type has that attribute"),
    (errors.UnknownName, 422, "unknown-name", "The schema has no such name"),
    (errors.SchemaError, 422, "bad-schema", "The schema, or a change to it, is wrong"),
    (errors.BadValue, 422, "bad-value", "A value is not in its domain"),
    (errors.UnknownSubscription, 404, "not-found", "There is no such thing"),
    (errors.UnknownNotification, 404, "not-found", "There is no such thing"),
    (errors.UnknownProposal, 404, "not-found", "There is no such thing"),
    (errors.UnknownSite, 404, "not-found", "There is no such thing"),
    (errors.NotYourSite, 403, "not-your-site", "The site is another account's"),
    (errors.SiteExists, 409, "exists", "That name is taken"),
    (errors.UnknownDeadLetter, 404, "not-found", "There is no such thing"),
    (errors.NotSupported, 400, "not-supported", "That is not offered here"),
    (errors.NotInstalled, 501, "not-installed", "This service does not have that"),
    (errors.FileError, 400, "bad-document", "The document cannot be read"),
    (errors.WrongTicket, 403, "wrong-ticket", "The ticket is not right"),
    (errors.LeaseOutOfBounds, 422, "lease-out-of-bounds", "The lease is too short or too long"),
    (errors.LeaseEnded, 410, "lease-ended", "The subscription is over"),
    (errors.StaleRenewal, 412, "stale", "It has changed since"),
    (errors.QuotaExceeded, 429, "quota-exceeded", "A quota is used up"),
    (errors.Overloaded, 503, "overloaded", "Too much is waiting"),
    (errors.IdempotencyConflict, 409, "idempotency-conflict", "The key was used for something else"),
    (errors.BadCursor, 400, "bad-cursor", "That is no cursor"),
    (errors.CursorExpired, 410, "cursor-expired", "What follows is no longer kept"),
    (errors.StoreFailed, 503, "store-failed", "The store could not do it; nothing was acknowledged"),
    (errors.StoreError, 503, "store-failed", "The store cannot be used"),
)
PROBLEM_TITLES = {name: title for _, _, name, title in _TABLE} | {
    kind.name: kind.title for kind in Refusal.__subclasses__()
}
_TITLES = {400: "Bad request", 401: "Who are you?", 403: "Not allowed", 404: "There is no such thing",
           405: "Not that method", 406: "Not in that form", 413: "Too large", 415: "Not that media type"}  # fmt: skip


def problem_of(error: Exception) -> dict[str, Any]:
    """Return the document of an error that was raised on purpose."""
    if isinstance(error, Refusal):
        return {"type": f"/problems/{error.name}", "title": error.title, "status": error.status,
                "detail": error.detail, **error.more}  # fmt: skip
    for kind, status, name, title in _TABLE:
        if isinstance(error, kind):
            document = {"type": f"/problems/{name}", "title": title, "status": status, "detail": str(error)[:4000]}
            return document | _more(error)
    return {"type": "/problems/internal", "title": "Something went wrong here", "status": 500}


def _more(error: Exception) -> dict[str, Any]:
    """Return what programs want to know of an error beside its message."""
    match error:
        case errors.EventRejected():
            return {"errors": [_violation(one) for one in error.violations[:100]]}
        case errors.BatchRejected():
            found = [_violation(one) | {"event": at} for at, all_of in error.violations.items() for one in all_of]
            return {"errors": found[:1000]}
        case errors.LanguageError():
            span = None if error.span is None else {"start": error.span.start, "end": error.span.end}
            return {"message": error.message[:1000], "span": span}
        case errors.UnknownName():
            return {"nearest": list(error.nearest)}
        case errors.StaleRenewal():
            return {"generation": error.current, "lease_end": instant(error.lease_end_us).isoformat()}
        case errors.CursorExpired():
            return {"oldest": error.oldest}
        case _:
            return {}


def _violation(violation: errors.Violation) -> dict[str, Any]:
    return {"rule": violation.rule, "attribute": violation.attribute, "message": violation.message[:1000]}


def response_of(
    document: Mapping[str, Any], request_id: str | None, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the response that carries a problem."""
    whole = {**document, **({"instance": request_id} if request_id else {})}
    return Response(msgspec.json.encode(whole), whole["status"], dict(headers or {}), media_type=PROBLEM)


def _answer(request: Request, error: Exception) -> Response:
    document = problem_of(error)
    headers = {}
    seconds = getattr(error, "retry_after_seconds", None)
    if document["status"] in (429, 503):
        headers["retry-after"] = str(max(1, round(1.0 if seconds is None else seconds)))
    if document["status"] == 401:
        headers["www-authenticate"] = 'Bearer realm="tocsin"'
    return response_of(document, _request_id(request), headers)


def _request_id(request: Request) -> str | None:
    found: str | None = request.scope.get("tocsin.request_id")
    return found


async def answer_of(request: Request, error: Exception) -> Response:
    """Return the response to an error that was raised on purpose."""
    response = _answer(request, error)
    if response.status_code >= 500:
        log.error("refused", error=type(error).__name__, detail=str(error)[:500])
    return response


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if (refusal := request.scope.get("tocsin.refusal")) is not None:  # from the edge, while the body was read
        return _answer(request, refusal)
    title = _TITLES.get(error.status_code, "Refused")
    document = {"type": "about:blank", "title": title, "status": error.status_code, "detail": str(error.detail)}
    return response_of(document, _request_id(request), error.headers)


async def _unexpected(request: Request, error: Exception) -> Response:
    log.error("failed", exc_info=error, request_id=_request_id(request))
    return response_of(problem_of(error), _request_id(request))


# Every error is answered with a problem.
HANDLERS: Mapping[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    errors.TocsinError: answer_of,
    HTTPException: _http_error,
    Exception: _unexpected,
}
