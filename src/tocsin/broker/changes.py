"""Changes: each is a request that is run within a commit.

Subscribing, renewing, unsubscribing, replacing, pausing, resuming, extending the schema.

A request first decides, from what the commit sees, and only then writes: so one that is refused has done nothing, and
those that share its commit are not disturbed. Several requests make one commit (core.py).

Replacing an expression, pausing and resuming keep the id: each ends the subscription as it is, or begins another at a
new seq, or both: store/subscriptions.py says why.

Tickets: the secret that authorises renewing and unsubscribing (Liu et al., section 5.1).

Theirs was an MD5 of the subscription and a random number; ours is 256 random bits, and the store has its SHA-256 only.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from tocsin.broker.core import BrokerSettings, Commit, Core, Pending
from tocsin.broker.expressions import Expression, Prepared, prepare, prepare_all
from tocsin.broker.live_index import Lease
from tocsin.documents.subscriptions import EndReceipt, SubscriptionReceipt
from tocsin.errors import (
    IdempotencyConflict,
    LeaseEnded,
    QuotaExceeded,
    SchemaError,
    Slowed,
    StaleRenewal,
    TocsinError,
    UnknownSubscription,
    WrongTicket,
)
from tocsin.schema import Schema
from tocsin.schema.files import dumps
from tocsin.schema.growth import check_extends, described
from tocsin.schema.sources import has_sources, with_sources
from tocsin.store import accounts, events, schema_history, subscriptions
from tocsin.store.accounts import Account
from tocsin.store.store import instant
from tocsin.store.subscriptions import NewSubscription, StoredSubscription, price_of


def new_ticket() -> tuple[str, bytes]:
    """Return a ticket and what the store keeps of it."""
    ticket = secrets.token_urlsafe(32)
    return ticket, ticket_hash(ticket)


def ticket_hash(ticket: str) -> bytes:
    """Return what the store keeps of a ticket. A plain hash does: there is nothing to guess in 256 random bits."""
    return hashlib.sha256(ticket.encode("utf-8", "surrogatepass")).digest()


def is_ticket(ticket: str, kept: bytes) -> bool:
    """Return whether the ticket is the one; takes the same time wherever it differs."""
    return hmac.compare_digest(ticket_hash(ticket), kept)


# Changes.


class Change(Protocol):
    """A request that changes something in the store."""

    def run(self, commit: Commit, settings: BrokerSettings) -> object:
        """Decide, then write; return the answer."""


def run_changes(core: Core, pending: Sequence[Pending[Change, object]]) -> None:
    """Run changes one after the other in one commit."""
    with core.commit() as commit:
        for one in pending:
            try:
                one.answer = one.request.run(commit, core.settings)
            except TocsinError as error:
                one.error = error


# --- subscribe --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Subscribe:
    """Store subscriptions of one owner, prepared against a schema version; they get seqs one after the other."""

    owner: str
    expressions: Sequence[Expression]
    lease_us: int
    schema: Schema
    prepared: list[Prepared]
    key: str | None = None  # the idempotency key
    renews: bool = False

    def run(self, commit: Commit, settings: BrokerSettings) -> list[SubscriptionReceipt]:
        if self.key is None:
            return self._store(commit, settings)
        name, hashed = (self.owner, f"\t{self.key}"), self._hash()  # the tab keeps keys of publishing apart
        before = events.find_answer(commit.connection, *name)
        if before is not None:
            if before[0] != hashed:
                raise IdempotencyConflict(self.key)
            return msgspec.json.decode(before[1], type=list[SubscriptionReceipt])
        receipts = self._store(commit, settings)
        kept = [
            msgspec.structs.replace(one, ticket=None) for one in receipts
        ]  # tickets are stored hashed, and nowhere else
        events.add_answers(commit.transaction, [(*name, hashed, msgspec.json.encode(kept))])
        return receipts

    def _hash(self) -> bytes:
        asked = msgspec.json.encode([self.lease_us, [one.text for one in self.prepared], *([True] * self.renews)])
        return hashlib.sha256(asked).digest()

    def _store(self, commit: Commit, settings: BrokerSettings) -> list[SubscriptionReceipt]:
        if commit.schema.version != self.schema.version:  # extended meanwhile; what was valid still is
            most_bytes, registry = settings.expression_bytes, commit.registry
            self.prepared = prepare_all(self.expressions, commit.schema, most_bytes=most_bytes, registry=registry)
        account = accounts.read_account(commit.connection, self.owner)
        check_not_slowed(commit, settings, account)
        check_quotas(commit, settings, self.owner, account, self.prepared)
        number = (
            accounts.ensure_accounts(commit.transaction, [self.owner])[self.owner]
            if account is None
            else account.number
        )
        tickets = [new_ticket() for _ in self.prepared]
        first = subscriptions.add_subscriptions(
            commit.transaction,
            [
                NewSubscription(number, one.text, one.tree, commit.schema.version, kept, self.lease_us, self.renews)
                for one, (_, kept) in zip(self.prepared, tickets, strict=True)
            ],
        )
        start, end = commit.now_us, commit.now_us + self.lease_us
        commit.add([(Lease(first + at, number, start, end), one) for at, one in enumerate(self.prepared)])
        return [
            SubscriptionReceipt(first + at, first + at, instant(end), 1, ticket, *_cost(commit, one))
            for at, ((ticket, _), one) in enumerate(zip(tickets, self.prepared, strict=True))
        ]


def _cost(commit: Commit, one: Prepared) -> tuple[int, float]:
    """Return what a subscription costs: bytes, and the seconds that its operators say an event takes them."""
    called = () if one.plain or one.judged is None else one.judged.operators
    return price_of(one.tree), sum(commit.registry.get(name).cost for name in called if name in commit.registry)


def check_quotas(
    commit: Commit,
    settings: BrokerSettings,
    owner: str,
    account: Account | None,
    new: Sequence[Prepared],
    less: int = 0,
) -> None:
    """Raise QuotaExceeded where an owner would have too many subscriptions, or too large ones.

    Within the commit, so that requests that come together cannot pass together. `less` is the price of what is replaced.
    """
    quotas = {} if account is None else account.quotas
    most = quotas.get("subscriptions", settings.subscriptions_per_owner)
    most_bytes = quotas.get("subscription_bytes", settings.subscription_bytes_per_owner)
    has = 0 if account is None else commit.count_of(account.number)
    if not less and has + len(new) > most:
        raise QuotaExceeded(f"{owner} has {has} subscriptions, and may have {most}; unsubscribe some first")
    price = sum(price_of(one.tree) for one in new)
    taken = 0 if account is None else subscriptions.bytes_of(commit.connection, account.number)
    if taken - less + price > most_bytes:
        raise QuotaExceeded(
            f"{owner}'s subscriptions take {taken} bytes and may take {most_bytes}; "
            f"this would take {price}: ask for fewer values, or unsubscribe some first"
        )


def check_not_slowed(commit: Commit, settings: BrokerSettings, account: Account | None) -> None:
    """Raise Slowed where an account's subscriptions cost more processor time than they may (cost_meter.py)."""
    if account is None or (granted := processor_seconds(account.quotas, settings)) is None:
        return
    if (wait := commit.meter.wait_seconds(account.number, granted)) > 0:
        raise Slowed(
            f"{account.name}'s subscriptions take more processor time than the {granted:g} seconds an hour that they may: "
            f"pause or narrow those that match most, or try again in {wait:.0f} seconds",
            wait,
        )


def processor_seconds(quotas: Mapping[str, int], settings: BrokerSettings) -> float | None:
    """Return how many seconds of processor time an account's subscriptions may take in an hour; None: any number."""
    return quotas.get("processor_seconds", settings.processor_seconds_per_owner)


# --- renew and unsubscribe --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Claim:
    """Who says that a subscription is theirs: by its ticket, or as its owner."""

    id: int
    ticket: str | None = None
    owner: str | None = None

    def find(self, commit: Commit) -> StoredSubscription:
        """Return the subscription; raises WrongTicket or UnknownSubscription, the same whether it is absent or not theirs."""
        return self.check(subscriptions.find_current(commit.connection, [self.id]).get(self.id))

    def check(self, found: StoredSubscription | None) -> StoredSubscription:
        """Return what was found under the id, if it is theirs."""
        if self.ticket is not None:
            if not is_ticket(self.ticket, found.ticket_hash if found else bytes(32)) or found is None:
                raise WrongTicket
        elif found is None or found.owner_name != self.owner:
            raise UnknownSubscription(self.id)
        return found


def claim_of(subscription: SubscriptionReceipt | int, ticket: str | None, owner: str | None) -> Claim:
    """Return the claim to a subscription: by a ticket, which a receipt has, or as its owner."""
    if isinstance(subscription, SubscriptionReceipt):
        if ticket is None and owner is None:
            ticket = subscription.ticket
        subscription = subscription.id
    if (ticket is None) == (owner is None):
        raise TypeError("give either the ticket or the owner")
    return Claim(subscription, ticket, owner)


@dataclass(frozen=True, slots=True)
class Renew:
    """Move the end of a lease to `lease_us` from now, if it is still at that generation; never to before where it was."""

    claim: Claim
    generation: int
    lease_us: int
    renews: bool = False

    def run(self, commit: Commit, settings: BrokerSettings) -> SubscriptionReceipt:
        del settings
        found = self.claim.find(commit)
        check_not_over(commit, found)
        if found.generation != self.generation:
            raise StaleRenewal(found.origin, self.generation, found.generation, found.end_us)
        end = max(found.end_us, commit.now_us + self.lease_us)
        seq = subscriptions.renew(commit.transaction, found.id, end, found.generation + 1, renews=self.renews)
        commit.renew(found.id, end)
        return SubscriptionReceipt(found.origin, seq, instant(end), found.generation + 1)


def check_not_over(commit: Commit, found: StoredSubscription) -> None:
    """Raise LeaseEnded where a subscription is over."""
    if found.is_over(commit.now_us):
        commit.transaction.keep_time()  # we say that it ended, so time may not go back to before that
        raise LeaseEnded(found.origin, "it was unsubscribed" if found.deleted_by == "owner" else "its lease ended")


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """End subscriptions. One that is over already stays as it was, so that asking twice does no harm."""

    claims: Sequence[Claim]

    def run(self, commit: Commit, settings: BrokerSettings) -> list[EndReceipt]:
        del settings
        kept = subscriptions.find_current(commit.connection, [claim.id for claim in self.claims])
        found = [claim.check(kept.get(claim.id)) for claim in self.claims]
        live = [one for one in found if one.deleted_seq is None]
        paused = [one for one in found if one.paused]
        seq = 0
        if live:
            seq = subscriptions.end_leases(commit.transaction, [one.id for one in live], "owner")
        if live or paused:
            # Those that went before under the same id too: nothing more is delivered for them either.
            earlier = subscriptions.all_ids(commit.connection, [one.origin for one in (*live, *paused)])
            subscriptions.set_ending(commit.transaction, earlier, "owner")
            commit.unsubscribe([one.id for one in live], seq or commit.transaction.seq, earlier)
        return [EndReceipt(one.origin, seq if one.deleted_seq is None else one.deleted_seq) for one in found]


# --- schema -----------------------------------------------------------------------------------------------------------

SchemaChange = Callable[[Schema], Schema]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """An admin's yes to a proposal."""

    proposal: int
    who: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class ExtendSchema:
    """Put the schema that `change` makes of the present one in force, as the next version."""

    change: SchemaChange
    words: str  # why
    by: str = ""  # who
    accepts: Acceptance | None = None  # the proposal that asks for it

    def run(self, commit: Commit, settings: BrokerSettings) -> tuple[Schema, int]:
        del settings
        if self.accepts is not None:
            schema_history.waiting_proposal(commit.connection, self.accepts.proposal)
        changed = self.change(commit.schema)
        if has_sources(commit.schema) or has_sources(changed):
            changed = with_sources(changed)  # new event types tell where their events come from, too
        extended = replace(changed, version=commit.schema.version + 1)
        check_extends(commit.schema, extended)
        said = self.words
        if self.by:
            said = f"{self.by}: {'; '.join(described(commit.schema, extended))}{f' ({said})' if said else ''}"
        seq = schema_history.add_version(commit.transaction, extended, said)
        if (yes := self.accepts) is not None:
            schema_history.decide_proposal(
                commit.transaction, yes.proposal, "accepted", yes.who, yes.words, extended.version
            )
        commit.set_schema(extended)
        return extended, seq


@dataclass(frozen=True, slots=True)
class FirstSchema:
    """Put the first schema of a store in force; where there is one, it must have been the same at some time."""

    schema: Schema

    def run(self, commit: Commit, settings: BrokerSettings) -> Schema:
        del settings
        if not commit.has_schema:
            schema_history.add_version(commit.transaction, self.schema, "the first")
            commit.set_schema(self.schema)
            return self.schema
        if not any(same(self.schema, entry.schema) for entry in schema_history.history(commit.connection)):
            raise SchemaError(
                "the store has another schema; open it without one, and change it by extend_schema, or open a new store"
            )
        return commit.schema


def same(a: Schema, b: Schema) -> bool:
    """Return whether two schemas say the same, whatever their version."""
    return dumps(replace(a, version=1), "json") == dumps(replace(b, version=1), "json")


# --- replace, pause and resume ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Replace:
    """Let a subscription ask for something else; one that is paused stays so."""

    claim: Claim
    expression: Expression
    prepared: Prepared

    def run(self, commit: Commit, settings: BrokerSettings) -> SubscriptionReceipt:
        found = self.claim.find(commit)
        check_not_over(commit, found)
        if commit.schema.version != self.prepared.schema.version:
            most_bytes, registry = settings.expression_bytes, commit.registry
            self.prepared = prepare(self.expression, commit.schema, most_bytes=most_bytes, registry=registry)
        account = accounts.read_account_of(commit.connection, found.owner)
        check_quotas(commit, settings, found.owner_name, account, [self.prepared], price_of(found.tree))
        seq = _begin_again(commit, found, self.prepared)
        if found.paused:
            seq = pause(commit, [seq])
        price, seconds = _cost(commit, self.prepared)
        return msgspec.structs.replace(_receipt(found, seq), price_bytes=price, operator_seconds=seconds)


@dataclass(frozen=True, slots=True)
class Pause:
    """Let a subscription match nothing; asking twice does no harm."""

    claim: Claim

    def run(self, commit: Commit, settings: BrokerSettings) -> SubscriptionReceipt:
        del settings
        found = self.claim.find(commit)
        check_not_over(commit, found)
        return _receipt(found, found.changed_seq if found.paused else pause(commit, [found.id]))


@dataclass(frozen=True, slots=True)
class Resume:
    """Let a paused subscription match again; asking twice does no harm."""

    claim: Claim

    def run(self, commit: Commit, settings: BrokerSettings) -> SubscriptionReceipt:
        found = self.claim.find(commit)
        check_not_over(commit, found)
        if not found.paused:
            return _receipt(found, found.changed_seq)
        check_not_slowed(commit, settings, accounts.read_account_of(commit.connection, found.owner))
        operators = commit.live.matcher.matcher.stored_operators
        prepared = Prepared.again(found.text, found.tree, commit.schema, operators)
        return _receipt(found, _begin_again(commit, found, prepared))


def _begin_again(commit: Commit, found: StoredSubscription, prepared: Prepared) -> int:
    """End what is there, and begin another under the same id; return its seq."""
    if found.deleted_seq is None:
        commit.end([found.id], subscriptions.end_leases(commit.transaction, [found.id], "replaced"))
    else:
        subscriptions.set_ending(commit.transaction, [found.id], "replaced")
    lease_us = found.end_us - found.start_us
    new = NewSubscription(found.owner, prepared.text, prepared.tree, commit.schema.version, found.ticket_hash, lease_us)
    seq = subscriptions.add_version(commit.transaction, found, new)
    commit.add([(Lease(seq, found.owner, found.start_us, found.end_us), prepared)])
    return seq


def pause(commit: Commit, ids: list[int]) -> int:
    """Let live subscriptions match nothing from here on; return the seq."""
    seq = subscriptions.end_leases(commit.transaction, ids, "paused")
    commit.end(ids, seq)
    return seq


def _receipt(found: StoredSubscription, seq: int) -> SubscriptionReceipt:
    return SubscriptionReceipt(found.origin, seq, instant(found.end_us), found.generation)
