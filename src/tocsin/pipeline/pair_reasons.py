"""Why pairs matched: the conjunction that held, and the whole explanation; for the pairs that ask for it.

Explaining is by the definition (language/explain.py), pair by pair, and so a thousand times slower than matching.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tocsin.errors import TocsinError
from tocsin.language import BoundSubscription, bind, explain
from tocsin.language.documents import decode, from_document
from tocsin.language.explain import Outcome
from tocsin.pipeline.open_index import OpenIndex
from tocsin.schema import Event


@dataclass(frozen=True, slots=True)
class PairReason:
    """Why one pair matched: the conjunction as text, the explanation as JSON."""

    conjunction: str
    reasons: str


class PairReasons:
    """Explains pairs of one index."""

    def __init__(self, index: OpenIndex) -> None:
        self._index = index
        self._bound = functools.lru_cache(maxsize=10_000)(self._bind)

    def explain_all(self, pairs: Iterable[tuple[Any, Event]]) -> list[PairReason]:
        """Return the reason of each (subscription id, event)."""
        return [self._explain(id, event) for id, event in pairs]

    def _explain(self, id: Any, event: Event) -> PairReason:
        explanation = explain(self._bound(id), event, self._index.operators)
        if not explanation.matched:
            raise TocsinError(f"subscription {id} was found to match, and the definition says it does not")
        return PairReason(" and ".join(_held(explanation.root)) or "always", json.dumps(explanation.as_json()))

    def _bind(self, id: Any) -> BoundSubscription:
        _, tree = from_document(decode(self._index.document(id)))
        return bind(tree, self._index.schema, operators=self._index.operators)


def _held(outcome: Outcome) -> list[str]:
    """Return the predicates of the first alternative that held."""
    if outcome.condition == "and" and outcome.attribute is None:
        return [condition for part in outcome.parts for condition in _held(part)]
    if outcome.condition == "or" and outcome.attribute is None:
        return next((_held(part) for part in outcome.parts if part.held), [])
    return [outcome.condition]
