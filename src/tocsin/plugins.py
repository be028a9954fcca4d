"""What other distributions add to Tocsin, by entry points; each is loaded when its name is asked for.

    tocsin.commands     a Typer app or a function, for the `tocsin` command     cli/app.py
    tocsin.engines      a class of Matcher                                      matching/__init__.py
    tocsin.schedules    what makes a Schedule                                   operators/schedules/__init__.py

tocsin-lab (lab/) and tocsin-examples (examples/) use them; nothing here imports either.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from tocsin.errors import NotInstalled, TocsinError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMANDS, ENGINES, SCHEDULES = "tocsin.commands", "tocsin.engines", "tocsin.schedules"


@cache
def installed(group: str) -> Mapping[str, EntryPoint]:
    """Return what is installed of a group, by name."""
    from importlib.metadata import entry_points  # 30 ms, which most uses do without

    return {point.name: point for point in sorted(entry_points(group=group))}


def load(group: str, name: str, what: str, homes: Mapping[str, str]) -> Any:
    """Return what a name stands for, or None where nobody knows it.

    Where nothing of that name is installed, but `homes` knows the distribution that has it, raises NotInstalled.
    """
    point = installed(group).get(name)
    if point is None:
        if name in homes:
            raise NotInstalled(what, homes[name])
        return None
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise TocsinError(f"{what} ({point.value}) cannot be loaded: {error}") from error
