"""Enumerated domains: a fixed list of values, unordered, totally ordered, or with a declared partial order."""

from __future__ import annotations

import functools
from typing import ClassVar, Literal

from tocsin.errors import BadDefinition, did_you_mean, nearest, repeated
from tocsin.schema.domain import EQUALITY, ORDER, Domain, Value, check_member


class EnumeratedDomain(Domain, frozen=True, kw_only=True, tag="enumerated", omit_defaults=True, dict=True):
    """Values from a list.

    order "none": only equality. order "total": as listed, first is least. order "partial": `less` lists pairs
    (a, b) that say a < b; what follows from them holds too, everything else is incomparable.
    """

    values: tuple[str, ...]
    order: Literal["none", "total", "partial"] = "none"
    less: tuple[tuple[str, str], ...] = ()

    possible: ClassVar[frozenset[str]] = EQUALITY | ORDER

    def __post_init__(self) -> None:
        if not self.values:
            raise BadDefinition(f"domain {self.name!r}: an enumerated domain needs at least one value")
        for value in self.values:
            check_member(self, value)
        if len(self.positions) < len(self.values):
            raise BadDefinition(f"domain {self.name!r}: listed twice: {', '.join(repeated(self.values)[:8])}")
        if self.less and self.order != "partial":
            raise BadDefinition(f"domain {self.name!r}: `less` needs order = 'partial'")
        for pair in self.less:
            for value in pair:
                if value not in self.positions:
                    raise BadDefinition(f"domain {self.name!r}: {value!r} in `less` is not one of its values")
        if cycle := [value for value in self.values if self.positions[value] in self.above[self.positions[value]]]:
            raise BadDefinition(f"domain {self.name!r}: the order goes in a circle through {', '.join(cycle)}")
        Domain.__post_init__(self)

    def offerable(self) -> frozenset[str]:
        return EQUALITY if self.order == "none" else self.possible

    def admit(self, raw: object) -> str:
        if isinstance(raw, str) and raw in self.positions:
            return raw
        hint = did_you_mean(nearest(raw, self.values)) if isinstance(raw, str) else ""
        listed = ", ".join(self.values[:8]) + (", …" if len(self.values) > 8 else "")
        raise self.bad(raw, f"one of {listed}{hint}")

    def key(self, value: Value) -> int:
        return self.positions[value]  # type: ignore[index]

    @functools.cached_property
    def positions(self) -> dict[str, int]:
        """Value -> its position in the list."""
        return {value: position for position, value in enumerate(self.values)}

    @functools.cached_property
    def above(self) -> tuple[frozenset[int], ...]:
        """Position -> the positions of all greater values, by the declared order and what follows from it."""
        count = len(self.values)
        if self.order != "partial":
            return tuple(
                frozenset(range(at + 1, count)) if self.order == "total" else frozenset() for at in range(count)
            )
        direct: list[set[int]] = [set() for _ in range(count)]
        for low, high in self.less:
            direct[self.positions[low]].add(self.positions[high])
        return tuple(frozenset(_reachable(direct, start)) for start in range(count))


def _reachable(direct: list[set[int]], start: int) -> set[int]:
    """Return all positions that can be reached from `start` in one or more steps."""
    found: set[int] = set()
    waiting = list(direct[start])
    while waiting:
        at = waiting.pop()
        if at not in found:
            found.add(at)
            waiting.extend(direct[at])
    return found
