"""A member's newest notifications, for the pages that show what happened lately."""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.broker import Notification
from tocsin.service.web.visit import Visit

_REACHES = (50, 500, 5_000, 50_000)  # how many seqs to look back, further where that gave too little
_MOST = 1000
STRETCHES = 20


def newest(visit: Visit, count: int) -> list[Notification]:
    """Return the visitor's last notifications, newest first; those of the last 50,000 seqs at most."""
    push, broker = visit.service.push, visit.service.broker
    seq = broker.store.meta().seq
    found: list[Notification] = []
    for reach in _REACHES:
        cursor = push.cursor_at(max(0, seq - reach))
        found = list(broker.notifications(visit.principal.name, cursor=cursor, limit=_MOST))
        if len(found) >= count or seq <= reach:
            break
    return found[-count:][::-1]


def hits(notifications: list[Notification]) -> Mapping[int, list[int]]:
    """Return, for each subscription, how many of these fall into each of twenty stretches of seqs, oldest first."""
    if not notifications:
        return {}
    seqs = [one.seq for one in notifications]
    first, length = min(seqs), max(seqs) - min(seqs) + 1
    found: dict[int, list[int]] = {}
    for one in notifications:
        counts = found.setdefault(one.subscription, [0] * STRETCHES)
        counts[STRETCHES * (one.seq - first) // length] += 1
    return found
