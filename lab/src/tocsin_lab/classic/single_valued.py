"""SingleValuedMatcher: the front end of the engines whose papers know one value per attribute.

They take no predicate on an attribute that may have several values, and none on the words of a text. An event of
several types is matched once as an event of each: what a subscription asks about types is then a single value too.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tocsin.language.syntax import Op
from tocsin.matching.engine import Capabilities
from tocsin.schema import Event
from tocsin_lab.classic.front import ClassicMatcher, RowNumbers

COMPARISONS = frozenset({Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE})
INTERVALS = COMPARISONS | {Op.IN, Op.BETWEEN, Op.KIND_OF, Op.STARTS_WITH, Op.PRESENT, Op.ABSENT}


class SingleValuedMatcher(ClassicMatcher):
    """One label per column and event."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        operators=INTERVALS, several_patterns=False, multiple_attributes=False
    )

    def matching_rows(self, event: Event) -> RowNumbers:
        found = [self._match(self.columns.code_event(event, event_type)) for event_type in event.types]
        return self._finish(event, np.unique(np.concatenate(found)) if len(found) > 1 else found[0])
