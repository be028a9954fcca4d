"""How routers are made: every route is guarded.

Entity tags: "7" stands for generation or version 7 of a thing.

Cookies of a browser that has logged in: its session, and that it was here before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Depends
from starlette.responses import Response

from tocsin.service.identities import LoggedIn
from tocsin.service.principal import DEVICE_COOKIE, SESSION_COOKIE, guard
from tocsin.service.problems import BadRequest

if TYPE_CHECKING:
    from tocsin.service.service import Service


def guarded(tag: str) -> APIRouter:
    """Return a router whose routes all pass the guard first."""
    return APIRouter(tags=[tag], dependencies=[Depends(guard)])


# Entity tags.


def etag(number: int) -> str:
    """Return the tag of a version."""
    return f'"{number}"'


def expected(if_match: str | None) -> int | None:
    """Return the version that If-Match asks for; None where any will do. Raises BadRequest."""
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix("W/").strip('"')
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadRequest('If-Match: send the ETag as it came, such as "3"')
    return int(text)


# Cookies of a browser that has logged in.


_YEAR_SECONDS = 366 * 86400


def set_cookies(service: Service, response: Response, found: LoggedIn) -> None:
    """Give a browser its session, and what lets it be wrong more often the next time."""
    device = service.identities.device_of(found.principal.name)
    for name, value, seconds in (
        (SESSION_COOKIE, found.secret, found.max_age_seconds),
        (DEVICE_COOKIE, device, _YEAR_SECONDS),
    ):
        response.set_cookie(
            name,
            value,
            max_age=seconds,
            httponly=True,
            samesite="lax",
            secure=service.settings.secure_cookies,
            path="/",
        )
