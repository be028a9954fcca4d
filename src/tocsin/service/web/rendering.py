"""Templates: Jinja2, everything escaped, an unknown name an error."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from tocsin import __version__

DONE = {
    "registered": "Welcome. You are registered and logged in.",
    "subscribed": "The subscription is in force: every event published from now on is matched against it.",
    "replaced": "The subscription asks for the new thing, from now on.",
    "paused": "The subscription is paused: it matches nothing until it is resumed. Its lease runs on.",
    "resumed": "The subscription matches again what is published from now on.",
    "renewed": "The lease was renewed.",
    "ended": "The subscription has ended. Nothing more will be sent for it.",
    "published": "The event was published.",
    "extended": "The schema was extended.",
    "password": "The password was changed, and all sessions ended. Log in again.",
    "revoked": "The token was revoked, and with it what was got by it.",
    "session-ended": "The session has ended.",
    "removed": "The webhook was removed.",
    "enabled": "The webhook is enabled.",
    "changed": "The account was changed.",
    "logged-out": "You are logged out.",
}


@functools.cache
def environment() -> Environment:
    """Return the templates of the package."""
    made = Environment(
        loader=PackageLoader("tocsin.service.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"shown": shown, "moment": moment, "left": time_left, "about": about}
    made.globals |= {"version": __version__, "DONE": DONE}
    return made


def render(template: str, context: Mapping[str, Any]) -> str:
    """Return a template filled in."""
    return environment().get_template(template).render(context)


def shown(value: object) -> str:
    """Return a value of an event as people read it."""
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float | Decimal):
        return str(value)
    return msgspec.json.encode(value).decode()


def about(value: float) -> str:
    """Return a number to three digits, as people write it: 553,000 rather than 5.53e+05."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    return f"{rounded:,.0f}" if digits <= 0 else f"{rounded:,.{digits}f}".rstrip("0").rstrip(".")


def moment(at: datetime) -> str:
    """Return an instant to the second, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def time_left(until: datetime, now: datetime) -> str:
    """Return how long it is until then, in the largest unit that says something."""
    seconds = (until - now).total_seconds()
    if seconds <= 0:
        return "over"
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * size or (unit != "day" and seconds >= size):
            count = int(seconds // size)
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{int(seconds)} seconds"
