"""A matcher's first subscriptions, before its kernels are compiled: the definition answers for them.

Kernels are compiled once after an install, for a minute or two. A first look has few subscriptions and few events, and need
not wait for that: YoungMatcher holds them, and `Matcher` asks it as long as it answers. What is too much for it moves
into the index (matching/matcher.py), once and for good.

A service compiles beside its answers (`compiling_beside` is set meanwhile): whoever moved to the index then would
wait for the compiler, so the definition goes on for longer.

OwnWords: the first subscriptions in the words of their owners, so that they are explained the same by the definition and by
the index, which keeps nothing but rows of them.
"""

from __future__ import annotations

import threading

from tocsin.language import BoundSubscription
from tocsin.matching.columnar.emit import match_packed
from tocsin.matching.engine import NaiveMatcher, SubscriptionId

MOST_YOUNG = 1_000  # subscriptions that the definition answers for, and that are explained as they were written
MOST_DECIDED = 20_000  # pairs that it decides: half a second's worth
MOST_AT_ONCE = 500_000  # pairs of one request, while kernels are compiled beside it: about what that takes
compiling_beside = threading.Event()  # set while another thread compiles what a matcher needs


def kernels_kept() -> bool:
    """Return whether the kernels of a match need not be compiled: by the last of them, of this process or of the cache."""
    if not hasattr(match_packed, "signatures"):  # where NUMBA_DISABLE_JIT
        return True
    file = getattr(match_packed._cache, "_cache_file", None)  # type: ignore[attr-defined]
    return bool(match_packed.signatures) or (file is not None and bool(file._load_index()))


class YoungMatcher(NaiveMatcher):
    """The definition, for as much as it answers about as fast as one would wait for the kernels to be loaded."""

    def answers(self, events: int) -> bool:
        """Return whether it is to answer for so many events."""
        pairs = events * len(self)
        if compiling_beside.is_set():
            return pairs <= MOST_AT_ONCE
        return self.work.subscriptions_checked + pairs <= MOST_DECIDED

    def takes(self, more: int = 1) -> bool:
        """Return whether it is to hold so many more subscriptions."""
        return len(self) + more <= MOST_YOUNG

    @property
    def asks_operators(self) -> bool:
        """Whether a subscription calls operators, which the definition would call again for each event."""
        return any(subscription.operators for _, subscription in self.held())

    def snapshot(self) -> YoungMatcher:
        copy = YoungMatcher(self.schema, self.operators, self.programs)
        copy._subscriptions = dict(self._subscriptions)
        return copy


class OwnWords:
    """Subscriptions as their owners wrote them, the first of a matcher."""

    def __init__(self) -> None:
        self._held: dict[SubscriptionId, BoundSubscription] = {}

    def add(self, id: SubscriptionId, subscription: BoundSubscription) -> None:
        """Keep one, where there is room."""
        if len(self._held) < MOST_YOUNG:
            self._held[id] = subscription

    def remove(self, id: SubscriptionId) -> None:
        """Let go of one, where it is kept."""
        self._held.pop(id, None)

    def get(self, id: SubscriptionId) -> BoundSubscription | None:
        """Return one, where it is kept."""
        return self._held.get(id)
