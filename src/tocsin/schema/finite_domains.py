"""Enumerated domains: a list of values, unordered, totally ordered, or with a declared partial order.

Hierarchical domains: values in a tree, such as categories and their sub-categories.

Both may grow (`grown`, `with_alias`): values are added after those that exist, or below one of them, and an alias is
another name for a value, admitted as that value. growth.py says what of it leaves everything valid.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from tocsin.errors import BadDefinition, did_you_mean, nearest, repeated
from tocsin.schema.domain import EQUALITY, ORDER, Domain, Value, check_member

D = TypeVar("D", bound="EnumeratedDomain | HierarchicalDomain")


class EnumeratedDomain(Domain, frozen=True, kw_only=True, tag="enumerated", omit_defaults=True, dict=True):
    """Values from a list.

    order "none": only equality. order "total": as listed, first is least. order "partial": `less` lists pairs
    (a, b) that say a < b; what follows from them holds too, everything else is incomparable.
    """

    values: tuple[str, ...]
    order: Literal["none", "total", "partial"] = "none"
    less: tuple[tuple[str, str], ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()  # (another name, the value that it means)

    possible: ClassVar[frozenset[str]] = EQUALITY | ORDER

    def __post_init__(self) -> None:
        if not self.values:
            raise BadDefinition(f"domain {self.name!r}: an enumerated domain needs at least one value")
        for value in self.values:
            check_member(self, value)
        if len(set(self.values)) < len(self.values):
            raise BadDefinition(f"domain {self.name!r}: listed twice: {', '.join(repeated(self.values)[:8])}")
        if self.less and self.order != "partial":
            raise BadDefinition(f"domain {self.name!r}: `less` needs order = 'partial'")
        for pair in self.less:
            for value in pair:
                if value not in self.positions:
                    raise BadDefinition(f"domain {self.name!r}: {value!r} in `less` is not one of its values")
        if cycle := [value for value in self.values if self.positions[value] in self.above[self.positions[value]]]:
            raise BadDefinition(f"domain {self.name!r}: the order goes in a circle through {', '.join(cycle)}")
        check_aliases(self, movable=frozenset(self.values) if self.order == "none" else frozenset())
        Domain.__post_init__(self)

    def offerable(self) -> frozenset[str]:
        return EQUALITY if self.order == "none" else self.possible

    def admit(self, raw: object) -> str:
        if isinstance(raw, str) and raw in self.positions:
            return self.meaning.get(raw, raw)
        hint = did_you_mean(nearest(raw, self.values)) if isinstance(raw, str) else ""
        listed = ", ".join(self.values[:8]) + (", …" if len(self.values) > 8 else "")
        raise self.bad(raw, f"one of {listed}{hint}")

    def key(self, value: Value) -> int:
        return self.positions[value]  # type: ignore[index]

    @functools.cached_property
    def positions(self) -> dict[str, int]:
        """Value -> its position in the list; an alias has that of the value it means."""
        listed = {value: position for position, value in enumerate(self.values)}
        return listed | {alias: listed[value] for alias, value in self.aliases if value in listed}

    @functools.cached_property
    def meaning(self) -> dict[str, str]:
        """Alias -> the value that it means."""
        return dict(self.aliases)

    def grown(self, values: Iterable[str], less: Iterable[tuple[str, str]] = ()) -> EnumeratedDomain:
        """Return the domain with more values, after those that it has; in a total order they are greater."""
        return msgspec.structs.replace(self, values=(*self.values, *values), less=(*self.less, *less))

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
    aliases: tuple[tuple[str, str], ...] = ()  # (another name, the value that it means)

    possible: ClassVar[frozenset[str]] = EQUALITY | ORDER | {"kind of"}

    def __post_init__(self) -> None:
        if not self.tree:
            raise BadDefinition(f"domain {self.name!r}: a hierarchical domain needs at least one value")
        leaves = {
            value for value, (first, last) in self.intervals.items() if first == last
        }  # walks the tree: checks it
        check_aliases(self, movable=frozenset(leaves))
        for alias, value in self.aliases:
            if alias in leaves and (value not in leaves or self.parents[alias] != self.parents[value]):
                raise BadDefinition(
                    f"domain {self.name!r}: {alias!r} cannot mean {value!r}: they do not lie side by side in the hierarchy, "
                    "with nothing below them, so one who asks for a kind of what is above them would hear otherwise"
                )
        Domain.__post_init__(self)

    def __hash__(self) -> int:
        return hash((self.name, self.operators, frozenset(self.intervals)))

    def admit(self, raw: object) -> str:
        if isinstance(raw, str) and (raw in self.intervals or raw in self.meaning):
            return self.meaning.get(raw, raw)
        hint = did_you_mean(nearest(raw, self.intervals)) if isinstance(raw, str) else ""
        raise self.bad(raw, f"in the hierarchy {self.name!r}{hint}")

    def key(self, value: Value) -> int:
        return self.intervals[self.meaning.get(value, value)][0]  # type: ignore[arg-type]

    @functools.cached_property
    def meaning(self) -> dict[str, str]:
        """Alias -> the value that it means."""
        return dict(self.aliases)

    def grown(self, values: Iterable[str], below: str | None = None) -> HierarchicalDomain:
        """Return the domain with more values at the top, or below one that it has."""
        tree = _copied(self.tree)
        place = tree
        if below is not None:
            if self.meaning.get(below, below) not in self.intervals:
                raise BadDefinition(
                    f"domain {self.name!r}: there is no {below!r}{did_you_mean(nearest(below, self.intervals))}"
                )
            below = self.meaning.get(below, below)
            for above in (*self.ancestors(below), below):
                place = place[above]
        for value in values:
            if value in self.intervals or value in place:
                raise BadDefinition(f"domain {self.name!r}: {value!r} stands in two places of the hierarchy")
            place[value] = {}
        return msgspec.structs.replace(self, tree=tree)

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


def _copied(tree: dict[str, Any]) -> dict[str, Any]:
    return {value: _copied(below) for value, below in tree.items()}


# Aliases.


def check_aliases(domain: EnumeratedDomain | HierarchicalDomain, movable: frozenset[str]) -> None:
    """Raise BadDefinition unless each alias is a name of its own for a value, or one of the `movable` values."""
    aliases, values = dict(domain.aliases), set(domain.values)
    if len(aliases) < len(domain.aliases):
        raise BadDefinition(f"domain {domain.name!r}: an alias means two values")
    for alias, value in aliases.items():
        check_member(domain, alias)
        if value not in values or value in aliases:
            hint = did_you_mean(nearest(value, values))
            raise BadDefinition(
                f"domain {domain.name!r}: the alias {alias!r} must mean one of its values, not {value!r}{hint}"
            )
        if alias in values and alias not in movable:
            raise BadDefinition(
                f"domain {domain.name!r}: {alias!r} is a value whose place in the order matters, so it cannot become an alias; "
                "only a new name can"
            )


def with_alias(domain: D, alias: str, value: str) -> D:
    """Return the domain in which `alias` means a value that it has; what meant the alias means that value too."""
    moved = tuple((name, value if meant == alias else meant) for name, meant in domain.aliases)
    return msgspec.structs.replace(domain, aliases=(*moved, (alias, domain.meaning.get(value, value))))
