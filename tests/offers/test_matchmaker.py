"""The matchmaker against the definition: random subscribers, rules, programs and offers, with churn."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.symmetric.worlds import MARKET, Random, programs, random_offer, random_subscription
from tocsin.errors import DuplicateSubscription, UnknownSubscription
from tocsin.schema import Value
from tocsin.symmetric import Matched, Matchmaker, Offer, Subscriber, decide
from tocsin.symmetric import plan as planner
from tocsin.symmetric import roster as rosters


def check(matchmaker: Matchmaker, held: dict[int, Subscriber], document: dict[str, Any]) -> Matched:
    """Compare an offer's matches, values and failures with the definition, pair by pair."""
    found = matchmaker.match(document)
    offer: Offer = matchmaker.analyse(document)
    matches: dict[Any, dict[str, Value | None]] = {}
    failures: dict[Any, str] = {}
    for id, subscriber in held.items():
        verdict = decide(offer, subscriber, matchmaker.meeting)
        if verdict.matched:
            matches[id] = dict(verdict.values)
        elif verdict.failure is not None:
            failures[id] = verdict.failure
    assert {match.id: dict(match.values) for match in found.notifications()} == matches
    assert {failure.id: failure.reason for failure in found.failures} == failures
    assert found.for_publisher() == {"matches": len(matches), "failures": len(failures)}
    return found


@settings(max_examples=25)
@given(st.randoms(use_true_random=False), st.booleans())
def test_offers_match_as_the_definition_says_while_subscribers_come_and_go(random: Random, rule_indexes: bool) -> None:
    matchmaker = Matchmaker(MARKET, programs=programs(), rule_indexes=rule_indexes)
    held: dict[int, Subscriber] = {}
    for id in range(24):
        text = random_subscription(random)
        matchmaker.subscribe(id, text)
        held[id] = matchmaker.bind_subscriber(id, text)
        if held and random.random() < 0.25:
            gone = random.choice(list(held))
            matchmaker.unsubscribe(gone)
            del held[gone]
        if id % 6 == 5:
            for _ in range(3):
                check(matchmaker, held, random_offer(random))


@settings(max_examples=15)
@given(st.randoms(use_true_random=False))
def test_rules_may_go_first_without_changing_the_answer(random: Random) -> None:
    matchmaker = Matchmaker(MARKET, programs=programs())
    held: dict[int, Subscriber] = {}
    for id in range(20):
        text = random_subscription(random)
        matchmaker.subscribe(id, text)
        held[id] = matchmaker.bind_subscriber(id, text)
    before = planner.CHECK_ROWS, planner.ENGINE_ROWS
    try:
        planner.CHECK_ROWS, planner.ENGINE_ROWS = 0, 10**9
        for _ in range(6):
            document = random_offer(random)
            document["rules"].append(random.choice(["years >= 2", "city = 'a'", "age < 40", "shirt in ('S', 'M')"]))
            assert check(matchmaker, held, document).plan.first == "rules"
    finally:
        planner.CHECK_ROWS, planner.ENGINE_ROWS = before


@settings(max_examples=10)
@given(st.randoms(use_true_random=False))
def test_a_new_subscription_finds_the_live_offers(random: Random) -> None:
    matchmaker = Matchmaker(MARKET, programs=programs())
    documents = {id: random_offer(random) for id in range(8)}
    for id, document in documents.items():
        matchmaker.advertise(id, document)
    text = random_subscription(random)
    subscriber = matchmaker.bind_subscriber(0, text)
    wanted = {
        id
        for id, document in documents.items()
        if decide(matchmaker.analyse(document), subscriber, matchmaker.meeting).matched
    }
    assert {id for id, _ in matchmaker.query(text)} == wanted


def test_rows_are_numbered_anew_when_many_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rosters, "FEWEST_DEAD", 10)
    matchmaker = Matchmaker(MARKET, programs=programs())
    held = {}
    for id in range(60):
        text = f"offer where price <= {id} with age = {id}, years = {id % 9}"
        matchmaker.subscribe(id, text)
        held[id] = matchmaker.bind_subscriber(id, text)
    document = {"event": {"count": 3}, "rules": ["age > 5"], "dynamic": {"price": "years * 5"}}
    check(matchmaker, held, document)
    for id in range(0, 60, 2):
        matchmaker.unsubscribe(id)
        del held[id]
    assert matchmaker.roster.rebuilds > 0
    check(matchmaker, held, document)


def test_programs_run_for_survivors_only() -> None:
    asked: list[int] = []
    registered = programs()
    registered.remove("drawn")
    from tocsin.language.formula import INT
    from tocsin.symmetric import Program

    def count(years: int) -> int:
        asked.append(years)
        return years

    registered.register(Program("drawn", 1, {"years": INT}, INT, callable=count, pure=False))
    matchmaker = Matchmaker(MARKET, programs=registered)
    for id in range(30):
        kind = "x" if id % 3 else "w"
        matchmaker.subscribe(id, f"offer where kind = '{kind}' and count > 2 with years = {id}, age = {id}")
    offer = {"event": {"kind": "w"}, "rules": ["age < 15"], "dynamic": {"count": "program('drawn', years)"}}
    assert set(matchmaker.match(offer).ids) == {3, 6, 9, 12}
    assert sorted(asked) == [0, 3, 6, 9, 12]
    assert matchmaker.work.dynamic_rows == 5


def test_the_plan_says_what_goes_first_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    matchmaker = Matchmaker(MARKET)
    for id in range(3000):
        matchmaker.subscribe(id, f"offer with age = {id}")
    rare = matchmaker.match({"event": {}, "rules": ["age < 3"]})
    assert rare.plan.why.startswith("rules first: age < 3 holds for 3 of 3,000 subscribers")
    monkeypatch.setattr(planner, "ENGINE_ROWS", 0)
    common = matchmaker.match({"event": {}, "rules": ["age < 2990"]})
    none = matchmaker.match({"event": {}})
    assert (len(rare.ids), len(common.ids), len(none.ids)) == (3, 2990, 3000)
    assert common.plan.why.startswith("static first: age < 2990 holds for 2,990 of 3,000 subscribers")
    assert none.plan.why == "static first: the offer has no rules"
    assert matchmaker.work.rules_first == 1


def test_ids_are_held_once() -> None:
    matchmaker = Matchmaker(MARKET)
    matchmaker.subscribe("a", "offer with age = 1")
    with pytest.raises(DuplicateSubscription):
        matchmaker.subscribe("a", "offer")
    with pytest.raises(UnknownSubscription):
        matchmaker.unsubscribe("b")


def test_conditions_with_too_many_alternatives_for_the_engine_are_decided_after_it() -> None:
    matchmaker = Matchmaker(MARKET)
    parts = [
        f"({' or '.join(f'{name} = {value}' for value in range(6))} or open = true)"
        for name in ("count", "fee", "price")
    ]
    large = f"offer where {' and '.join(parts)} with age = 1"
    held = {}
    for id in range(3):
        matchmaker.subscribe(id, large)
        held[id] = matchmaker.bind_subscriber(id, large)
        for count in (5, 7):
            document = {"event": {"count": count, "fee": 2, "price": 3, "open": False}}
            assert len(check(matchmaker, held, document).ids) == (id + 1 if count == 5 else 0)
