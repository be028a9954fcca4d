"""The broker: subscribe, renew, unsubscribe, publish, and read notifications; durably and in one order.

    with Broker.open("tocsin.db", schema=schema) as broker:
        mini = broker.subscribe("car where price < 1300 and brand = 'mini'", owner="ada")
        broker.publish({"event_type": "car", "brand": "mini", "price": 900})
        for notification in broker.notifications("ada"):
            print(notification.event)
        broker.unsubscribe(mini)

Whatever a method returns is on disk. AsyncBroker has the same methods for asyncio. What is promised, and which test
holds it, is in docs/promises.md. The parts: changes.py, publishing.py, deliveries.py, deliveries.py, sweeper.py; core.py beneath them.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import msgspec

from tocsin.broker import deliveries, inbox, inquiries, publishing
from tocsin.broker.admission import OfferAdmission, RawEvent
from tocsin.broker.changes import (
    Acceptance,
    Claim,
    ExtendSchema,
    FirstSchema,
    Pause,
    Renew,
    Replace,
    Resume,
    SchemaChange,
    Subscribe,
    Unsubscribe,
    claim_of,
    run_changes,
)
from tocsin.broker.core import BrokerSettings, Core, GroupCommit, check_name
from tocsin.broker.deliveries import (
    CONSUMER,
    Callback,
    CallbackThread,
    Deliveries,
    Listener,
    Listeners,
    MatchedBatch,
    Position,
    position_of,
    read_page,
)
from tocsin.broker.expressions import Expression, Prepared, prepare, prepare_all, prepare_or_list, text_of
from tocsin.broker.inbox import InboxQuery
from tocsin.broker.live_folder import open_index
from tocsin.broker.publishing import NotPrefetched, Publish, PublishEach, run_publishes
from tocsin.broker.sites import Sites, WhichMapping
from tocsin.broker.sweeper import PAUSED, NoticeCallback, PauseCallback, Sweeper
from tocsin.documents.accounts import CostList, CostView
from tocsin.documents.events import DeadLetterView, InboxPage, NotificationPage, PublishReceipt
from tocsin.documents.subscriptions import EndReceipt, LeaseNotice, SubscriptionReceipt, SubscriptionView
from tocsin.errors import IdempotencyConflict, QuotaExceeded, UnknownDeadLetter, UnknownSubscription, Violation
from tocsin.language import Explanation
from tocsin.language.mapping import SiteMapping
from tocsin.offers.program_files import ProgramsFile
from tocsin.offers.programs import Programs
from tocsin.operators.registry import Registry, open_registry
from tocsin.schema import Event, Schema
from tocsin.schema.sources import Provenance
from tocsin.store import Store, accounts, progress, schema_history, subscriptions
from tocsin.store.events import DeadLetter, find_answer, read_dead_letters
from tocsin.store.schema_history import SchemaVersion
from tocsin.store.store import MachineClock, instant
from tocsin.store.subscriptions import StoredSubscription, price_of

if TYPE_CHECKING:
    from tocsin.broker.inquiries import HeldOffers

Matching = Literal["inline", "pipeline"]


class Broker:
    """A broker over a store. Safe to use from many threads; several processes may have one over the same store."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._queue = GroupCommit(core.settings.waiting_requests)
        self._listeners = Listeners()
        self.deliveries = Deliveries(core)
        self._callbacks: dict[str, list[CallbackThread]] = {}
        self._sweeper = Sweeper(core)
        self._run_changes = functools.partial(run_changes, core)
        self._run_publishes = functools.partial(run_publishes, core, self._matched)

    @classmethod
    def open(
        cls,
        place: str | Path,
        *,
        schema: Schema | None = None,
        settings: BrokerSettings | None = None,
        matching: Matching | None = None,
        engine: Literal["columnar", "definition"] = "columnar",
        index: str | Path | None = None,
        operators: Registry | str | Path | None = None,
        programs: Programs | str | Path | None = None,
        machine: MachineClock | None = None,
        sweep: bool = True,
        accept_clock: bool = False,
    ) -> Broker:
        """Return a broker over the store at a path (SQLite) or PostgreSQL URL; a new store needs a schema.

        `matching` says who matches events, this broker or the pipeline; None leaves it as it was. `index` is the
        folder of the index; beside the file by default, None with PostgreSQL keeps it in memory. `operators` are those
        that subscriptions may call: a registry, or what operators/registry.py takes; `programs` those that offers
        may: as objects, or a file of them, which is followed (offers/program_files.py). `sweep=False` leaves sweeping to explicit calls
        of `sweep`. Raises StoreError and SchemaError.
        """
        followed = ProgramsFile(programs) if isinstance(programs, str | Path) else programs
        registry = open_registry(operators)
        judge = OfferAdmission(followed, registry)
        store = Store.open(place, machine=machine, accept_clock=accept_clock)
        try:
            live = open_index(store, engine, index, registry, programs=judge.programs)
            core = Core(store, live, settings or BrokerSettings(), registry, judge)
            core.refresh()
            broker = cls(core)
            if schema is not None:
                broker._queue.call(broker._run_changes, FirstSchema(schema))
            if matching is not None and matching != store.meta().matching:
                publishing.set_matching(core, matching)
            if sweep:
                broker._sweeper.start()
        except BaseException:
            store.close()
            raise
        return broker

    def close(self) -> None:
        """Stop listening and sweeping, write the index, let go of the store. What was acknowledged needs no closing."""
        for threads in self._callbacks.values():
            for thread in threads:
                thread.close()
        self._callbacks.clear()
        self._listeners.wake_all()
        self._sweeper.close()
        self._queue.close()
        try:
            with self._core.lock:
                self._core.live.close()
        finally:
            self._core.store.close()

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        expression: Expression,
        *,
        owner: str,
        lease: float | timedelta | None = None,
        renews: bool = False,
        idempotency_key: str | None = None,
    ) -> SubscriptionReceipt:
        """Store a subscription; every event published after this returns is matched against it.

        `lease` is in seconds, a day by default; one that `renews` is renewed for as long again before it ends, while its
        owner's account lives. Raises LanguageError, LeaseOutOfBounds, QuotaExceeded, Overloaded.
        """
        return self.subscribe_all(
            [expression], owner=owner, lease=lease, renews=renews, idempotency_key=idempotency_key
        )[0]

    def subscribe_all(
        self,
        expressions: Sequence[Expression],
        *,
        owner: str,
        lease: float | timedelta | None = None,
        renews: bool = False,
        idempotency_key: str | None = None,
        list_wrong: bool = False,
    ) -> list[SubscriptionReceipt]:
        """Store many subscriptions of one owner in one commit, all or none.

        With `list_wrong` those that are wrong are told together (ExpressionsRejected), not the first alone. The same idempotency key with the same subscriptions gives the same receipts, without their tickets, which are
        shown once; with others IdempotencyConflict.
        """
        check_name("an owner", owner)
        if idempotency_key is not None:
            check_name("an idempotency key", idempotency_key)
        settings, schema = self._core.settings, self._core.schema
        lease_us = settings.lease_us(lease)
        registry, most_bytes = self._core.registry, settings.expression_bytes
        judge = prepare_or_list if list_wrong else prepare_all
        prepared = judge(expressions, schema, most_bytes=most_bytes, registry=registry)
        if not prepared:
            return []
        return self._queue.call(
            self._run_changes, Subscribe(owner, expressions, lease_us, schema, prepared, idempotency_key, renews)
        )

    def renew(
        self,
        subscription: SubscriptionReceipt | int,
        *,
        ticket: str | None = None,
        owner: str | None = None,
        generation: int | None = None,
        lease: float | timedelta | None = None,
        renews: bool = False,
    ) -> SubscriptionReceipt:
        """Let the lease last `lease` seconds from now, or as long as it lasts already; by its ticket, or as its owner.

        `generation` is that of the last receipt: where the lease was renewed since, this renewal is stale and refused.
        Raises StaleRenewal, LeaseEnded, WrongTicket, UnknownSubscription, LeaseOutOfBounds.
        """
        claim = claim_of(subscription, ticket, owner)
        if isinstance(subscription, SubscriptionReceipt) and generation is None:
            generation = subscription.generation
        if generation is None:
            raise TypeError("renew needs the generation, as it is in the last receipt")
        renewed: SubscriptionReceipt = self._queue.call(
            self._run_changes, Renew(claim, generation, self._core.settings.lease_us(lease), renews)
        )
        return msgspec.structs.replace(renewed, ticket=claim.ticket)

    def replace(
        self,
        subscription: SubscriptionReceipt | int,
        expression: Expression,
        *,
        ticket: str | None = None,
        owner: str | None = None,
    ) -> SubscriptionReceipt:
        """Let a subscription ask for something else from now on; id, ticket and lease stay, the seq is new.

        Raises LanguageError, LeaseEnded, WrongTicket, UnknownSubscription.
        """
        claim = claim_of(subscription, ticket, owner)
        request = Replace(claim, expression, self.prepare(expression))
        replaced: SubscriptionReceipt = self._queue.call(self._run_changes, request)
        return replaced

    def prepare(self, expression: Expression) -> Prepared:
        """Return an expression as subscribing would take it, and store nothing; raises LanguageError."""
        self._core.refresh()
        most_bytes = self._core.settings.expression_bytes
        return prepare(expression, self._core.schema, most_bytes=most_bytes, registry=self._core.registry)

    def pause(
        self, subscription: SubscriptionReceipt | int, *, ticket: str | None = None, owner: str | None = None
    ) -> SubscriptionReceipt:
        """Let a subscription match nothing until it is resumed; its lease runs on, and can be renewed."""
        paused: SubscriptionReceipt = self._queue.call(self._run_changes, Pause(claim_of(subscription, ticket, owner)))
        return paused

    def resume(
        self, subscription: SubscriptionReceipt | int, *, ticket: str | None = None, owner: str | None = None
    ) -> SubscriptionReceipt:
        """Let a paused subscription match again what is published from now on."""
        resumed: SubscriptionReceipt = self._queue.call(
            self._run_changes, Resume(claim_of(subscription, ticket, owner))
        )
        return resumed

    def unsubscribe(
        self, subscription: SubscriptionReceipt | int, *, ticket: str | None = None, owner: str | None = None
    ) -> EndReceipt:
        """End a subscription; after this returns nothing more is delivered for it. Asking again does no harm.

        Raises WrongTicket, UnknownSubscription.
        """
        return self._end([claim_of(subscription, ticket, owner)])[0]

    def unsubscribe_all(
        self, subscriptions: Sequence[SubscriptionReceipt | int], *, owner: str | None = None
    ) -> list[EndReceipt]:
        """End many subscriptions in one commit, all or none; by their receipts' tickets, or as their owner."""
        return self._end([claim_of(one, None, owner) for one in subscriptions]) if subscriptions else []

    def _end(self, claims: list[Claim]) -> list[EndReceipt]:
        ended: list[EndReceipt] = self._queue.call(self._run_changes, Unsubscribe(claims))
        for threads in list(self._callbacks.values()):
            for thread in threads:
                thread.settle()
        return ended

    def subscription(self, id: int, *, owner: str) -> SubscriptionView:
        """Return an owner's subscription; raises UnknownSubscription, also where it is another's."""
        with self._core.store.read() as connection:
            found = subscriptions.find_current(connection, [id]).get(id)
        if found is None or found.owner_name != owner:
            raise UnknownSubscription(id)
        return _subscription_view(found)

    def subscriptions(self, owner: str, *, after: int = 0, limit: int = 1000) -> list[SubscriptionView]:
        """Return an owner's subscriptions, live and paused, with greater ids than `after`, in order."""
        now = self._core.store.now_us()
        with self._core.store.read() as connection:
            number = accounts.find_account(connection, owner)
            found = [] if number is None else subscriptions.list_subscriptions(connection, number, after, limit, now)
        return [_subscription_view(one) for one in found]

    def leases_ending(self, owner: str | None = None) -> list[LeaseNotice]:
        """Return the leases that end within the notice period; of one owner, or of all."""
        number = None
        if owner is not None:
            with self._core.store.read() as connection:
                number = accounts.find_account(connection, owner)
            if number is None:
                return []
        self._core.refresh()
        return self._sweeper.leases_ending(self._core.store.now_us(), number)

    def on_lease_ending(self, callback: NoticeCallback) -> None:
        """Call a function once for each lease that is about to end, whatever is restarted; `leases_ending` lists them."""
        self._sweeper.on_lease_ending(callback)

    def on_paused(self, callback: PauseCallback) -> None:
        """Call a function once for each subscription that is paused since its matches cost its account too much."""
        self._sweeper.on_paused(callback)

    # --- events -------------------------------------------------------------------------------------------------------

    @overload
    def publish(  # type: ignore[overload-overlap]  # a text is one event, though it is a sequence too
        self,
        events: Mapping[str, Any] | Event | bytes | str,
        *,
        idempotency_key: str | None = None,
        atomic: bool = True,
        publisher: str = "",
        mapping: SiteMapping | None = None,
        site: str | None = None,
        site_mapping: WhichMapping = "newest",
    ) -> PublishReceipt: ...

    @overload
    def publish(
        self,
        events: Sequence[RawEvent],
        *,
        idempotency_key: str | None = None,
        atomic: bool = True,
        publisher: str = "",
        mapping: SiteMapping | None = None,
        site: str | None = None,
        site_mapping: WhichMapping = "newest",
    ) -> list[PublishReceipt]: ...

    def publish(
        self,
        events: RawEvent | Sequence[RawEvent],
        *,
        idempotency_key: str | None = None,
        atomic: bool = True,
        publisher: str = "",
        mapping: SiteMapping | None = None,
        site: str | None = None,
        site_mapping: WhichMapping = "newest",
    ) -> PublishReceipt | list[PublishReceipt]:
        """Store an event, or a batch in one commit, and the notifications of everyone whom it reaches.

        An event that breaks the rules is refused with all its violations (EventRejected; BatchRejected, and nothing
        of the batch is stored); with `atomic=False` it becomes a dead letter, its receipt says why, and the others are
        stored. With a mapping the events are a site's documents, which it translates. As a `site` of the publisher's they say
        where they come from, and are translated by its stored mapping, where it has one: the newest version, another, or none.
        The same idempotency key with the same events gives the same receipts, with others IdempotencyConflict.
        Raises UnknownSite, NotYourSite.
        """
        single = isinstance(events, Mapping | Event | bytes | str)
        raws: Sequence[RawEvent] = [events] if single else events  # type: ignore[list-item,assignment]
        settings = self._core.settings
        if len(raws) > settings.batch_events:
            raise QuotaExceeded(f"a batch of {len(raws)} events; {settings.batch_events} is the most")
        if idempotency_key is not None:
            check_name("an idempotency key", idempotency_key)
        if not raws:
            return []
        provenance, mapping = self._as_site(site, publisher, mapping, site_mapping)
        request = Publish(raws, atomic, publisher, idempotency_key, single, mapping=mapping, provenance=provenance)
        request.judge(self._core, self._core.schema)
        if idempotency_key is None and request.refusal() is not None:
            # Refused without a commit, unless another process has extended the schema.
            self._core.refresh()
            request.judge(self._core, self._core.schema)
            if (refusal := request.refusal()) is not None:
                raise refusal
        receipts = self._publish(request)
        return receipts[0] if single else receipts

    def _as_site(
        self, site: str | None, publisher: str, mapping: SiteMapping | None, which: WhichMapping
    ) -> tuple[Provenance | None, SiteMapping | None]:
        """Return what publishing as a site needs; a mapping that is given counts, not the stored one."""
        if site is None:
            return None, mapping
        provenance, stored = self.sites.opened(site, publisher, "none" if mapping is not None else which)
        return provenance, mapping or stored

    def _publish(self, request: Publish | PublishEach) -> list[PublishReceipt]:
        """Publish, after operators and programs were asked; once more where somebody has subscribed meanwhile."""
        while True:
            for part in request.parts:
                part.prepare(self._core)
            try:
                receipts: list[PublishReceipt] = self._queue.call(self._run_publishes, request)
            except NotPrefetched:
                continue
            return receipts

    async def publish_soon(
        self,
        event: RawEvent,
        *,
        idempotency_key: str | None = None,
        atomic: bool = True,
        publisher: str = "",
        site: str | None = None,
        site_mapping: WhichMapping = "newest",
    ) -> PublishReceipt:
        """Return the receipt of one event when it is on disk, as `publish` does, without a thread of its own."""
        # Each in its own thread: operators that one event needs keep no other waiting; sites are looked up in the store.
        if self.takes_long or site is not None:
            return await asyncio.to_thread(
                self.publish, event, idempotency_key=idempotency_key, atomic=atomic, publisher=publisher, site=site,
                site_mapping=site_mapping,
            )  # fmt: skip
        request = Publish([event], atomic, publisher, idempotency_key, single=True)
        try:
            receipts: list[PublishReceipt] = await self._queue.submit(self._run_publishes, request)
        except NotPrefetched:
            receipts = await asyncio.to_thread(self._publish, request)
        return receipts[0]

    def publish_keyed(
        self,
        raws: Sequence[RawEvent],
        keys: Sequence[str],
        publisher: str,
        *,
        atomic: bool,
        site: str | None = None,
        site_mapping: WhichMapping = "newest",
    ) -> list[PublishReceipt]:
        """Publish a batch whose events have a key each: what was published before, in whatever batch, is not again.

        All or none with `atomic`, as far as it can be known beforehand; raises BatchRejected, IdempotencyConflict.
        """
        provenance, mapping = self._as_site(site, publisher, None, site_mapping)
        whole = Publish(raws, atomic, publisher, None, single=False, mapping=mapping, provenance=provenance)
        whole.judge(self._core, self.schema)
        if (refusal := whole.refusal()) is not None:
            raise refusal
        requests = [
            Publish([raw], atomic, publisher, key, single=True, mapping=mapping, provenance=provenance)
            for raw, key in zip(raws, keys, strict=True)
        ]
        with self.store.read() as connection:
            for one in requests:
                before = find_answer(connection, publisher, one.stored_key)
                if before is not None and before[0] != one.hashed:
                    raise IdempotencyConflict(one.key or "")
        return self._publish(PublishEach(requests, publisher))

    @property
    def takes_long(self) -> bool:
        """Whether matching may take long, so that events should not wait for one another before they are committed."""
        return self._core.matches_inline and self._core.live.matcher.takes_long

    def _matched(self, batch: MatchedBatch) -> None:
        self.deliveries.matched(batch)
        self._listeners.wake(batch.owners)

    def dry_run(
        self,
        events: Sequence[RawEvent],
        *,
        owner: str | None = None,
        publisher: str = "",
        site: str | None = None,
        site_mapping: WhichMapping = "newest",
    ) -> list[inquiries.DryRun]:
        """Return what publishing these events now would come to, and store nothing; matches of one owner, or of all."""
        if len(events) > self._core.settings.batch_events:
            raise QuotaExceeded(f"a batch of {len(events)} events; {self._core.settings.batch_events} is the most")
        provenance, mapping = self._as_site(site, publisher, None, site_mapping)
        return inquiries.dry_run(self._core, events, owner, mapping, provenance)

    # --- schema -------------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> Schema:
        """The schema in force."""
        self._core.refresh()
        return self._core.schema

    @property
    def known_schema(self) -> Schema:
        """The schema in force, as far as this process knows: without a look into the store."""
        return self._core.schema

    def extend_schema(
        self, change: SchemaChange, *, words: str = "", by: str = "", accepts: Acceptance | None = None
    ) -> Schema:
        """Put in force, as the next version, what `change` makes of the present schema; return it.

        Everything that was valid stays valid, or SchemaError is raised: `broker.extend_schema(lambda schema:
        schema.add_attribute("colour", "text"))`. The history tells the words, and where it is told by whom, what changed. Events published after this returns are judged by it.
        What `accepts` a proposal answers it in the same commit; raises UnknownProposal where it had its answer.
        """
        extended, _ = self._queue.call(self._run_changes, ExtendSchema(change, words, by, accepts))
        return extended  # type: ignore[no-any-return]

    def schema_history(self) -> list[SchemaVersion]:
        """Return all versions of the schema, oldest first."""
        with self._core.store.read() as connection:
            return schema_history.history(connection)

    # --- notifications ------------------------------------------------------------------------------------------------

    def notifications(
        self, owner: str, *, cursor: str | None = None, limit: int = 100, consumer: str = CONSUMER
    ) -> NotificationPage:
        """Return an owner's notifications in order after a cursor; without one, after what was acknowledged.

        Raises BadCursor, and CursorExpired where some of what follows is no longer kept.
        """
        return read_page(self._core, owner, cursor, limit, consumer)

    def replay(self, owner: str, *, cursor: str | None = None) -> Iterator[NotificationPage]:
        """Yield page after page from a cursor, by default the oldest that is kept, to the present."""
        cursor = cursor or self.oldest_cursor()
        more = True
        while more:
            page = read_page(self._core, owner, cursor, self._core.settings.page, CONSUMER)
            cursor, more = page.cursor, page.more
            yield page

    def oldest_cursor(self) -> str:
        """Return the cursor from which everything that is kept follows."""
        return deliveries.oldest_cursor(self._core.store.meta())

    def acknowledge(self, owner: str, cursor: str, consumer: str = CONSUMER) -> None:
        """Remember that an owner has everything up to a cursor; never goes back."""
        check_name("a consumer", consumer)
        with self._core.commit() as commit:
            number = accounts.ensure_accounts(commit.transaction, [owner])[owner]
            position = position_of(cursor, commit.transaction.start, number)
            progress.acknowledge(commit.transaction, number, consumer, *position)

    def inbox(self, owner: str, query: InboxQuery = InboxQuery()) -> InboxPage:  # noqa: B008 - frozen
        """Return an owner's matched events, newest first, one entry an event with the subscriptions that it matched."""
        return inbox.read_inbox(self._core, owner, query)

    def mark_inbox_read(self, owner: str, through: int) -> None:
        """Remember that an owner has read the inbox up to a seq; never goes back."""
        self.acknowledge(owner, self.deliveries.cursor_at(min(through, self.store.meta().seq)), inbox.CONSUMER)

    def newest_matches(self, owner: str, limit: int) -> list[Position]:
        """Return (seq, subscription) of an owner's last matches, newest first."""
        return inbox.newest_matches(self._core, owner, limit)

    def match_times(self, owner: str, subscription: int, limit: int) -> list[datetime]:
        """Return when events came that a subscription of an owner matched, the last ones, newest first."""
        return inbox.match_times(self._core, owner, subscription, limit)

    def listen(self, owner: str, *, cursor: str | None = None, consumer: str = CONSUMER) -> Listener:
        """Return an owner's notifications as they come, from a cursor or from what was acknowledged."""
        return Listener(self._core, self._listeners, owner, cursor, consumer)

    def on_match(self, owner: str, callback: Callback, *, consumer: str = CONSUMER) -> CallbackThread:
        """Call a function with each notification of an owner, in a thread; acknowledges what it has handled."""
        thread = CallbackThread(self._core, self._listeners, owner, consumer, callback, self.acknowledge)
        self._callbacks.setdefault(owner, []).append(thread)
        return thread

    def dead_letters(self, *, publisher: str | None = None, after: int = 0, limit: int = 100) -> list[DeadLetterView]:
        """Return what could not be processed, and why; of one publisher, or of all."""
        with self._core.store.read() as connection:
            found = read_dead_letters(connection, after, limit, publisher)
        return [_dead_letter_view(letter) for letter in found]

    def replay_dead_letter(self, seq: int, *, publisher: str | None = None) -> PublishReceipt:
        """Publish the event of a dead letter again, as the schema is now; asking twice publishes it once.

        Raises UnknownDeadLetter, and EventRejected where it still breaks the rules.
        """
        found = inquiries.find_dead_letter(self._core, seq, publisher)
        if found is None or found.kind != "event":
            raise UnknownDeadLetter(seq)
        key, site = f"dead letter {seq}", found.site or None
        return self.publish(found.body, publisher=found.publisher, idempotency_key=key, site=site)

    def explain(self, seq: int, subscription: int, *, owner: str) -> Explanation:
        """Return why a stored notification came; raises UnknownNotification, also where it is another's."""
        return inquiries.explain_notification(self._core, owner, seq, subscription)

    def explain_event(self, event: RawEvent, subscription: int, *, owner: str) -> Explanation:
        """Return why an event, or offer, would match an owner's subscription, or not; nothing is published."""
        return inquiries.explain_event(self._core, owner, event, subscription)

    def explain_draft(self, event: RawEvent, expression: Expression) -> Explanation:
        """Return why an event, or offer, would match an expression, or not; nothing is stored."""
        return inquiries.explain_draft(self._core, event, expression)

    def read(self, raw: RawEvent) -> Event:
        """Return an event, or an offer, as publishing it would take it; raises EventRejected."""
        self._core.refresh()
        return inquiries.read_event(self._core, raw)

    @functools.cached_property
    def sites(self) -> Sites:
        """What accounts publish as."""
        return Sites(self._core, functools.partial(self._queue.call, self._run_changes))

    @functools.cached_property
    def held_offers(self) -> HeldOffers:
        """Offers that wait for subscriptions, and the programs that compute."""
        from tocsin.broker.inquiries import HeldOffers

        return HeldOffers(self._core, functools.partial(self._queue.call, self._run_changes))

    # --- upkeep -------------------------------------------------------------------------------------------------------

    @property
    def operators(self) -> Registry:
        """The operators that subscriptions may call."""
        return self._core.registry

    @property
    def settings(self) -> BrokerSettings:
        return self._core.settings

    def live_of(self, owner: int) -> int:
        """Return how many live subscriptions an account has."""
        with self._core.lock:
            return self._core.live.leases.live_of(owner)

    def usage_of(self, owner: int) -> dict[str, int]:
        """Return how many subscriptions an account has, live and paused, and what they take in bytes and processor time."""
        with self.store.read() as connection:
            paused, taken = subscriptions.count_paused(connection, owner), subscriptions.bytes_of(connection, owner)
        cost = sum(one.processor_us for one in self._core.meter.costs(owner))
        return {"subscriptions": self.live_of(owner) + paused, "subscription_bytes": taken, "processor_us": round(cost)}

    def costs(self, owner: int | None = None, most: int = 100) -> CostList:
        """Return what subscriptions, of one account or of all, cost within the last hour, the heaviest first.

        It is what this process has matched: in microseconds of processor time, and in matches. See cost_meter.py.
        """
        meter = self._core.meter
        found = {one.subscription: one for one in meter.costs(owner, most)}
        with self.store.read() as connection:
            known = {one.id: one for one in subscriptions.find_subscriptions(connection, list(found))}
        items = [
            CostView(known[id].origin, known[id].owner_name, one.matches, round(one.processor_us))
            for id, one in found.items()
            if id in known  # the others are removed
        ]
        return CostList(meter.match_us, items)

    def why_paused(self, owner: int, subscription: int) -> str | None:
        """Return why a subscription was paused last that its owner did not pause, as the audit trail has it."""
        with self.store.read() as connection:
            return accounts.last_action(connection, PAUSED, f"subscription {subscription}: ", owner)

    @property
    def store(self) -> Store:
        return self._core.store

    def now(self) -> datetime:
        """Return the time on the store's clock."""
        return instant(self._core.store.now_us())

    def sweep(self) -> list[int]:
        """End the leases that are over, and let go of what is too old; return the subscriptions that ended."""
        return self._sweeper.sweep()

    def match_backlog(self) -> int:
        """Match the oldest events that wait for the pipeline; return how many there were."""
        return publishing.match_some(self._core)

    @property
    def needs_kernels(self) -> bool:
        """Whether an event that is published now is matched by compiled kernels; else the definition answers for few."""
        return self._core.matches_inline and self._core.live.matcher.needs_kernels

    def index_stats(self) -> dict[str, Any]:
        """Return figures of the index."""
        with self._core.lock:
            return {
                "seq": self._core.live.seq,
                "live": len(self._core.live),
                "failures": self._core.live.failures,
                **self._core.live.matcher.stats(),
            }

    def save_index(self, *, merge: bool = False) -> None:
        """Write the index to disk, merged into one segment first if asked; the broker does so by itself now and then."""
        with self._core.lock:
            if merge:
                self._core.live.matcher.merge()
            self._core.live.save()


def _subscription_view(found: StoredSubscription) -> SubscriptionView:
    """Return a subscription as its owner sees it."""
    ended = {None: None, "paused": None, "replaced": None, "owner": "unsubscribed", "lease": "lease ended"}[
        found.deleted_by
    ]
    return SubscriptionView(
        found.origin,
        found.owner_name,
        text_of(found.text, found.tree),
        found.id,
        instant(found.start_us),
        instant(found.end_us),
        found.generation,
        ended,
        found.paused,
        price_of(found.tree),
        bool(found.renews),
    )


def _dead_letter_view(letter: DeadLetter) -> DeadLetterView:
    """Return a dead letter as its publisher sees it."""
    violations = tuple(Violation(*parts) for parts in msgspec.json.decode(letter.violations))
    body = letter.body.decode("utf-8", "backslashreplace")
    return DeadLetterView(letter.seq, letter.kind, letter.reason, violations, body, instant(letter.at_us))
