"""The bazaar: one market on two sites, each of which says things its own way, and one integrated schema.

The market is auction.py's, NEXMark-like: sellers appear, list items, which are bid on, asked about and sold; a few
sellers, categories and items have most of it, by Zipf's law; the same seed gives the same market. A seller belongs to
one site, and what happens to an item happens there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from tocsin.schema import Schema
from tocsin_examples import flohmarkt, hammer
from tocsin_examples.auction import Auction
from tocsin_examples.integration import Raw, Site, extended

SITES: tuple[Site, ...] = (hammer.SITE, flohmarkt.SITE)
_EXPRESS: Mapping[str, Callable[[Mapping[str, Any]], Raw]] = {
    hammer.NAME: hammer.express,
    flohmarkt.NAME: flohmarkt.express,
}


class Bazaar(Auction):
    """A market on two sites; `events` are integrated, `own_events` as the sites say them."""

    def __init__(self, seed: int = 2026) -> None:
        super().__init__(seed)
        self.first_schema: Schema = self.schema  # before any site has joined
        for site in SITES:
            self.schema = extended(self.schema, site.extensions)
        self._home: dict[str, Site] = {}  # item or seller -> site

    def events(self, count: int) -> Iterator[Raw]:
        """Yield events of the integrated schema."""
        for site, own in self.own_events(count):
            yield site.translate(own)

    def own_events(self, count: int) -> Iterator[tuple[Site, Raw]]:
        """Yield events as the sites say them, each with its site."""
        for fact in islice(self._facts(count), count):
            site = self._site_of(fact)
            yield site, _EXPRESS[site.name](fact)

    def _facts(self, count: int) -> Iterator[Raw]:
        """Yield what happens; a seller that lists for the first time is announced before."""
        for fact in super().events(count):
            is_new = fact["event_type"] == "item" and fact["seller"]["name"] not in self._home
            self._site_of(fact)  # now: the reader may stop here, and the item be bid on later
            if is_new:
                yield {
                    "event_type": "seller", "seller": fact["seller"], "at": self._now.isoformat(),
                    "location": fact["location"],
                }  # fmt: skip
            yield fact

    def _site_of(self, fact: Raw) -> Site:
        key = fact["item"] if "item" in fact else fact["seller"]["name"]
        if key not in self._home:
            seller = fact["seller"]["name"]
            site = self._home.get(seller) or SITES[int(seller.removeprefix("seller-")) % len(SITES)]
            self._home[key] = self._home[seller] = site
        return self._home[key]
