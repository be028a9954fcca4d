"""Two sites and one schema: what the sites publish is their own, and becomes what all share."""

from collections import Counter

import pytest

from tocsin.errors import EventRejected, TocsinError
from tocsin.language import bind, evaluate, parse
from tocsin.schema.examples import load_example
from tocsin_examples import flohmarkt, hammer
from tocsin_examples.auction import Auction
from tocsin_examples.bazaar import SITES, Bazaar
from tocsin_examples.integration import extended, missing

EVENTS = 600


def test_what_a_site_says_is_admitted_by_its_own_schema_and_its_translation_by_the_integrated_one() -> None:
    bazaar = Bazaar(5)
    seen: Counter[tuple[str, str]] = Counter()
    for site, own in bazaar.own_events(EVENTS):
        site.schema.admit(own)
        event = bazaar.schema.admit(site.translate(own))
        seen[site.name, event.types[0]] += 1
    types = {"item", "bid", "sale", "question", "seller"}
    assert {kind for name, kind in seen if name == hammer.NAME} == types
    assert {kind for name, kind in seen if name == flohmarkt.NAME} == types


def test_one_subscription_sees_both_sites_and_one_can_ask_for_a_site() -> None:
    bazaar = Bazaar(5)
    both = bind(parse("item where category kind of 'home and garden' or category kind of 'vehicles'"), bazaar.schema)
    one = bind(parse("item where site = 'Hammer & Sons' and saleroom in ('London', 'Leeds')"), bazaar.schema)
    events = [bazaar.schema.admit(raw) for raw in bazaar.events(EVENTS)]
    assert {event.values["site"][0] for event in events if evaluate(both, event)} == {hammer.NAME, flohmarkt.NAME}
    assert {event.values["site"][0] for event in events if evaluate(one, event)} == {hammer.NAME}


def test_translating_gives_back_what_happened() -> None:
    bazaar, market = Bazaar(5), Auction(5)
    translated = [event for event in bazaar.events(EVENTS) if event["event_type"] != "seller"]
    for fact, event in zip(market.events(EVENTS), translated, strict=False):
        fact = dict(fact)
        assert (event["event_type"], event["item"], event["title"], event["category"]) == (
            fact["event_type"], fact["item"], fact["title"], fact["category"],
        )  # fmt: skip
        if "price" in fact:
            assert event["price"] == pytest.approx(fact["price"], abs=0.02)
        if "condition" in fact:
            assert event["condition"] == fact["condition"]
        if "seller" in fact:
            assert event["seller"]["rating"] == pytest.approx(fact["seller"]["rating"], abs=0.05)


def test_the_same_seed_gives_the_same_market() -> None:
    assert list(Bazaar(7).events(200)) == list(Bazaar(7).events(200))
    assert list(Bazaar(7).events(200)) != list(Bazaar(8).events(200))


def test_a_site_that_joins_later_uses_what_is_there_and_every_step_is_of_the_two_schemas() -> None:
    first, second = SITES
    schema = extended(load_example("auction"), first.extensions)
    assert len(missing(schema, second.extensions)) == 1
    assert missing(extended(schema, second.extensions), second.extensions) == []
    whole = Bazaar(1).schema
    for site in SITES:
        assert set(site.mappings) == set(site.schema.event_types)
        for mapping in site.mappings.values():
            own = {entry.attribute for entry in site.schema.event_types[mapping.own_type].attributes}
            shared = {entry.attribute for entry in whole.event_types[mapping.event_type].attributes}
            assert {step.source for step in mapping.steps} == own
            assert {step.attribute for step in mapping.steps} <= shared


def test_what_is_not_of_the_site_is_refused() -> None:
    site, own = next(Bazaar(5).own_events(1))
    with pytest.raises(EventRejected):
        site.translate({**own, "approval": 400})
    with pytest.raises(TocsinError, match="no counterpart"):
        hammer.SITE.mappings["lot"].steps[2].convert("Motoring")


def test_a_reader_that_stops_and_comes_back_misses_no_site() -> None:
    bazaar = Bazaar(5)
    assert len([event for _ in range(60) for event in bazaar.events(5)]) == 300
