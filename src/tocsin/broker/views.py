"""Views: rows of the store as their owners see them."""

from __future__ import annotations

import msgspec

from tocsin.broker.expressions import text_of
from tocsin.broker.receipts import DeadLetterView, SubscriptionView
from tocsin.broker.times import instant
from tocsin.errors import Violation
from tocsin.store.letters import DeadLetter
from tocsin.store.subscriptions import StoredSubscription


def subscription_view(found: StoredSubscription) -> SubscriptionView:
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
    )


def letter_view(letter: DeadLetter) -> DeadLetterView:
    """Return a dead letter as its publisher sees it."""
    violations = tuple(Violation(*parts) for parts in msgspec.json.decode(letter.violations))
    return DeadLetterView(letter.seq, letter.kind, letter.reason, violations, letter.body, instant(letter.at_us))
