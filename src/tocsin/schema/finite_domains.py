"""Enumerated domains: a fixed list of values, unordered, totally ordered, or with a declared partial order.

Hierarchical domains: values in a tree, such as categories and their sub-categories.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Literal

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


# Hierarchical domains.


MAX_LEVELS = 100


class HierarchicalDomain(Domain, frozen=True, kw_only=True, tag="hierarchical", omit_defaults=True, dict=True):
    """Values in one or several trees: `tree` maps each value to the mapping of what lies below it.

    Values are numbered in preorder, so that "v or below" is an interval of numbers. A value stands in one place only.
    """

    tree: dict[str, Any]

    possible: ClassVar[frozenset[str]] = EQUALITY | ORDER | {"kind of"}

    def __post_init__(self) -> None:
        if not self.tree:
            raise BadDefinition(f"domain {self.name!r}: a hierarchical domain needs at least one value")
        self.intervals  # noqa: B018  (walks the tree, which checks it)
        Domain.__post_init__(self)

    def __hash__(self) -> int:
        return hash((self.name, self.operators, frozenset(self.intervals)))

    def admit(self, raw: object) -> str:
        if isinstance(raw, str) and raw in self.intervals:
            return raw
        hint = did_you_mean(nearest(raw, self.intervals)) if isinstance(raw, str) else ""
        raise self.bad(raw, f"in the hierarchy {self.name!r}{hint}")

    def key(self, value: Value) -> int:
        return self.intervals[value][0]  # type: ignore[index]

    @functools.cached_property
    def intervals(self) -> dict[str, tuple[int, int]]:
        """Value -> (its number, the last number below it)."""
        found: dict[str, tuple[int, int]] = {}
        open_values = 0  # how many levels down we are
        # Preorder with an explicit stack: what comes in may be deeper than Python's recursion.
        waiting: list[tuple[str, dict[str, Any] | None]] = [(value, below) for value, below in _listed(self, self.tree)]
        while waiting:
            value, below = waiting.pop()
            if below is None:  # everything below `value` has been numbered
                found[value] = (found[value][0], len(found) - 1)
                open_values -= 1
                continue
            open_values += 1
            if open_values > MAX_LEVELS:
                raise BadDefinition(f"domain {self.name!r}: a hierarchy has at most {MAX_LEVELS} levels")
            check_member(self, value)
            if value in found:
                raise BadDefinition(f"domain {self.name!r}: {value!r} stands in two places of the hierarchy")
            found[value] = (len(found), len(found))
            waiting.append((value, None))
            waiting.extend(_listed(self, below))
        return found

    @functools.cached_property
    def values(self) -> tuple[str, ...]:
        """All values in preorder: position = number."""
        return tuple(self.intervals)

    @functools.cached_property
    def parents(self) -> dict[str, str | None]:
        """Value -> the value just above it, None at the top; in preorder."""
        found: dict[str, str | None] = {}
        above: list[str] = []
        for value, (number, _) in self.intervals.items():
            while above and self.intervals[above[-1]][1] < number:
                above.pop()
            found[value] = above[-1] if above else None
            above.append(value)
        return found

    def ancestors(self, value: str) -> tuple[str, ...]:
        """Return the values above `value`, the root first."""
        found: list[str] = []
        above = self.parents[value]
        while above is not None:
            found.append(above)
            above = self.parents[above]
        return tuple(reversed(found))


def _listed(domain: HierarchicalDomain, tree: Any) -> list[tuple[str, dict[str, Any] | None]]:
    """Return the values of one level in reverse, so that a stack gives them in order."""
    if not isinstance(tree, dict) or not all(isinstance(value, str) for value in tree):
        raise BadDefinition(
            f"domain {domain.name!r}: a hierarchy is a mapping from each value to the mapping of what lies below it, "
            'such as {"furniture": {"table": {}, "chair": {}}}'
        )
    return list(reversed(tree.items()))
