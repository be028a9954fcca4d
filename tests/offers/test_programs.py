"""Programs: versions, failures, time limits, the cache, and what they see."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.symmetric.worlds import MARKET
from tocsin.errors import BadDefinition, BindError, DuplicateName, EventRejected
from tocsin.language.formula import FLOAT, INT
from tocsin.symmetric import Matchmaker, Program, ProgramCache, Programs

OFFER = {"event": {}, "dynamic": {"price": "program('tariff', age)"}}


def market(program: Program, people: int = 10, cache: ProgramCache | None = None) -> Matchmaker:
    matchmaker = Matchmaker(MARKET, programs=Programs([program], cache))
    for id in range(people):
        matchmaker.subscribe(id, f"offer where price >= 0 with age = {id % 5}")
    return matchmaker


def tariff(function: Any, version: int = 1, **options: Any) -> Program:
    return Program("tariff", version, {"age": INT}, FLOAT, callable=function, **options)


def prices(matchmaker: Matchmaker) -> dict[Any, Any]:
    return {match.id: match.values["price"] for match in matchmaker.match(OFFER).notifications()}


def test_a_pure_program_is_called_once_for_equal_arguments_and_then_not_again() -> None:
    asked: list[int] = []

    def function(age: int) -> int:
        asked.append(age)
        return age * 10

    matchmaker = market(tariff(function))
    assert prices(matchmaker) == prices(matchmaker) == {id: id % 5 * 10 for id in range(10)}
    assert sorted(asked) == [0, 1, 2, 3, 4]
    assert matchmaker.stats()["cache"]["hit_rate"] == 0.5


def test_a_new_version_replaces_what_is_cached_also_for_offers_held_before() -> None:
    matchmaker = market(tariff(lambda age: age))
    matchmaker.advertise("o", OFFER)
    matchmaker.programs.register(tariff(lambda age: age + 100, version=2))
    assert prices(matchmaker) == {id: id % 5 + 100 for id in range(10)}
    assert dict(matchmaker.query("offer with age = 3"))["o"].values == {"price": 103}
    with pytest.raises(DuplicateName):
        matchmaker.programs.register(tariff(lambda age: age, version=2))


def test_what_a_program_raises_fails_its_subscribers_only() -> None:
    def function(age: int) -> float:
        return 10 / age

    matched = market(tariff(function)).match(OFFER)
    assert set(matched.ids) == {id for id in range(10) if id % 5}
    assert {failure.id for failure in matched.failures} == {0, 5}
    assert matched.failures[0].reason == "tariff raised ZeroDivisionError: division by zero"


def test_a_program_that_takes_too_long_fails_what_it_has_not_answered() -> None:
    never = threading.Event()

    def function(age: int) -> float:
        if age == 2:
            never.wait(30)
        return age

    matched = market(tariff(function, time_limit_seconds=0.2)).match(OFFER)
    never.set()
    assert {0, 1} <= {id % 5 for id in matched.ids if isinstance(id, int)}
    assert "took more than 0.2 seconds" in matched.failures[0].reason
    assert {failure.id for failure in matched.failures} >= {2, 7}


def test_an_impure_program_is_called_for_every_subscriber_and_never_cached() -> None:
    asked: list[int] = []

    def function(age: int) -> int:
        asked.append(age)
        return len(asked)

    matchmaker = market(tariff(function, pure=False))
    prices(matchmaker)
    prices(matchmaker)
    assert len(asked) == 20
    assert len(matchmaker.programs.cache) == 0


def test_the_cache_is_bounded_over_programs_and_invocations() -> None:
    cache = ProgramCache(programs=2, invocations=3)
    for program in ("a", "b"):
        cache.store(program, 1, [((number,), number) for number in range(5)])
    assert len(cache) == 6
    assert cache.look_up("a", 1, [(2,), (3,), (4,)]) == [2, 3, 4]
    cache.look_up("a", 1, [(2,)])
    cache.store("a", 1, [((9,), 9)])  # (3,) was used least recently
    assert [result in (2, 4, 9) for result in cache.look_up("a", 1, [(2,), (3,), (4,), (9,)])] == [
        True,
        False,
        True,
        True,
    ]
    cache.store("c", 1, [((0,), 0)])  # b was used least recently
    assert cache.look_up("a", 1, [(9,)]) == [9]
    assert len(cache) == 4
    cache.look_up("a", 2, [(9,)])  # another signature: the program has changed
    assert len(cache) == 1


def test_a_program_needs_one_body_and_a_right_expression() -> None:
    with pytest.raises(BadDefinition, match="an expression or a callable"):
        Program("p", 1, {}, FLOAT)
    with pytest.raises(BindError, match="there is no attribute 'km' here"):
        Program("p", 1, {"age": INT}, FLOAT, expression="km + 1")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            {"event": {}, "dynamic": {"price": "program('unknown', age)"}},
            "there is no function program\\('unknown', …\\)",
        ),
        ({"event": {}, "dynamic": {"price": "program('tariff', city)"}}, "takes a whole number here; city is text"),
        ({"event": {"price": 3}, "dynamic": {"price": "age"}}, "gives its value already"),
        ({"event": {}, "dynamic": {"price": "count", "count": "age"}}, "cannot depend on another"),
        ({"event": {}, "dynamic": {"tags": "city"}}, "several values"),
        ({"event": {}, "dynamic": {"price": "city"}}, "another kind than price has"),
        ({"event": {}, "rules": ["agee > 3"]}, "did you mean age"),
        ({"event": {}, "rule": []}, "an offer has no 'rule'"),
        ([], "an offer is an object"),
    ],
)
def test_a_wrong_offer_is_refused_with_the_reason(document: Any, message: str) -> None:
    matchmaker = market(tariff(lambda age: age))
    with pytest.raises(EventRejected, match=message):
        matchmaker.match(document)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("person where price > 1", "are of type 'offer', not 'person'"),
        ("offer with agee = 3", "did you mean age"),
        ("offer with age = 'x'", "the property age: 'x' is not a number"),
        ("offer where prise > 1", "did you mean price"),
    ],
)
def test_a_wrong_subscription_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(BindError, match=message):
        Matchmaker(MARKET).subscribe(1, text)
