"""Checks: the predicates that codes cannot decide, evaluated by the definition, once per event and distinct check."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tocsin.compile.table import Check
from tocsin.language.json_form import node_from_json
from tocsin.language.semantics import holds
from tocsin.language.syntax import Node
from tocsin.schema import Event, Schema

if TYPE_CHECKING:
    from tocsin.index.encode import EventSource


class Checks:
    """The checks of one segment."""

    def __init__(self, checks: Sequence[Check], schema: Schema) -> None:
        self._checks, self._schema = checks, schema

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
