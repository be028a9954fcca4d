"""One subscription, asked outside of an index, says what the definition says; and its explanation agrees."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.symmetric.worlds import MARKET, Random, programs, random_offer, random_subscription
from tocsin.cli.app import app
from tocsin.language import parse
from tocsin.symmetric import Matchmaker, decide
from tocsin.symmetric.offer import Offer
from tocsin.symmetric.two_sided import TwoSided

OWN = "insurance where price <= 20 * age with name = 'Bob', age = 48, years_ncd = 8"


@settings(max_examples=60)
@given(st.randoms(use_true_random=False), st.booleans())
def test_both_forms_of_an_explanation_agree_with_the_definition(random: Random, plain: bool) -> None:
    market = Matchmaker(MARKET, programs=programs())
    subscription = parse(random_subscription(random))
    draft = TwoSided.of(subscription, MARKET)
    assert draft is not None
    offer = market.analyse(random_offer(random))
    if plain:
        offer = Offer(None, offer.event, (), ())
    given = offer.event if plain else offer
    verdict = decide(offer, draft.subscriber, draft.meeting)
    as_one, hidden = draft.explain_as_one(given), draft.explain_as_one(given, reveal_rules=False)
    assert draft.holds(given) == draft.explain(given).verdict.matched == verdict.matched
    assert as_one.matched == hidden.matched == verdict.matched
    assert bool(as_one.changes) != as_one.matched
    assert as_one.as_json()["matched"] == verdict.matched
    assert len(str(as_one)) > 0


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ('{"event_type": "insurance", "name": "A", "cover": "Full", "price": 900}', 0, "✓ price <= 20 * age"),
        ('{"event_type": "insurance", "name": "A", "cover": "Full", "price": 990}', 1, "✗ price <= 20 * age"),
        ('{"event": {"name": "A", "cover": "Full", "price": 9}, "rules": ["age < 40"]}', 1, "✗ age < 40"),
        ('{"event_type": "driver", "name": "D", "age": 3, "years_ncd": 1}', 1, "✗ event_type = 'insurance'"),
    ],
)
def test_the_command_explains_with_the_subscriptions_own_properties(given: str, code: int, said: str) -> None:
    found = CliRunner().invoke(app, ["explain", OWN, given, "--schema", "insurance"])
    assert (found.exit_code, said in found.output) == (code, True), found.output
    as_json = CliRunner().invoke(app, ["explain", OWN, given, "--schema", "insurance", "--json"])
    assert '"meeting"' in as_json.output


def test_the_command_says_where_a_condition_with_properties_is_wrong(tmp_path: Path) -> None:
    del tmp_path
    found = CliRunner().invoke(app, ["explain", OWN.replace("* age", "* aeg"), "{}", "--schema", "insurance"])
    assert found.exit_code != 0
