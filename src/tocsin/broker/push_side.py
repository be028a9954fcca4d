"""The push side of a broker: what a service needs that pushes notifications to many readers from one thread.

Listeners (deliveries.py) cost a thread each. Here one function is told whose notifications were stored, and pages are
read from the store by cursor, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tocsin.broker import cursors
from tocsin.broker.admission import RawEvent, request_hash
from tocsin.broker.broker import Broker
from tocsin.broker.cursors import LAST, Position
from tocsin.broker.deliveries import describe, oldest_cursor, position_of
from tocsin.broker.publishing import Publish, Receipts
from tocsin.broker.receipts import Notification, PublishReceipt
from tocsin.broker.settings import BrokerSettings
from tocsin.broker.turns import Waiting
from tocsin.errors import CursorExpired, IdempotencyConflict, TocsinError
from tocsin.schema import Schema
from tocsin.store import Store, letters, notifications, subscriptions
from tocsin.store.transaction import read_meta

Single = tuple[RawEvent, str | None, str, bool]  # the event, its idempotency key, its publisher, whether to refuse it


class PushSide:
    """One broker, seen by whoever pushes."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._core = broker._core
        self._bells = broker._bells
        self._run_each = self._run_together  # bound once: requests with the same function share a turn

    @property
    def store(self) -> Store:
        return self.broker.store

    def on_stored(self, ear: Callable[[Sequence[int]], None]) -> None:
        """Call a function with the account numbers of owners for whom this broker stored something, in its thread."""
        self._bells.tell(ear)

    def owners_stored_since(self, through: int | None) -> tuple[int, list[int]]:
        """Return how far matching has come, and the owners who have got something since it stood at `through`."""
        with self.store.read() as connection:
            stands = read_meta(connection)
            if through is None or stands.matched_through <= through:
                return stands.matched_through, []
            return stands.matched_through, notifications.owners_since(connection, through)

    def was_unsubscribed(self, id: int) -> bool:
        """Return whether this process has unsubscribed it: a page that was read before may still name it."""
        return self._core.was_unsubscribed(id)

    def cursor_at(self, seq: int, subscription: int = LAST) -> str:
        """Return the cursor after a position."""
        return cursors.encode(Position(seq, subscription), self.store.incarnation)

    def newest_cursor(self) -> str:
        """Return the cursor from which only what is still to come follows."""
        return self.cursor_at(self.store.meta().matched_through)

    def position_of(self, cursor: str, owner: int) -> Position:
        """Return what a cursor of an account stands for; raises BadCursor, CursorExpired."""
        return position_of(cursor, self.store.meta(), owner)

    def check_cursor(self, cursor: str, owner: int) -> None:
        """Raise BadCursor, or CursorExpired where some of what follows is no longer kept."""
        stands = self.store.meta()
        if position_of(cursor, stands, owner).seq < stands.horizon:
            raise CursorExpired("some of what follows this cursor is no longer kept", oldest_cursor(stands))

    def live_of(self, owner: int) -> int:
        """Return how many live subscriptions an account has."""
        with self._core.lock:
            return self._core.live.leases.live_of(owner)

    def usage_of(self, owner: int) -> dict[str, int]:
        """Return how many subscriptions an account has, live and paused, and what they take in bytes."""
        with self.store.read() as connection:
            paused, taken = subscriptions.count_paused(connection, owner), subscriptions.bytes_of(connection, owner)
        return {"subscriptions": self.live_of(owner) + paused, "subscription_bytes": taken}

    def notifications_at(self, owner: int, positions: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Notification]:
        """Return an account's notifications at positions (seq, subscription), without those unsubscribed since."""
        with self.store.read() as connection:
            stands = read_meta(connection)
            gone = subscriptions.unsubscribed(connection, sorted({id for _, id in positions}))
            wanted = [Position(seq, id) for seq, id in positions if id not in gone and seq > stands.horizon]
            found = describe(connection, wanted, stands.incarnation, owner)
        return {(at.seq, at.subscription): one for at, one in zip(wanted, found, strict=True)}

    @property
    def takes_long(self) -> bool:
        """Whether matching may take long, so that events should not wait for one another before their turn."""
        return self._core.matches_inline and self._core.live.matcher.takes_long

    # --- publishing ---------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> BrokerSettings:
        return self._core.settings

    @property
    def schema_now(self) -> Schema:
        """The schema in force, as far as this process knows: without a look into the store."""
        return self._core.schema

    def publish_each(self, singles: Sequence[Single]) -> list[PublishReceipt | TocsinError]:
        """Publish single events in one commit, each accepted or refused by itself; return an answer for each."""
        settings, schema = self._core.settings, self._core.schema
        requests = [
            Publish.judge(
                [raw],
                schema,
                settings.event_bytes,
                atomic=atomic,
                publisher=publisher,
                key=key,
                single=True,
                offers=self._core.offers,
            )
            for raw, key, publisher, atomic in singles
        ]
        waiting: list[Waiting[Publish, Receipts]] = [Waiting(request) for request in requests]
        for request in requests if self._core.matches_inline else ():
            request.prefetch(self._core)
        self.broker._turns.take(self._run_each, waiting)
        answers: list[PublishReceipt | TocsinError] = []
        for one in waiting:
            if one.error is not None:
                answers.append(one.error)
            else:
                answers.append(one.result()[0])
        return answers

    def publish_keyed(
        self, raws: Sequence[RawEvent], keys: Sequence[str], publisher: str, *, atomic: bool
    ) -> list[PublishReceipt]:
        """Publish a batch whose events have a key each: what was published before, in whatever batch, is not again.

        All or none with `atomic`, as far as it can be known beforehand; raises BatchRejected, IdempotencyConflict.
        """
        request = Publish.judge(
            raws, self.broker.schema, self.settings.event_bytes,
            atomic=atomic, publisher=publisher, key=None, single=False, offers=self._core.offers,
        )  # fmt: skip
        if (refusal := request.refusal()) is not None:
            raise refusal
        with self.store.read() as connection:
            for raw, key in zip(raws, keys, strict=True):
                before = letters.find_answer(connection, publisher, key)
                if before is not None and before[0] != request_hash([raw], atomic=atomic):
                    raise IdempotencyConflict(key)
        answers = self.publish_each([(raw, key, publisher, atomic) for raw, key in zip(raws, keys, strict=True)])
        receipts = [one for one in answers if isinstance(one, PublishReceipt)]
        for one in answers:
            if isinstance(one, TocsinError):
                raise one
        return receipts

    def _run_together(self, together: Sequence[Waiting[list[Waiting[Publish, Receipts]], None]]) -> None:
        self.broker._run_publishes([one for lot in together for one in lot.request])
