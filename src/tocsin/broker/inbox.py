"""The inbox: an owner's matched events, newest first, one entry an event with the subscriptions that it matched.

Read from the stored notifications, backwards from the newest or from a seq, or forwards from one: so a page costs what it
shows, however long the log is. Filters on the event itself look at the events one after the other; a page that looks
for long ends early, and its cursor goes on from there. What was read is an acknowledgement of a consumer of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import Connection

from tocsin.broker.admission import read_stored
from tocsin.broker.core import Core
from tocsin.broker.deliveries import Position, describe
from tocsin.documents.events import InboxEntry, InboxMatch, InboxPage, Notification
from tocsin.schema import EVENT_TYPE
from tocsin.store import Meta, accounts, events, progress, subscriptions
from tocsin.store.events import StoredEvent, id_text
from tocsin.store.notifications import Longs, StoredMatches, read_newest, read_notifications
from tocsin.store.store import SECOND, instant, read_meta

CONSUMER = "inbox"
MOST_UNREAD = 1000  # that are counted
_MOST_MATCHES = 20  # of an entry that are told
_AT_A_TIME = 200  # events looked at together
_SECONDS = 1.0  # after which a page ends with what it has
_END = 2**62


@dataclass(frozen=True, slots=True)
class InboxQuery:
    """Which entries: older than a seq, or newer than one; of some subscriptions, a type, a time, with a word in them."""

    before: int | None = None
    after: int | None = None
    limit: int = 50
    subscriptions: Sequence[int] | None = None  # as their owner knows them
    event_type: str = ""
    since: datetime | None = None
    until: datetime | None = None
    search: str = ""

    def admits(self, event: StoredEvent) -> bool:
        """Return whether an event is asked for, by what it says."""
        if self.search and self.search.casefold() not in event.body.decode("utf-8", "replace").casefold():
            return False
        return not self.event_type or self.event_type in _types(read_stored(event.body))


def _types(event: dict[str, Any]) -> Sequence[str]:
    found = event.get(EVENT_TYPE, ())
    return [found] if isinstance(found, str) else found


@dataclass
class _Found:
    """Entries as far as they were looked for: seq and the internal ids; `more` after `at`."""

    entries: list[tuple[StoredEvent, Longs]] = field(default_factory=list)
    more: bool = False
    at: int = 0


def read_inbox(core: Core, owner: str, query: InboxQuery) -> InboxPage:
    """Return a page of an owner's inbox."""
    with core.store.read() as connection:
        stands = read_meta(connection)
        number = accounts.find_account(connection, owner)
        if number is None:
            return InboxPage((), None, None, 0)
        read_through = (progress.read_acknowledged(connection, number, CONSUMER) or (0, 0))[0]
        found = _look(connection, stands, number, query)
        if query.after is not None:
            found.entries.reverse()
        items = _entries(connection, stands, number, found.entries, read_through)
        unread = _count_unread(connection, number, max(read_through, stands.horizon))
    first, last = (items[0].seq, items[-1].seq) if items else (0, 0)
    if query.after is None:
        older, newer = found.at if found.more else None, first if query.before is not None else None
    else:
        older, newer = last, found.at if found.more else None
    return InboxPage(items, f"s{older}" if older else None, f"s{newer}" if newer else None, unread)


def newest_matches(core: Core, owner: str, limit: int) -> list[Position]:
    """Return an owner's last matches, newest first, by the ids that the owner knows."""
    with core.store.read() as connection:
        number = accounts.find_account(connection, owner)
        found: list[Position] = []
        if number is not None:
            for block in _kept(connection, read_newest(connection, number, _END), None):
                found += map(Position, block.seq[::-1].tolist(), block.subscription[::-1].tolist())
                if len(found) >= limit:
                    break
        origins = subscriptions.origins_of(connection, {one.subscription for one in found[:limit]})
    return [Position(one.seq, origins.get(one.subscription, one.subscription)) for one in found[:limit]]


def match_times(core: Core, owner: str, subscription: int, limit: int) -> list[datetime]:
    """Return when a subscription last matched, newest first."""
    query = InboxQuery(subscriptions=[subscription], limit=limit)
    with core.store.read() as connection:
        number = accounts.find_account(connection, owner)
        found = _Found() if number is None else _look(connection, read_meta(connection), number, query)
    return [instant(event.arrival_us) for event, _ in found.entries]


def _look(connection: Connection, stands: Meta, owner: int, query: InboxQuery) -> _Found:
    """Return what a query asks for, in the order in which it goes through the inbox."""
    low, high = stands.horizon, _END
    if query.since is not None:
        low = max(low, events.last_before(connection, _micros(query.since)))
    if query.until is not None:
        high = events.last_before(connection, _micros(query.until)) + 1
    wanted = None if query.subscriptions is None else subscriptions.all_ids(connection, query.subscriptions)
    if query.after is not None:
        low = max(low, query.after)
        grouped = _by_event(_kept(connection, read_notifications(connection, owner, low + 1), wanted), forwards=True)
    else:
        high = min(high, query.before if query.before is not None else _END)
        grouped = _by_event(_kept(connection, read_newest(connection, owner, high), wanted), forwards=False)
    found, ends = _Found(), time.monotonic() + _SECONDS
    for some in _in_parts(((seq, ids) for seq, ids in grouped), low, high, _AT_A_TIME):
        stored = events.find_events(connection, sorted(seq for seq, _ in some))
        for seq, ids in some:
            if seq in stored and query.admits(stored[seq]):
                if len(found.entries) == query.limit:
                    found.more = True
                    return found
                found.entries.append((stored[seq], ids))
            found.at = seq
        if time.monotonic() > ends:
            found.more = True
            return found
    return found


def _micros(at: datetime) -> int:
    return round(at.timestamp() * SECOND)


def _in_parts(
    grouped: Iterable[tuple[int, Longs]], low: int, high: int, size: int
) -> Iterator[list[tuple[int, Longs]]]:
    """Yield events within the bounds, some at a time; those beyond them end it."""
    part: list[tuple[int, Longs]] = []
    for seq, ids in grouped:
        if not low < seq < high:
            break
        part.append((seq, ids))
        if len(part) == size:
            yield part
            part = []
    if part:
        yield part


def _kept(
    connection: Connection, blocks: Iterable[StoredMatches], wanted: Sequence[int] | None
) -> Iterator[StoredMatches]:
    """Yield the matches of wanted subscriptions that their owner has not ended."""
    known: set[int] = set()
    gone: set[int] = set()
    for block in blocks:
        keep = np.isin(block.subscription, wanted) if wanted is not None else np.ones(len(block), np.bool_)
        if new := set(np.unique(block.subscription[keep]).tolist()) - known:
            gone |= subscriptions.unsubscribed(connection, sorted(new))
            known |= new
        if gone:
            keep &= ~np.isin(block.subscription, sorted(gone))
        if keep.any():
            yield StoredMatches(block.seq[keep], block.subscription[keep], block.owner[keep])


def _by_event(blocks: Iterable[StoredMatches], *, forwards: bool) -> Iterator[tuple[int, Longs]]:
    """Yield each event's seq with the ids that it matched, in one direction; an event may lie in several blocks."""
    last, parts = 0, list[Longs]()
    for block in blocks:
        cuts = np.flatnonzero(np.diff(block.seq)) + 1
        pieces = list(zip(block.seq[np.append(0, cuts)].tolist(), np.split(block.subscription, cuts), strict=True))
        for seq, ids in pieces if forwards else reversed(pieces):
            if seq != last and parts:
                yield last, np.sort(np.concatenate(parts))
                parts = []
            last = seq
            parts.append(ids)
    if parts:
        yield last, np.sort(np.concatenate(parts))


def _entries(
    connection: Connection, stands: Meta, owner: int, found: Sequence[tuple[StoredEvent, Longs]], read_through: int
) -> tuple[InboxEntry, ...]:
    positions = [Position(event.seq, id) for event, ids in found for id in ids[:_MOST_MATCHES].tolist()]
    told: dict[int, list[Notification]] = {}
    for one in describe(connection, positions, stands.incarnation, owner):
        told.setdefault(one.seq, []).append(one)
    return tuple(
        InboxEntry(
            event.seq,
            id_text(event.event_id),
            instant(event.arrival_us),
            read_stored(event.body),
            tuple(_match(one) for one in told[event.seq]),
            len(ids),
            event.seq > read_through,
        )
        for event, ids in found
    )


def _match(one: Notification) -> InboxMatch:
    return InboxMatch(one.subscription, one.cursor, {name: one.event[name] for name in one.computed}, one.bindings)


def _count_unread(connection: Connection, owner: int, read_through: int) -> int:
    unread = 0
    for block in _kept(connection, read_notifications(connection, owner, read_through + 1), None):
        unread += len(np.unique(block.seq))
        if unread >= MOST_UNREAD:
            return MOST_UNREAD
    return unread
