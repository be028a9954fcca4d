"""The auction house: seeded events and subscriptions over the `auction` example schema.

Popularity is Zipf-like, as in real markets: a few categories, brands and sellers have most of the items and most of
the interest. The same seed gives the same world.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from tocsin.schema import EnumeratedDomain, HierarchicalDomain, Schema
from tocsin.schema.examples import load_example

START = datetime(2026, 1, 1, 9, tzinfo=UTC)
BRANDS = [
    "Mini",
    "Cooper",
    "Leica",
    "Thonet",
    "Meissen",
    "Vespa",
    "Rolex",
    "Braun",
    "Eames",
    "Linn",
    "Bianchi",
    "Fabergé",
]
ADJECTIVES = [
    "old",
    "wooden",
    "elegant",
    "rare",
    "small",
    "restored",
    "blue",
    "signed",
    "English",
    "early",
    "late",
    "lovely",
]
EXTRAS = ["with box", "from an estate", "needs work", "one owner", "very heavy", "for collectors", "museum quality"]
CITIES = [(40.85, -73.88), (51.51, -0.13), (48.86, 2.35), (35.51, 24.02), (38.72, -9.14), (52.52, 13.40)]
QUESTIONS = ["does it still work", "is the price negotiable", "can you ship abroad", "are there scratches"]


class Auction:
    """One auction house."""

    def __init__(self, seed: int = 2026) -> None:
        self.schema: Schema = load_example("auction")
        self._random = random.Random(seed)
        self.leaves = self._leaf_categories()
        self.sellers = [f"seller-{number}" for number in range(200)]
        self._open: list[dict[str, Any]] = []  # items that can be bid on
        self._now = START
        self._listed = 0

    # --- events -------------------------------------------------------------------------------------------------------

    def events(self, count: int) -> Iterator[dict[str, Any]]:
        """Yield raw events: items being listed, bid on, sold, asked about."""
        for _ in range(count):
            self._now += timedelta(seconds=self._random.expovariate(1 / 5))
            kind = self._random.random()
            if not self._open or kind < 0.4:
                yield self._list_item()
            elif kind < 0.85:
                yield self._bid()
            elif kind < 0.95:
                yield self._sell()
            else:
                yield self._ask()

    def _list_item(self) -> dict[str, Any]:
        pick = self._random
        category, brand = self.popular(self.leaves), self.popular(BRANDS)
        self._listed += 1
        item = {
            "event_type": "item",
            "item": f"i{self._listed}",
            "title": f"{pick.choice(ADJECTIVES)} {brand} {category}",
            "description": f"{pick.choice(ADJECTIVES)} {category}, {pick.choice(EXTRAS)}",
            "category": category,
            "price": round(pick.lognormvariate(4.5, 1.2), 2),
            "closes": (self._now + timedelta(hours=pick.randint(1, 240))).isoformat(),
            "seller": {"name": self.popular(self.sellers), "rating": round(pick.uniform(2, 5), 1)},
            "brand": brand,
            "condition": pick.choice(self.values("condition")),
            "colour": pick.sample(self.values("colour"), pick.choice([1, 1, 2])),
            "tags": pick.sample(self.values("tag"), pick.choice([0, 1, 1, 2, 3])),
            "year": pick.randint(1880, 2025),
            "location": [round(part + pick.gauss(0, 0.3), 4) for part in pick.choice(CITIES)],
            "shipping": pick.random() < 0.6,
        }
        self._open.append(dict(item))  # what was told stays as it was, whatever is bid
        if len(self._open) > 2_000:
            self._open.pop(0)
        return item

    def _bid(self) -> dict[str, Any]:
        item = self._recent()
        item["price"] = round(item["price"] * self._random.uniform(1.01, 1.2), 2)
        item["_bids"] = item.get("_bids", 0) + 1
        return self._about(
            item, "bid", price=item["price"], bids=item["_bids"], bidder=f"bidder-{self._random.randint(1, 999)}"
        )

    def _sell(self) -> dict[str, Any]:
        item = self._open.pop(self._random.randrange(len(self._open)))
        return self._about(item, "sale", price=item["price"], bids=item.get("_bids", 0), seller=item["seller"])

    def _ask(self) -> dict[str, Any]:
        return self._about(self._recent(), "question", question=f"{self._random.choice(QUESTIONS)}?")

    def _recent(self) -> dict[str, Any]:
        """Return an item that is open, the last ones far more often: interest fades."""
        return self._open[-1 - min(int(self._random.paretovariate(0.5)) - 1, len(self._open) - 1)]

    def _about(self, item: dict[str, Any], event_type: str, **more: Any) -> dict[str, Any]:
        common = {name: item[name] for name in ("item", "title", "category")}
        return {"event_type": event_type, **common, "at": self._now.isoformat(), **more}

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def subscriptions(self, count: int) -> Iterator[tuple[str, str]]:
        """Yield (id, expression) of what members wait for."""
        wishes = (
            self._bargain,
            self._collector,
            self._watcher,
            self._local,
            self._words,
            self._seller_fan,
            self._any_of,
        )
        for number in range(count):
            yield f"s{number + 1}", self._random.choices(wishes, weights=[6, 4, 3, 2, 2, 2, 1])[0]()

    def _bargain(self) -> str:
        price = round(self._random.lognormvariate(4, 1))
        return f"item where category kind of '{self.any_category()}' and price < {price}"

    def _collector(self) -> str:
        pick = self._random
        year = pick.randint(1880, 2000)
        return (
            f"item where brand = '{self.popular(BRANDS)}' and year between {year} and {year + pick.randint(5, 40)} "
            f"and condition >= '{pick.choice(self.values('condition')[:5])}'"
        )

    def _watcher(self) -> str:
        return f"bid, sale where category = '{self.popular(self.leaves)}' and price > {self._random.randint(50, 2000)}"

    def _local(self) -> str:
        latitude, longitude = self._random.choice(CITIES)
        reach = self._random.choice([5, 20, 50])
        return (
            f"item where location within {reach} km of ({latitude}, {longitude}) "
            f"and category kind of '{self.any_category()}' and not (shipping = true)"
        )

    def _words(self) -> str:
        adjective, extra = self._random.choice(ADJECTIVES), self._random.choice(EXTRAS).split()[-1]
        return f"item where title contains '{adjective} {self.popular(BRANDS)}' or description contains '{extra} {adjective}'"

    def _seller_fan(self) -> str:
        tags = "', '".join(self._random.sample(self.values("tag"), 2))
        return f"item where seller.name = '{self.popular(self.sellers)}' and tags contains any ('{tags}')"

    def _any_of(self) -> str:
        colours = "', '".join(self._random.sample(self.values("colour"), 3))
        return f"item where category kind of '{self.any_category()}' and colour in ('{colours}') and seller.rating >= 4"

    # --- choosing -----------------------------------------------------------------------------------------------------

    def popular(self, options: list[Any]) -> Any:
        """Return one of the options, the early ones far more often."""
        return options[min(int(self._random.paretovariate(0.9)) - 1, 10**6) % len(options)]

    def any_category(self) -> str:
        """Return a category of any level."""
        domain = self.schema.domains["category"]
        assert isinstance(domain, HierarchicalDomain)
        leaf = self.popular(self.leaves)
        return str(self._random.choice([*domain.ancestors(leaf), leaf]))

    def _leaf_categories(self) -> list[str]:
        domain = self.schema.domains["category"]
        assert isinstance(domain, HierarchicalDomain)
        leaves = [value for value, (first, last) in domain.intervals.items() if first == last]
        self._random.shuffle(leaves)
        return leaves

    def values(self, domain_name: str) -> list[str]:
        """Return the values of an enumerated domain."""
        domain = self.schema.domains[domain_name]
        assert isinstance(domain, EnumeratedDomain)
        return list(domain.values)
