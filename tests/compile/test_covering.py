"""Covering is never claimed wrongly, and is found in what people write."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given

from tests.strategies.worlds import random_event, random_schema, random_subscription, worlds
from tocsin.compile import NormalForm, normalise
from tocsin.compile.analysis import covers
from tocsin.errors import LanguageError
from tocsin.language import Subscription, bind, evaluate, parse
from tocsin.language.syntax import And, Or
from tocsin.schema import Schema
from tocsin.schema.examples import load_example

AUCTION = load_example("auction")


def form(text: str) -> NormalForm:
    return normalise(bind(parse(text), AUCTION, text=text))


def auction_covers(wide: str, narrow: str) -> bool:
    return covers(form(wide), form(narrow), AUCTION.multiple_attributes)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("item where price < 100", "item where price < 50"),
        ("item where price < 100", "item where price < 50 and brand = 'mini'"),
        ("item, bid where price < 100", "item where price <= 99"),
        ("price < 100", "bid where price between 10 and 20"),
        ("item where category kind of 'furniture'", "item where category kind of 'bedroom' and price < 3"),
        ("item where category kind of 'furniture'", "item where category = 'sofa'"),
        ("item where brand in ('mini', 'cooper', 'leica')", "item where brand in ('leica', 'mini')"),
        ("item where price < 100 or brand = 'mini'", "item where brand = 'mini' and year > 1960"),
        ("item where price < 100 or brand = 'mini'", "item where price < 9 or brand = 'mini'"),
        ("item where condition >= 'good'", "item where condition = 'new'"),
        ("item where brand is present", "item where not (brand = 'mini')"),
        ("item where not (brand = 'mini')", "item where brand in ('leica', 'cooper')"),
        ("item where not (price between 10 and 20)", "item where price < 5"),
        ("item where colour = 'red'", "item where colour = 'red' and colour = 'blue'"),
        ("item where title contains 'old lamp'", "item where title contains 'old lamp' and price < 9"),
        ("item where location within 5 km of (40.85, -73.88)", "item where location within 5 km of (40.85, -73.88) and price < 9"),
    ],
)  # fmt: skip
def test_what_people_write_is_found(wide: str, narrow: str) -> None:
    assert auction_covers(wide, narrow)
    assert not auction_covers(narrow, wide)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("item where price < 100", "price < 50"),  # of any type
        ("item where price < 100", "bid where price < 50"),
        ("item where price < 100 and brand = 'mini'", "item where price < 50"),
        ("item where not (colour = 'red')", "item where colour = 'blue'"),  # it may be red too
        ("item where not (colour = 'red')", "item where brand = 'mini'"),  # colour may be absent
        ("item where category kind of 'bedroom'", "item where category kind of 'furniture'"),
    ],
)
def test_what_does_not_cover_is_not_said_to(wide: str, narrow: str) -> None:
    assert not auction_covers(wide, narrow)


@given(world=worlds())
def test_covering_is_never_claimed_wrongly(world: tuple[Schema, Random]) -> None:
    schema, random = world
    subscriptions = [random_subscription(random, schema) for _ in range(4)]
    subscriptions += [mixed(random, *random.sample(subscriptions, 2)) for _ in range(4)]
    check(schema, random, subscriptions)


def mixed(random: Random, one: Subscription, other: Subscription) -> Subscription:
    """Return a subscription that covers, or is covered by, another, with some luck."""
    return replace(one, where=random.choice((And, Or))((one.where, other.where)))


def check(schema: Schema, random: Random, subscriptions: list[Subscription]) -> int:
    """Check every claim on events; return how many claims there were."""
    bound = []
    for subscription in subscriptions:
        try:
            one = bind(subscription, schema)
            bound.append((one, normalise(one)))
        except LanguageError:  # too large, or of another type: not one
            continue
    events = [schema.admit(random_event(random, schema)) for _ in range(12)]
    claims = 0
    for wide, wide_form in bound:
        for narrow, narrow_form in bound:
            if wide is not narrow and covers(wide_form, narrow_form, schema.multiple_attributes):
                claims += 1
                for event in events:
                    assert evaluate(wide, event) or not evaluate(narrow, event)
    return claims


def test_the_check_above_sees_many_claims() -> None:
    random = Random(3)
    claims = 0
    for _ in range(40):
        schema = random_schema(random)
        subscriptions = [random_subscription(random, schema) for _ in range(3)]
        subscriptions += [mixed(random, *random.sample(subscriptions, 2)) for _ in range(3)]
        claims += check(schema, random, subscriptions)
    assert claims > 40
