"""Codes in words: a predicate of a segment as a person would write it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tocsin.compile.table import Column, PredicateKind
from tocsin.index.layout import Section
from tocsin.language.patterns import predicate_of_key
from tocsin.language.render import render
from tocsin.schema import BooleanDomain, EnumeratedDomain, HierarchicalDomain, TimeDomain

if TYPE_CHECKING:
    from tocsin.index.segment import Segment
    from tocsin.matching.columnar.near_misses import NearMiss

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def predicate_text(segment: Segment, miss: NearMiss) -> str:
    """Return the predicate that was missed: 'price < 1300', 'brand in {mini, audi}'."""
    column = segment.columns[miss.column]
    name = column.attribute if column.derivation == "value" else f"{column.derivation} of {column.attribute}"
    match miss.kind:
        case PredicateKind.PRESENT:
            return f"{name} is present"
        case PredicateKind.ABSENT:
            return f"{name} is absent"
        case PredicateKind.SOME_IN:
            wanted = [(miss.low, miss.high), *((code, code) for code in miss.others)]
            return " or ".join(_interval(column, name, low, high) for low, high in sorted(wanted))
        case PredicateKind.NONE_IN:
            return f"not ({_interval(column, name, miss.low, miss.high)})"
    offset = segment.section(Section.SET_OFFSET)
    ends = range(int(offset[miss.low]), int(offset[miss.low + 1]))
    lows, highs = segment.section(Section.SET_LOW), segment.section(Section.SET_HIGH)
    alternatives = " or ".join(_interval(column, name, int(lows[at]), int(highs[at])) for at in ends)
    return alternatives if miss.kind is PredicateKind.SOME_OF else f"not ({alternatives})"


def _interval(column: Column, name: str, low: int, high: int) -> str:
    """Return an interval of codes as a comparison. An odd code is a constant, an even one lies beside one."""
    if column.derivation == "patterns":
        return render(predicate_of_key(column.attribute, column.constants[low // 2 : low // 2 + 1].tolist()[0]))
    if low == high and low % 2:
        return f"{name} = {_value(column, low // 2)}"
    last = 2 * len(column.constants)
    lower = "" if low == 0 else f"{name} {'>=' if low % 2 else '>'} {_value(column, (low - 1) // 2)}"
    upper = "" if high >= last else f"{name} {'<=' if high % 2 else '<'} {_value(column, high // 2)}"
    return " and ".join(part for part in (lower, upper) if part) or f"{name} is present"


def _value(column: Column, position: int) -> str:
    """Return a constant as the value whose key it is."""
    key: Any = column.constants[position : position + 1].tolist()[0]
    match column.domain:
        case EnumeratedDomain(values=values) | HierarchicalDomain(values=values):
            return repr(values[key]) if 0 <= key < len(values) else str(key)
        case BooleanDomain():
            return "true" if key else "false"
        case TimeDomain():
            return f"time '{(_EPOCH + timedelta(microseconds=key)).isoformat()}'"
    return repr(key) if isinstance(key, str) else str(key)
