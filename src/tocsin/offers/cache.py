"""The cache of program results (symmetric subscriptions, section 4.2.2).

An entry per program holds the program's signature and an invocation table: argument values -> result. An entry whose
signature is not the program's any more is let go. Both the entries and the invocations of each are bounded; what was
used least recently goes first. Only results of pure programs come here, failures of theirs among them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

Arguments = tuple[Any, ...]
Result = Any  # a value, None, or the FormulaFailed that the program ended with
MISSING = object()


@dataclass(slots=True)
class _Entry:
    signature: object
    invocations: OrderedDict[Arguments, Result] = field(default_factory=OrderedDict)


class ProgramCache:
    """Results of programs, by program, signature and argument values. Safe to share among threads."""

    def __init__(self, programs: int = 64, invocations: int = 100_000) -> None:
        self.programs, self.invocations = programs, invocations
        self.hits = self.misses = self.evictions = self.invalidations = 0
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def look_up(self, program: str, signature: object, asked: list[Arguments]) -> list[Result]:
        """Return the result for each of the arguments, MISSING where it is not known."""
        with self._lock:
            entry = self._current(program, signature)
            if entry is None:
                self.misses += len(asked)
                return [MISSING] * len(asked)
            known = entry.invocations
            found = [known.get(arguments, MISSING) for arguments in asked]
            for arguments, result in zip(asked, found, strict=True):
                if result is MISSING:
                    self.misses += 1
                else:
                    self.hits += 1
                    known.move_to_end(arguments)
            return found

    def store(self, program: str, signature: object, results: list[tuple[Arguments, Result]]) -> None:
        """Keep results; those used least recently give way."""
        if not self.programs or not self.invocations:
            return
        with self._lock:
            entry = self._current(program, signature)
            if entry is None:
                entry = self._entries[program] = _Entry(signature)
                while len(self._entries) > self.programs:
                    self._entries.popitem(last=False)
                    self.evictions += 1
            for arguments, result in results:
                entry.invocations[arguments] = result
                entry.invocations.move_to_end(arguments)
                if len(entry.invocations) > self.invocations:
                    entry.invocations.popitem(last=False)
                    self.evictions += 1

    def _current(self, program: str, signature: object) -> _Entry | None:
        entry = self._entries.get(program)
        if entry is not None and entry.signature != signature:
            del self._entries[program]
            self.invalidations += 1
            return None
        if entry is not None:
            self._entries.move_to_end(program)
        return entry

    def invalidate(self, program: str) -> None:
        """Let go of what is known about a program."""
        with self._lock:
            if self._entries.pop(program, None) is not None:
                self.invalidations += 1

    @property
    def hit_rate(self) -> float:
        """The share of look-ups that found a result; 0 where there were none."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0

    def __len__(self) -> int:
        return sum(len(entry.invocations) for entry in self._entries.values())

    def stats(self) -> dict[str, float]:
        """Return the counters, for people and for metrics."""
        return {
            "programs": len(self._entries),
            "invocations": len(self),
            "hits": self.hits,
            "misses": self.misses,
            "hit_rate": self.hit_rate,
            "evictions": self.evictions,
            "invalidations": self.invalidations,
        }
