"""Word checks: those of a segment's checks that ask for words in order, decided from the words of texts by a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.compile.table import Check, CheckKind
from tocsin.index.word_tokens import WordPatterns
from tocsin.language.syntax import Not, Predicate, Words

if TYPE_CHECKING:
    from collections.abc import Callable

    from tocsin.index.encode import EventSource
    from tocsin.language.syntax import Node
    from tocsin.schema import Schema

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]


class _OfAttribute(NamedTuple):
    """The checks on one attribute that ask for words in order; per check its pattern (-1: none) and whether negated."""

    patterns: WordPatterns
    pattern: npt.NDArray[np.int32]
    negated: Bools


class WordChecks:
    """The word checks of one segment, by attribute."""

    def __init__(self, checks: Sequence[Check], node_of: Callable[[int], Node], schema: Schema) -> None:
        self._schema = schema
        found: dict[str, list[tuple[int, Words, bool]]] = {}
        for number, check in enumerate(checks):
            if check.kind is CheckKind.PREDICATE and '"contains"' in check.expression:
                node = node_of(number)
                predicate = node.part if isinstance(node, Not) else node
                if isinstance(predicate, Predicate) and isinstance(predicate.operand, Words):
                    found.setdefault(check.attribute, []).append((number, predicate.operand, isinstance(node, Not)))
        self._attributes = {name: _of_attribute(asked, len(checks)) for name, asked in found.items()}

    def decide(self, source: EventSource, checks: npt.NDArray[np.int32], events: Int64s) -> tuple[Bools, Bools]:
        """Return which pairs of a check and an event are decided by the words of texts, and whether these hold."""
        decided, holds = np.zeros(len(checks), np.bool_), np.zeros(len(checks), np.bool_)
        for attribute, asked in self._attributes.items():
            pairs = np.flatnonzero(asked.pattern[checks] >= 0)
            tokens = source.word_tokens(attribute, self._schema.domain_of(attribute)) if len(pairs) else None
            if tokens is not None:
                texts, wanted = events[pairs], checks[pairs]
                found = tokens.satisfying(asked.patterns, asked.pattern[wanted], texts)
                decided[pairs], holds[pairs] = True, (found != asked.negated[wanted]) & tokens.present[texts]
        return decided, holds


def _of_attribute(asked: list[tuple[int, Words, bool]], checks: int) -> _OfAttribute:
    pattern, negated = np.full(checks, -1, np.int32), np.zeros(checks, np.bool_)
    for place, (number, _, isnt) in enumerate(asked):
        pattern[number], negated[number] = place, isnt
    return _OfAttribute(WordPatterns([words for _, words, _ in asked]), pattern, negated)
