"""Going on under the same id: replacing an expression, pausing, resuming, each as a request that a turn runs.

Each ends the subscription as it is, or begins another at a new seq, or both: store/replacements.py says why.
"""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.broker.changes import Claim, check_going_on, check_quotas
from tocsin.broker.core import Turn
from tocsin.broker.expressions import Expression, Prepared, prepare
from tocsin.broker.live_leases import Lease
from tocsin.broker.receipts import SubscriptionReceipt
from tocsin.broker.settings import BrokerSettings
from tocsin.broker.times import instant
from tocsin.store import accounts, subscriptions
from tocsin.store.prices import price_of
from tocsin.store.subscriptions import NewSubscription, StoredSubscription


@dataclass(slots=True)
class Replace:
    """Let a subscription ask for something else; one that is paused stays so."""

    claim: Claim
    expression: Expression
    prepared: Prepared

    def run(self, turn: Turn, settings: BrokerSettings) -> SubscriptionReceipt:
        found = self.claim.find(turn)
        check_going_on(turn, found)
        if turn.schema.version != self.prepared.schema.version:
            most_bytes, registry = settings.expression_bytes, turn.registry
            self.prepared = prepare(self.expression, turn.schema, most_bytes=most_bytes, registry=registry)
        account = accounts.read_account_of(turn.connection, found.owner)
        check_quotas(turn, settings, found.owner_name, account, [self.prepared], price_of(found.tree))
        seq = _go_on(turn, found, self.prepared)
        if found.paused:
            seq = _pause(turn, seq)
        return _receipt(found, seq)


@dataclass(frozen=True, slots=True)
class Pause:
    """Let a subscription match nothing; asking twice does no harm."""

    claim: Claim

    def run(self, turn: Turn, settings: BrokerSettings) -> SubscriptionReceipt:
        del settings
        found = self.claim.find(turn)
        check_going_on(turn, found)
        return _receipt(found, found.changed_seq if found.paused else _pause(turn, found.id))


@dataclass(frozen=True, slots=True)
class Resume:
    """Let a paused subscription match again; asking twice does no harm."""

    claim: Claim

    def run(self, turn: Turn, settings: BrokerSettings) -> SubscriptionReceipt:
        del settings
        found = self.claim.find(turn)
        check_going_on(turn, found)
        if not found.paused:
            return _receipt(found, found.changed_seq)
        operators = turn.live.matcher.matcher.stored_operators
        prepared = Prepared.again(found.text, found.tree, turn.schema, operators)
        return _receipt(found, _go_on(turn, found, prepared))


def _go_on(turn: Turn, found: StoredSubscription, prepared: Prepared) -> int:
    """End what is there, and begin another under the same id; return its seq."""
    if found.deleted_seq is None:
        turn.end([found.id], subscriptions.end_leases(turn.transaction, [found.id], "replaced"))
    else:
        subscriptions.set_ending(turn.transaction, [found.id], "replaced")
    lease_us = found.end_us - found.start_us
    new = NewSubscription(found.owner, prepared.text, prepared.tree, turn.schema.version, found.ticket_hash, lease_us)
    seq = subscriptions.add_version(turn.transaction, found, new)
    turn.add([(Lease(seq, found.owner, found.start_us, found.end_us), prepared)])
    return seq


def _pause(turn: Turn, id: int) -> int:
    seq = subscriptions.end_leases(turn.transaction, [id], "paused")
    turn.end([id], seq)
    return seq


def _receipt(found: StoredSubscription, seq: int) -> SubscriptionReceipt:
    return SubscriptionReceipt(found.origin, seq, instant(found.end_us), found.generation)
