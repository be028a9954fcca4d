"""Members: what a hundred thousand of them wait for, as documents.

Auction.subscriptions writes texts as a person would, a few thousand of them, many of them broad. A large house is
another world: each member is after something particular, so that an event reaches some dozens of them, not thousands.
Nine in ten are plain conjunctions of comparisons, which the broker takes in as columns, ten times as fast as the others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tocsin_examples.auction import ADJECTIVES, BRANDS, CITIES, Auction

WATCHED_ITEMS = 8_000  # of the first that will be listed
PLAIN = 0.9

Wish = dict[str, Any]


class Members:
    """The members of one auction house."""

    def __init__(self, auction: Auction, seed: int) -> None:
        self._auction = auction
        self._random = random.Random(seed)

    def wishes(self, count: int) -> Iterator[Wish]:
        """Yield subscriptions."""
        plain = (self._bargain, self._collector, self._watcher)
        others = (self._kind_of, self._local, self._words, self._seller_fan)
        for _ in range(count):
            if self._random.random() < PLAIN:
                types, predicates = self._random.choices(plain, weights=[6, 4, 4])[0]()
                yield {"event_types": types, "predicates": predicates}
            else:
                yield {"event_types": ["item"], "where": {"and": self._random.choice(others)()}}

    # --- plain ones ---------------------------------------------------------------------------------------------------

    def _bargain(self) -> tuple[list[str], list[Any]]:
        category, brand = self._auction.popular(self._auction.leaves), self._auction.popular(BRANDS)
        return ["item"], [["category", "=", category], ["brand", "=", brand], self._price(), *self._years(longest=40)]

    def _collector(self) -> tuple[list[str], list[Any]]:
        condition = self._random.choice(self._auction.values("condition"))
        brand = self._auction.popular(BRANDS)
        return ["item"], [["brand", "=", brand], ["condition", "=", condition], *self._years(longest=6)]

    def _watcher(self) -> tuple[list[str], list[Any]]:
        item = f"i{self._random.randint(1, WATCHED_ITEMS)}"
        return ["bid", "sale"], [["item", "=", item], ["price", ">", 20]]

    def _price(self) -> list[Any]:
        return ["price", "<", round(self._random.lognormvariate(3.5, 1), 2)]

    def _years(self, longest: int) -> list[list[Any]]:
        first = self._random.randint(1880, 2020)
        return [["year", ">=", first], ["year", "<=", first + self._random.randint(0, longest)]]

    # --- others -------------------------------------------------------------------------------------------------------

    def _kind_of(self) -> list[Any]:
        return [["category", "kind of", self._auction.any_category()], self._price(), *self._years(longest=4)]

    def _local(self) -> list[Any]:
        center = {"point": list(self._random.choice(CITIES))}
        near = {"amount": self._random.choice([5, 20, 50]), "unit": "km", "of": center}
        return [
            ["location", "within", near],
            ["category", "kind of", self._auction.any_category()],
            {"not": ["shipping", "=", True]},
        ]

    def _words(self) -> list[Any]:
        phrase = f"{self._random.choice(ADJECTIVES)} {self._auction.popular(BRANDS)}"
        return [["title", "contains", phrase], *self._years(longest=15)]

    def _seller_fan(self) -> list[Any]:
        tags = self._random.sample(self._auction.values("tag"), 2)
        return [["seller.name", "=", self._random.choice(self._auction.sellers)], ["tags", "contains any", tags]]
