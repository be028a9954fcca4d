"""KeyColumn: the keys of one attribute over a batch of events, before any segment's constants are known.

The same keys are coded once per segment, so what depends on the schema alone (reading Arrow, admitting enumerated
values, cutting texts into words) is done once per batch, here and in arrow_keys.py; coder.py does the rest.

Keys come in one of three shapes: int64, float64, or numbered: `keys` lists the distinct ones as Python objects, and
`values` are positions in that list. Each event has one value (`offset` is None) or values[offset[e] : offset[e + 1]].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.compile.table import Derivation
from tocsin.language.text_patterns import words
from tocsin.schema import Domain, Event, NumericDomain, Value

_INT64 = 2**63


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """Keys of events 0 .. n-1; a value stands for an event only where `present` says so."""

    values: npt.NDArray[Any]  # int64 or float64 keys, or int32 positions in `keys`
    present: npt.NDArray[np.bool_] | None  # per event; None where all are
    keys: Sequence[Any] | None = None
    offset: npt.NDArray[np.int64] | None = None
    as_written: bool = False  # float64 values that stand for the numbers they are written as: 0.1 is a tenth

    def as_lists(self) -> KeyColumn:
        """Return the column with offsets, one value for each event that has one."""
        if self.offset is not None:
            return self
        if self.present is None:
            offset = np.arange(len(self.values) + 1)
            return KeyColumn(self.values, np.ones(len(self.values), np.bool_), self.keys, offset, self.as_written)
        offset = np.zeros(len(self.present) + 1, np.int64)
        np.cumsum(self.present, out=offset[1:])
        return KeyColumn(self.values[self.present], self.present, self.keys, offset, self.as_written)


def from_events(events: Sequence[Event], attribute: str, domain: Domain, derivation: Derivation) -> KeyColumn:
    """Return the keys that admitted events have in a column."""
    if derivation == "value":
        try:
            return _one_each([value for (value,) in map(_getter(attribute), events)], domain)
        except (TypeError, ValueError):  # some event has none, or several
            pass
    return _lists_of(events, attribute, domain, derivation)


def _getter(attribute: str) -> Callable[[Event], Any]:
    return lambda event: event.values.get(attribute)


def _one_each(values: list[Any], domain: Domain) -> KeyColumn:
    """Return the keys of events that have one value each, which is what most columns of most batches are."""
    if isinstance(domain, NumericDomain):
        if set(map(type, values)) == {int} and min(values) >= -_INT64 and max(values) < _INT64:
            return KeyColumn(np.array(values, np.int64), None)
        keys = values
    else:
        keys = list(map(domain.key, values))
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return KeyColumn(np.array([numbers[key] for key in keys], np.int32), None, list(numbers))


def _lists_of(events: Sequence[Event], attribute: str, domain: Domain, derivation: Derivation) -> KeyColumn:
    numbers: dict[Any, int] = {}
    values: list[int] = []
    offset = np.zeros(len(events) + 1, np.int64)
    present = np.zeros(len(events), np.bool_)
    for position, event in enumerate(events):
        found = event.values.get(attribute)
        if found is not None:
            present[position] = True
            for value in found:
                values += [numbers.setdefault(key, len(numbers)) for key in keys_of(domain, derivation, value)]
        offset[position + 1] = len(values)
    return KeyColumn(np.array(values, np.int32), present, list(numbers), offset)


def keys_of(domain: Domain, derivation: Derivation, value: Value) -> Sequence[Any]:
    """Return the keys that one canonical value has in a column: one, or for words as many as it has."""
    if derivation == "value":
        return (domain.key(value),)
    if derivation == "words":
        return words(value)  # type: ignore[arg-type]
    return (value[derivation == "longitude"],)  # type: ignore[index]
