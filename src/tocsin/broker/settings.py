"""Settings of a broker: bounds, leases, retention. Every bound refuses clearly, before anything is acknowledged."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from tocsin.errors import LeaseOutOfBounds, QuotaExceeded
from tocsin.store.transaction import SECOND

DAY = 86400.0


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """What a broker grants and keeps; sizes in bytes, times in seconds."""

    default_lease_seconds: float = DAY
    shortest_lease_seconds: float = 1.0
    longest_lease_seconds: float = 366 * DAY
    notice_seconds: float = 3 * DAY  # before a lease ends; at most a tenth of the lease
    retention_seconds: float = 7 * DAY  # of events, notifications, dead letters and idempotency keys
    event_bytes: int = 256 << 10
    batch_events: int = 100_000  # in one publish
    expression_bytes: int = 64 << 10
    subscriptions_per_owner: int = 1_000_000
    subscription_bytes_per_owner: int = 4 << 30  # by store/subscriptions.py
    waiting_requests: int = 20_000  # in the queue of the group commit; beyond it, Overloaded
    page: int = 1000  # notifications in one page at most
    sweep_seconds: float = 0.5
    poll_seconds: float = 1.0  # how long a listener may take to see what another process stored
    save_changes: int = 5000  # after which the index is written to disk, or 2% where that is more: a start catches up
    save_seconds: float = 60.0  # after which it is written with fewer
    reveal_subscribers: bool = False  # tell publishers which subscriptions an offer reached, not only how many
    reveal_rules: bool = False  # tell subscribers what an offer's rules say
    query_offers: int = 1000  # that a query returns at most
    callback_attempts: int = 3  # before a notification that a callback fails on becomes a dead letter

    def lease_us(self, lease: float | timedelta | None) -> int:
        """Return the length of a lease in microseconds; raises LeaseOutOfBounds."""
        if lease is None:
            seconds = self.default_lease_seconds
        else:
            seconds = lease.total_seconds() if isinstance(lease, timedelta) else float(lease)
        if not self.shortest_lease_seconds <= seconds <= self.longest_lease_seconds:  # NaN is refused too
            raise LeaseOutOfBounds(seconds, self.shortest_lease_seconds, self.longest_lease_seconds)
        return round(seconds * SECOND)


def check_name(what: str, name: str) -> None:
    """Raise QuotaExceeded unless a name is short and printable."""
    if not name or len(name) > 200 or not name.isprintable():
        raise QuotaExceeded(f"{what} is named by 1 to 200 printable characters")
