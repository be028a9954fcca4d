"""Cookies of a browser that has logged in: its session, and that it was here before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from tocsin.service.identities import LoggedIn
from tocsin.service.principal import DEVICE_COOKIE, SESSION_COOKIE

if TYPE_CHECKING:
    from tocsin.service.service import Service

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
