"""What pairs tell beside that they match: the values of variables, what an offer computed, or why something failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tocsin.errors import TocsinError
from tocsin.language.explain import plain_values
from tocsin.matching.engine import Inquiry, Match
from tocsin.pipeline.match_lists import Longs, MatchLists

BINDINGS, COMPUTED = "bindings", "computed"
Pair = tuple[int, Any]  # row of the batch, id


class PairDetails:
    """The details of a batch's pairs, for those that have some."""

    def __init__(self, matches: dict[Pair, Match] | None = None, failures: dict[Pair, str] | None = None) -> None:
        self.matches: dict[Pair, Match] = {} if matches is None else matches
        self.failures: dict[Pair, str] = {} if failures is None else failures

    def learn(self, inquiry: Inquiry, rows: Longs, lists: MatchLists) -> None:
        """Take over what was found out of events that are these rows of the batch, and matched these lists."""
        for at in sorted(inquiry.events):
            row, ids = int(rows[at]), lists.ids_of(at)
            self.matches.update(((row, one.id), one) for one in inquiry.matches(at, ids))
            failed = sorted(inquiry.failed(at, set(ids)), key=lambda one: str(one.id))
            self.failures.update(((row, one.id), one.reason) for one in failed)

    def fail(self) -> None:
        """Raise TocsinError where something failed."""
        for (row, id), reason in self.failures.items():
            raise TocsinError(f"row {row} of a batch could not be matched with the subscription {id!r}: {reason}")

    def part(self, start: int, stop: int) -> PairDetails:
        """Return the details of rows start .. stop-1, counted from there."""
        return PairDetails(
            {(row - start, id): match for (row, id), match in self.matches.items() if start <= row < stop},
            {(row - start, id): why for (row, id), why in self.failures.items() if start <= row < stop},
        )

    def columns(self, pairs: Sequence[Pair]) -> dict[str, list[str | None]]:
        """Return the values of variables and the computed ones of pairs, as JSON; null where there are none."""
        found = [self.matches.get(pair) for pair in pairs]
        return {
            BINDINGS: [None if one is None or not one.bindings else _bindings(one) for one in found],
            COMPUTED: [None if one is None or not one.computed else _computed(one) for one in found],
        }


def _bindings(match: Match) -> str:
    return msgspec.json.encode([plain_values(each) for each in match.bindings]).decode()


def _computed(match: Match) -> str:
    return msgspec.json.encode(plain_values(match.computed)).decode()
