"""Schedules: orders to evaluate operator predicates in, behind the interface of operators/problem.py.

baseline        naive.py
our own         adaptive.py, overlap.py
shared          naive.py (one event's answers and the loop), overlap.py (who uses which predicate)

Others may be added by the entry points tocsin.schedules: tocsin-lab has those of Liu et al., sequential and sub-order.
docs/operators-evaluation.md compares them.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin import plugins
from tocsin.errors import NotSupported, did_you_mean, nearest
from tocsin.operators.problem import Schedule
from tocsin.operators.schedules.adaptive import Adaptive
from tocsin.operators.schedules.naive import Naive

_SCHEDULES: dict[str, Callable[[], Schedule]] = {"naive": Naive, "adaptive": Adaptive}
_HOMES = {"sequential": "tocsin-lab", "sub-order": "tocsin-lab"}


def schedule_names() -> tuple[str, ...]:
    """Return the names of all schedules that are installed."""
    return (*_SCHEDULES, *(name for name in plugins.installed(plugins.SCHEDULES) if name not in _SCHEDULES))


def schedule_of(name: str) -> Callable[[], Schedule]:
    """Return what makes schedules of that name; raises NotSupported, NotInstalled."""
    made: Callable[[], Schedule] | None = _SCHEDULES.get(name)
    if made is None:
        made = plugins.load(plugins.SCHEDULES, name, f"the schedule {name!r}", _HOMES)
    if made is None:
        names = schedule_names()
        raise NotSupported(
            f"there is no schedule {name!r}{did_you_mean(nearest(name, names))}; there are: {', '.join(names)}"
        )
    return made


__all__ = ["Adaptive", "Naive", "schedule_names", "schedule_of"]
