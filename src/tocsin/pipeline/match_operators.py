"""match_with_operators(events, subscriptions, ...): subscriptions that call expensive operators, in Spark workers.

One mapInArrow, as for match(). Each worker process makes its own registry and matcher once and keeps them, so that
models and maps are loaded once, and its schedule learns from all the batches that it sees. A batch goes through
`match_batch`: operators that offer batches are asked about many events at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tocsin.errors import NotSupported, SchemaError
from tocsin.operators.operator_matcher import OperatorMatcher
from tocsin.operators.registries import INSTALLED, open_registry
from tocsin.pipeline.admission import Admission, admit_batch
from tocsin.pipeline.layout import Layout, choose_layout, transported
from tocsin.schema import Event, Schema
from tocsin.schema.arrow import events_from_arrow
from tocsin.schema.files import dumps, loads

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def match_with_operators(
    events: DataFrame,
    subscriptions: Mapping[str, str],
    *,
    schema: Schema,
    event_id: str,
    registry: str = INSTALLED,
    schedule: str = "adaptive",
    event_columns: Sequence[str] | None = None,
    event_json: str | None = None,
) -> DataFrame:
    """Return a row (event_id, subscription, variables as JSON) for each match; rows that are no events match nothing.

    `registry` names the operators, as operators/registries.py has it: workers make their own. Subscriptions are texts by id; all are checked here, at once. Operators must be pure, since Spark may run a task
    again.
    """
    if event_id not in events.columns:
        raise SchemaError(f"the events have no column {event_id!r}; they have {', '.join(events.columns)}")
    function = _MatchOperators(
        dumps(schema, "json"),
        tuple(subscriptions.items()),
        registry,
        schedule,
        choose_layout(events, schema, whole=event_json, columns=event_columns),
        event_id,
    )
    _check_pure(function.matcher())
    have = transported(events, function.layout)
    beside = [] if event_id in function.layout.names else [events[f"`{event_id}`"]]
    id_type = events.schema[event_id].dataType.simpleString()
    return events.select(*have, *beside).mapInArrow(
        function, f"`{event_id}` {id_type}, subscription string, variables string"
    )


def _check_pure(matcher: OperatorMatcher) -> None:
    for pattern in matcher.predicates.patterns:
        if not pattern.operator.pure:
            raise NotSupported(f"the operator {pattern.operator.name} is not pure, and Spark may run a task again")


@dataclass(frozen=True, slots=True)
class _MatchOperators:
    """What Spark carries to the workers: names and texts only."""

    schema: str  # as JSON
    subscriptions: tuple[tuple[str, str], ...]
    registry: str
    schedule: str
    layout: Layout
    event_id: str

    def matcher(self) -> OperatorMatcher:
        """Return this process's matcher."""
        return _matcher(self.schema, self.subscriptions, self.registry, self.schedule)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        matcher = self.matcher()
        for batch in batches:
            found = _events(admit_batch(batch, matcher.schema, self.layout), matcher.schema)
            rows, ids, variables = [], [], []
            for row, matches in zip(found, matcher.match_batch_with_bindings(list(found.values())), strict=True):
                for id, substitution in matches.items():
                    rows.append(row)
                    ids.append(str(id))
                    variables.append(json.dumps(substitution, default=str, sort_keys=True))
            kept = batch.column(batch.schema.names.index(self.event_id)).take(pa.array(rows, pa.int64()))
            columns = [kept, pa.array(ids, pa.string()), pa.array(variables, pa.string())]
            yield pa.RecordBatch.from_arrays(columns, names=[self.event_id, "subscription", "variables"])


def _events(admission: Admission, schema: Schema) -> dict[int, Event]:
    """Return the events of a batch by row."""
    admitted = dict(zip(admission.rows.tolist(), events_from_arrow(admission.columns, schema), strict=True))
    return {**admitted, **admission.events}


@lru_cache(4)
def _matcher(schema: str, subscriptions: tuple[tuple[str, str], ...], registry: str, schedule: str) -> OperatorMatcher:
    made = OperatorMatcher(loads(schema, "json"), open_registry(registry), schedule)
    for id, text in subscriptions:
        made.subscribe(id, text)
    return made
