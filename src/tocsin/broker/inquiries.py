"""Inquiries: what an event would reach, why a notification came, and dead letters once more. Nothing here is published.

A dry run sees what the next publish would see; it takes no turn at the store, and nobody waits for it but readers of
the live index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from tocsin.broker.admission import Admitted, RawEvent, admit_all, admit_stored
from tocsin.broker.core import Core
from tocsin.broker.expressions import Prepared, bind_stored
from tocsin.broker.receipts import DryRun, Reached
from tocsin.errors import UnknownNotification
from tocsin.language import Explanation
from tocsin.schema import Event
from tocsin.store import accounts, events, notifications, offers, replacements, subscriptions
from tocsin.store.letters import DeadLetter, read_dead_letters
from tocsin.store.subscriptions import StoredSubscription
from tocsin.symmetric.meeting import Meeting
from tocsin.symmetric.two_sided import offer_of


def dry_run(core: Core, raws: Sequence[RawEvent], owner: str | None) -> list[DryRun]:
    """Return what publishing these events now would come to, without doing it; matches of one owner, or of all."""
    core.refresh()
    judged = admit_all(raws, core.schema, core.settings.event_bytes, core.desk)
    fine = [(at, item.event) for at, item in enumerate(judged) if isinstance(item, Admitted)]
    found_events = [event for _, event in fine]
    with core.foreseen(found_events), core.lock:
        now = core.store.now_us()
        seqs = [core.live.seq + 1 + at for at in range(len(fine))]
        matches = core.live.match(seqs, [now] * len(fine), found_events)
        first = core.live.seq + 1
    positions = [fine[seq - first][0] for seq in matches.seq.tolist()]
    pairs = zip(matches.subscription.tolist(), matches.owner.tolist(), strict=True)
    with core.store.read() as connection:
        names = accounts.names_of(connection, set(matches.owner.tolist()))
        origins = replacements.origins_of(connection, set(matches.subscription.tolist()))
    found: list[list[Reached]] = [[] for _ in raws]
    for at, (subscription, number) in zip(positions, pairs, strict=True):
        if owner is None or names[number] == owner:
            found[at].append(Reached(origins.get(subscription, subscription), names[number]))
    return [
        DryRun((), tuple(sorted(reached))) if isinstance(item, Admitted) else DryRun(item.violations, ())
        for item, reached in zip(judged, found, strict=True)
    ]


def explain_notification(core: Core, owner: str, seq: int, subscription: int) -> Explanation:
    """Return why a stored notification came; raises UnknownNotification, also where it is another's."""
    core.refresh()
    with core.store.read() as connection:
        number = accounts.find_account(connection, owner)
        event = events.find_events(connection, [seq]).get(seq)
        versions = subscriptions.find_subscriptions(connection, replacements.all_ids(connection, [subscription]))
        kept = next((one for one in versions if _was_told(connection, number, seq, one)), None)
        values = {} if kept is None else offers.find_values(connection, kept.owner, [seq]).get((seq, kept.id), {})
    if event is None or kept is None or kept.origin != subscription:
        raise UnknownNotification(seq, subscription)
    admitted = admit_stored(core.schema, event.body)
    both = Prepared("", kept.tree, core.schema).two_sided
    if both is not None and (values or both.speaks_of_itself):
        told = offer_of(admitted, both.meeting)
        if told is not None:  # with the values that were computed; what the rules say is the publisher's
            return both.explain_as_one(replace(told, event=_with_values(told.event, values, both.meeting)))
    return core.registry.explain(bind_stored(kept.tree, core.schema, core.registry), admitted)


def _with_values(event: Event, values: dict[str, Any], meeting: Meeting) -> Event:
    admitted = {name: (meeting.event_domains[name].admit(value),) for name, value in values.items()}
    return Event({**event.values, **admitted})


def _was_told(connection: Connection, owner: int | None, seq: int, one: StoredSubscription) -> bool:
    return one.owner == owner and notifications.is_recorded(connection, one.owner, seq, one.id)


def find_dead_letter(core: Core, seq: int, publisher: str | None) -> DeadLetter | None:
    """Return the dead letter of that seq; of one publisher, or of any."""
    with core.store.read() as connection:
        found = read_dead_letters(connection, seq - 1, 1, publisher)
    return found[0] if found and found[0].seq == seq else None
