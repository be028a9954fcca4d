"""What a ConjunctionTable means, in plain Python: the head of compile/table.py, word by word."""

from __future__ import annotations

import json
from bisect import bisect_left
from typing import Any

from tocsin.compile import Column, ConjunctionTable, PredicateKind
from tocsin.language import node_from_json
from tocsin.language.bind import bind_condition
from tocsin.language.formula import Scope
from tocsin.language.semantics import Situation, holds
from tocsin.language.text_patterns import is_like_key, words
from tocsin.schema import Event, Schema


def matching_ids(table: ConjunctionTable, event: Event, schema: Schema) -> list[Any]:
    """Return the ids of the subscriptions that the event satisfies, by the table alone."""
    coded = [codes_of(column, event) for column in table.columns]
    found: dict[Any, None] = {}
    for number in range(len(table)):
        rows = range(int(table.offset[number]), int(table.offset[number + 1]))
        if all(_row_holds(table, row, coded, event, schema) for row in rows):
            found[table.ids[table.subscription[number]]] = None
    return list(found)


def codes_of(column: Column, event: Event) -> list[int] | None:
    """Return the codes that the event has in the column; None where the column is not present."""
    values = event.values.get(column.attribute)
    if values is None:
        return None
    keys: list[Any] = []
    for value in values:
        if column.derivation == "words":
            keys += words(str(value))
        elif column.derivation == "patterns":
            keys += [key for key in column.constants.tolist() if is_like_key(str(value), key)]
        elif column.derivation in ("latitude", "longitude"):
            keys.append(value[column.derivation == "longitude"])  # type: ignore[index]
        else:
            keys.append(column.domain.key(value))
    return [code_of(column.constants.tolist(), key) for key in keys]


def code_of(constants: list[Any], key: Any) -> int:
    place = bisect_left(constants, key)
    return 2 * place + 1 if place < len(constants) and constants[place] == key else 2 * place


def _row_holds(table: ConjunctionTable, row: int, coded: list[list[int] | None], event: Event, schema: Schema) -> bool:
    kind, low, high = PredicateKind(table.kind[row]), int(table.low[row]), int(table.high[row])
    codes = coded[int(table.column[row])]
    match kind:
        case PredicateKind.CHECK:
            node = node_from_json(json.loads(table.checks[low].expression))
            return holds(
                bind_condition(node, Scope(schema.view().attributes, trusted=True)).root, Situation(event.values)
            )
        case PredicateKind.ABSENT:
            return codes is None
        case PredicateKind.PRESENT:
            return codes is not None
    if codes is None:
        return False
    if kind in (PredicateKind.SOME_IN, PredicateKind.NONE_IN):
        inside = any(low <= code <= high for code in codes)
    else:
        intervals = range(int(table.set_offset[low]), int(table.set_offset[low + 1]))
        inside = any(table.set_low[at] <= code <= table.set_high[at] for code in codes for at in intervals)
    return inside == (kind in (PredicateKind.SOME_IN, PredicateKind.SOME_OF))
