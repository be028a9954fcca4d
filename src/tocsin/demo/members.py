"""Members: what a hundred thousand of them wait for, as JSON trees.

Auction.subscriptions writes texts as a person would, a few thousand of them, many of them broad. A large house is
another world: each member is after something particular, so that an event reaches some dozens of them, not thousands.
Trees are also taken in several times as fast as texts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tocsin.demo.auction import ADJECTIVES, BRANDS, CITIES, Auction

WATCHED_ITEMS = 8_000  # of the first that will be listed

Wish = dict[str, Any]


class Members:
    """The members of one auction house."""

    def __init__(self, auction: Auction, seed: int) -> None:
        self._auction = auction
        self._random = random.Random(seed)

    def wishes(self, count: int) -> Iterator[Wish]:
        """Yield subscriptions."""
        kinds = (self._bargain, self._collector, self._watcher, self._local, self._words, self._seller_fan)
        for _ in range(count):
            yield self._random.choices(kinds, weights=[6, 4, 4, 2, 2, 2])[0]()

    def _bargain(self) -> Wish:
        most = round(self._random.lognormvariate(3.5, 1), 2)
        return _item(
            ["category", "kind of", self._auction.any_category()], ["price", "<", most], self._period(longest=4)
        )

    def _collector(self) -> Wish:
        conditions = self._auction.values("condition")
        return _item(
            ["brand", "=", self._auction.popular(BRANDS)],
            self._period(longest=10),
            ["condition", ">=", self._random.choice(conditions[:5])],
        )

    def _watcher(self) -> Wish:
        item = f"i{self._random.randint(1, WATCHED_ITEMS)}"
        return {"event_types": ["bid", "sale"], "where": {"and": [["item", "=", item], ["price", ">", 20]]}}

    def _local(self) -> Wish:
        center = {"point": list(self._random.choice(CITIES))}
        near = {"amount": self._random.choice([5, 20, 50]), "unit": "km", "of": center}
        return _item(
            ["location", "within", near],
            ["category", "kind of", self._auction.any_category()],
            {"not": ["shipping", "=", True]},
        )

    def _words(self) -> Wish:
        phrase = f"{self._random.choice(ADJECTIVES)} {self._auction.popular(BRANDS)}"
        return _item(["title", "contains", phrase], self._period(longest=15))

    def _seller_fan(self) -> Wish:
        tags = self._random.sample(self._auction.values("tag"), 2)
        return _item(["seller.name", "=", self._random.choice(self._auction.sellers)], ["tags", "contains any", tags])

    def _period(self, longest: int) -> list[Any]:
        first = self._random.randint(1880, 2020)
        return ["year", "between", [first, first + self._random.randint(0, longest)]]


def _item(*conditions: Any) -> Wish:
    return {"event_types": ["item"], "where": {"and": list(conditions)}}
