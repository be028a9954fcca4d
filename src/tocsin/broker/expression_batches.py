"""Preparing many expressions at once: plain conjunctions in the bulk form are judged as columns, not one by one.

    {"event_types": ["car"], "predicates": [["price", "<", 1300], ["brand", "=", "mini"]]}

Tens of thousands a second instead of one or two; what bulk loading takes of them (compile/bulk.py) means the same as
what expressions.py makes of each. Whatever is not of this shape, or wrong, is prepared singly, which says what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tocsin.broker.expressions import Expression, Prepared, bulk_line, prepare
from tocsin.compile.bulk import load_bulk
from tocsin.errors import ExpressionsRejected, TocsinError
from tocsin.language.bounds import MAX_NAME, MAX_STRING
from tocsin.operators.registry import Registry
from tocsin.schema import Schema

FEW = 50  # expressions that are prepared singly as fast
_KEYS = {"id", "event_types", "predicates"}
_COMPARISONS = {"=", "!=", "<", "<=", ">", ">="}
_MANY, _LOOKED_AT_FIRST, _MOST_WRONG = 200, 30, 100
_MOST_PREDICATES = 500  # far from where an expression is too large


def prepare_or_list(
    expressions: Sequence[Expression], schema: Schema, *, most_bytes: int, registry: Registry | None = None
) -> list[Prepared]:
    """Return expressions judged by a schema, in order; raises ExpressionsRejected with those that are wrong.

    Of many, some from everywhere are looked at first, the last among them, and a hundred that are wrong suffice: whoever
    sends much that is wrong is told soon. In all each is judged once.
    """
    wrong: dict[int, TocsinError] = {}
    prepared: dict[int, Prepared] = _plain(expressions, schema, most_bytes)
    left = [at for at in range(len(expressions)) if at not in prepared]
    first = left[:: max(1, len(left) // _LOOKED_AT_FIRST)] + left[-1:] if len(left) > _MANY else []
    for at in dict.fromkeys([*first, None, *left]):
        if at is None or len(wrong) >= _MOST_WRONG:
            if wrong:
                break
        elif at not in prepared:
            try:
                prepared[at] = prepare(expressions[at], schema, most_bytes=most_bytes, registry=registry)
            except TocsinError as error:
                wrong[at] = error
    if wrong:
        raise ExpressionsRejected(dict(sorted(wrong.items())))
    return [prepared[at] for at in range(len(expressions))]


def prepare_all(
    expressions: Sequence[Expression], schema: Schema, *, most_bytes: int, registry: Registry | None = None
) -> list[Prepared]:
    """Return expressions judged by a schema, in order; raises the LanguageError of the first that is wrong."""
    plain = _plain(expressions, schema, most_bytes)
    return [
        plain.get(at) or prepare(one, schema, most_bytes=most_bytes, registry=registry)
        for at, one in enumerate(expressions)
    ]


def _plain(expressions: Sequence[Expression], schema: Schema, most_bytes: int) -> dict[int, Prepared]:
    """Return those that are plain conjunctions, by position; none, where one of them is wrong."""
    plain: dict[int, Prepared] = {}
    if len(expressions) >= FEW:
        for at, one in enumerate(expressions):
            if (tree := plain_tree(one)) is not None and len(tree) <= most_bytes:
                plain[at] = Prepared("", tree, schema, plain=True)
        if load_bulk((bulk_line(at, one.tree) for at, one in plain.items()), schema).errors:
            plain = {}  # found again, and told, in the order of the expressions
    return plain


def plain_tree(expression: Expression) -> bytes | None:
    """Return the stored form of a plain conjunction of comparisons, None for anything else."""
    if not isinstance(expression, Mapping) or not expression.keys() <= _KEYS:
        return None
    types, predicates = expression.get("event_types"), expression.get("predicates")
    if not isinstance(types, list) or not all(type(name) is str for name in types) or not types:
        return None
    if not isinstance(predicates, list) or not 1 <= len(predicates) <= _MOST_PREDICATES:
        return None
    if not all(map(_is_comparison, predicates)):
        return None
    try:
        where = predicates[0] if len(predicates) == 1 else {"and": predicates}
        return msgspec.json.encode({"event_types": types, "where": where})
    except (OverflowError, UnicodeEncodeError):  # a number or a text that JSON cannot have
        return None


def _is_comparison(predicate: Any) -> bool:
    if not isinstance(predicate, list | tuple) or len(predicate) != 3:
        return False
    attribute, op, operand = predicate
    if type(attribute) is not str or type(op) is not str or op not in _COMPARISONS or len(attribute) > MAX_NAME:
        return False
    kind = type(operand)
    return kind is int or (kind is str and len(operand) <= MAX_STRING) or (kind is float and math.isfinite(operand))
