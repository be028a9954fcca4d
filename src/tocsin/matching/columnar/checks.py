"""Checks: the predicates that codes cannot decide, evaluated by the definition, once per event and distinct check."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.compile.table import Check
from tocsin.index.word_tokens import WordPatterns
from tocsin.language.json_form import node_from_json
from tocsin.language.semantics import holds
from tocsin.language.syntax import Node, Not, Predicate, Words
from tocsin.schema import Event, Schema

if TYPE_CHECKING:
    from tocsin.index.encode import EventSource


class Checks:
    """The checks of one segment."""

    def __init__(self, checks: Sequence[Check], schema: Schema) -> None:
        self._checks, self._schema = checks, schema

    @property
    def schema(self) -> Schema:
        return self._schema

    @cached_property
    def word_checks(self) -> dict[str, WordChecks]:
        """The checks that ask for words in order, by attribute."""
        found: dict[str, list[tuple[int, Words, bool]]] = {}
        for number, check in enumerate(self._checks):
            if '"contains"' in check.expression:
                node = self.node(number)
                predicate = node.part if isinstance(node, Not) else node
                if isinstance(predicate, Predicate) and isinstance(predicate.operand, Words):
                    asked = (number, predicate.operand, isinstance(node, Not))
                    found.setdefault(check.attribute, []).append(asked)
        return {attribute: self._word_checks(asked) for attribute, asked in found.items()}

    def _word_checks(self, asked: list[tuple[int, Words, bool]]) -> WordChecks:
        pattern, negated = np.full(len(self._checks), -1, np.int32), np.zeros(len(self._checks), np.bool_)
        for place, (number, _, isnt) in enumerate(asked):
            pattern[number], negated[number] = place, isnt
        return WordChecks(WordPatterns([words for _, words, _ in asked]), pattern, negated)

    @cached_property
    def _nodes(self) -> list[Node | None]:
        return [None] * len(self._checks)

    def node(self, number: int) -> Node:
        """Return the predicate of a check, read when it is first needed."""
        node = self._nodes[number]
        if node is None:
            node = self._nodes[number] = node_from_json(json.loads(self._checks[number].expression))
        return node

    def hold(self, source: EventSource, number: int, events: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return whether the check holds for each of these events of the source."""
        node, attribute, view = self.node(number), self._checks[number].attribute, self._schema.view()
        values = source.values(attribute, self._schema.domain_of(attribute), events)
        return np.array(
            [found is not None and holds(node, Event({attribute: found}), view) for found in values], np.bool_
        )


class SourceChecks:
    """The checks of a segment, asked of events of one source, which are counted from `first` on."""

    def __init__(self, checks: Checks, source: EventSource, first: int = 0) -> None:
        self._checks, self._source, self._first = checks, source, first

    def __call__(self, number: int, events: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return whether the check holds for each of these events."""
        return self._checks.hold(self._source, number, events + self._first)

    def of_words(
        self, numbers: npt.NDArray[np.int32], events: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return which pairs of a check and an event are decided by the words of texts, and whether these hold."""
        decided, holds = np.zeros(len(numbers), np.bool_), np.zeros(len(numbers), np.bool_)
        for attribute, asked in self._checks.word_checks.items():
            domain = self._checks.schema.domain_of(attribute)
            pairs = np.flatnonzero(asked.pattern[numbers] >= 0)
            tokens = self._source.word_tokens(attribute, domain) if len(pairs) else None
            if tokens is not None:
                texts, wanted = events[pairs] + self._first, numbers[pairs]
                found = tokens.satisfying(asked.patterns, asked.pattern[wanted], texts)
                decided[pairs], holds[pairs] = True, (found != asked.negated[wanted]) & tokens.present[texts]
        return decided, holds


class WordChecks(NamedTuple):
    """The checks on one attribute that ask for words in order; per check its pattern (-1: none) and whether negated."""

    patterns: WordPatterns
    pattern: npt.NDArray[np.int32]
    negated: npt.NDArray[np.bool_]
