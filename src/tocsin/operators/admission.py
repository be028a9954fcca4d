"""Admission: whether a subscription that calls operators can be held by a matcher whose answers are kept.

What is stored is matched later, by whichever process is there, and matched again after a crash: so its operators must
be pure, and the parts that it falls into within the bounds of the engines. Found when the subscription is made.
"""

from __future__ import annotations

from tocsin.compile.normalise import normalise
from tocsin.errors import BindError
from tocsin.language import BoundSubscription, Subscription
from tocsin.language.syntax import NEVER
from tocsin.operators.alternatives import alternatives
from tocsin.operators.registry import Registry


def admit(subscription: BoundSubscription, registry: Registry) -> None:
    """Raise LanguageError unless the subscription, bound by the registry, can be held."""
    for name in subscription.operators:
        if not registry.get(name).pure:
            raise BindError(
                f"the operator {name} is not pure: it may answer otherwise when an event is matched again, so it cannot "
                "be part of a stored subscription"
            )
    tree = subscription.subscription
    for alternative in alternatives(tree.where):
        if alternative.cheap != NEVER:
            normalise(BoundSubscription(Subscription(tree.event_types, alternative.cheap), subscription.view))
