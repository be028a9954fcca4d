"""Trial: a draft subscription asked of events one by one, outside of any index; for estimates and looks back.

By the definition where it is cheap. A draft that calls operators is asked by a matcher of its own, which shares results and
orders calls, and only as long as its allowance of seconds lasts: whoever asks is waiting, and may ask often.
"""

from __future__ import annotations

import time

from tocsin.broker.expressions import Prepared
from tocsin.language import evaluate
from tocsin.matching.matcher import Matcher
from tocsin.operators.registry import Registry
from tocsin.schema import Event

OPERATOR_SECONDS = 1.0  # for the operators of one trial


class Trial:
    """One draft; `spent` says that it has had its time, and should be asked of no further events."""

    def __init__(self, draft: Prepared, registry: Registry) -> None:
        self._bound, self._seconds = draft.bound, 0.0
        self._matcher: Matcher | None = None
        if self._bound.operators:
            self._matcher = Matcher(draft.schema, operators=registry)
            self._matcher.add(0, self._bound)

    def holds(self, event: Event) -> bool:
        """Return whether the event, or offer, satisfies the draft."""
        if self._matcher is None:
            return evaluate(self._bound, event)
        started = time.perf_counter()
        found = bool(self._matcher.match(event))
        self._seconds += time.perf_counter() - started
        return found

    @property
    def calls_operators(self) -> bool:
        return self._matcher is not None

    @property
    def spent(self) -> bool:
        return self._seconds > OPERATOR_SECONDS
