"""Trial: a draft subscription asked of events one by one, outside of any index; for estimates and looks back.

By a matcher of its own, which asks operators only where the rest leaves it open; and only as long as the allowance of
seconds for operators lasts: whoever asks is waiting, and may ask often.
"""

from __future__ import annotations

from tocsin.broker.expressions import Prepared
from tocsin.matching.matcher import Matcher
from tocsin.operators.registry import Registry
from tocsin.schema import Event

OPERATOR_SECONDS = 1.0  # for the operators of one trial


class Trial:
    """One draft; `spent` says that it has had its time, and should be asked of no further events."""

    def __init__(self, draft: Prepared, registry: Registry) -> None:
        self._registry = registry
        self._before = self._seconds()
        self._matcher = Matcher(draft.schema, operators=registry)
        self._matcher.add(0, draft.bound)

    def _seconds(self) -> float:
        """Return what operators have taken so far, whoever called them."""
        return sum(each.seconds for each in list(self._registry.runner.counts.values()))

    def holds(self, event: Event) -> bool:
        """Return whether the event, or offer, satisfies the draft."""
        return bool(self._matcher.match(event))

    @property
    def spent(self) -> bool:
        return self._seconds() - self._before > OPERATOR_SECONDS
