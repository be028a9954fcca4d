"""Programs: versions, failures, time limits, the cache, and what they see."""

from __future__ import annotations

import json
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.offers.markets import Market, Outcome
from tests.offers.worlds import MARKET
from tocsin.errors import BadDefinition, BindError, DuplicateName, EventRejected, FileError
from tocsin.language import bind
from tocsin.language.formula import FLOAT, INT
from tocsin.offers import OfferBook, Program, ProgramCache, Programs, open_programs

OFFER = {"event": {}, "dynamic": {"price": "program('tariff', age)"}}


def market(program: Program, people: int = 10, cache: ProgramCache | None = None) -> Market:
    made = Market(MARKET, Programs([program], cache))
    for id in range(people):
        made.subscribe(id, f"offer where price >= 0 with age = {id % 5}")
    return made


def tariff(function: Any, version: int = 1, **options: Any) -> Program:
    return Program("tariff", version, {"age": INT}, FLOAT, callable=function, **options)


def outcome(made: Market) -> Outcome:
    return made.match(OFFER)[0]


def prices(made: Market) -> dict[Any, Any]:
    return {id: values["price"] for id, values in outcome(made).matches.items()}


def test_a_pure_program_is_called_once_for_equal_arguments_and_then_not_again() -> None:
    asked: list[int] = []

    def function(age: int) -> int:
        asked.append(age)
        return age * 10

    made = market(tariff(function))
    assert prices(made) == prices(made) == {id: id % 5 * 10 for id in range(10)}
    assert sorted(asked) == [0, 1, 2, 3, 4]
    assert made.programs.cache.hit_rate == 0.5


def test_a_new_version_replaces_what_is_cached() -> None:
    made = market(tariff(lambda age: age))
    assert prices(made)[3] == 3
    made.programs.register(tariff(lambda age: age + 100, version=2))
    assert prices(made) == {id: id % 5 + 100 for id in range(10)}
    book = OfferBook(MARKET)
    book.add("o", made.analysis.analyse(OFFER))
    assert dict(book.query(bind("offer with age = 3", MARKET)))["o"].computed == {"price": 103}
    with pytest.raises(DuplicateName):
        made.programs.register(tariff(lambda age: age, version=2))


def test_kept_values_follow_new_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.offers.requests.FEWEST_KEPT", 1)

    def times(factor: int) -> Program:
        return Program("tariff", factor, {"age": INT}, FLOAT, expression=f"age * {factor}")

    made = market(times(1))
    for _ in range(3):
        assert prices(made) == {id: id % 5 for id in range(10)}
    (scan,) = made.scans.values()
    assert any(known.kept for known in scan._index.computing._known)  # type: ignore[union-attr]
    made.programs.register(times(2))
    for _ in range(3):
        assert prices(made) == {id: id % 5 * 2 for id in range(10)}


def test_what_a_program_raises_fails_its_subscribers_only() -> None:
    def function(age: int) -> float:
        return 10 / age

    found = outcome(market(tariff(function)))
    assert set(found.matches) == {id for id in range(10) if id % 5}
    assert found.failures == dict.fromkeys((0, 5), "tariff raised ZeroDivisionError: division by zero")


def test_a_program_that_takes_too_long_fails_what_it_has_not_answered() -> None:
    never = threading.Event()

    def function(age: int) -> float:
        if age == 2:
            never.wait(30)
        return age

    found = outcome(market(tariff(function, time_limit_seconds=0.2)))
    never.set()
    assert {2, 7} <= found.failures.keys()
    assert "took more than 0.2 seconds" in found.failures[2]
    assert found.matches.keys() | found.failures.keys() == set(range(10))


def test_an_impure_program_is_called_for_every_subscriber_and_never_cached() -> None:
    asked: list[int] = []

    def function(age: int) -> int:
        asked.append(age)
        return len(asked)

    made = market(tariff(function, pure=False))
    prices(made)
    prices(made)
    assert len(asked) == 20
    assert len(made.programs.cache) == 0


def test_programs_run_only_for_those_whom_nothing_refuses_before() -> None:
    asked: list[int] = []

    def count(years: int) -> int:
        asked.append(years)
        return years

    made = Market(MARKET, Programs([Program("drawn", 1, {"years": INT}, INT, callable=count, pure=False)]))
    for id in range(30):
        kind = "x" if id % 3 else "w"
        made.subscribe(id, f"offer where kind = '{kind}' and count > 2 with years = {id}, age = {id}")
    offer = {"event": {"kind": "w"}, "rules": ["age < 15"], "dynamic": {"count": "program('drawn', years)"}}
    assert set(made.match(offer)[0].matches) == {3, 6, 9, 12}
    assert sorted(asked) == [0, 3, 6, 9, 12]


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
        ({"event": {}, "dynamic": {"price": "count", "count": "price"}}, "price needs count needs price"),
        ({"event": {}, "dynamic": {"tags": "city"}}, "several values"),
        ({"event": {}, "dynamic": {"price": "city"}}, "another kind than price has"),
        ({"event": {}, "rules": ["agee > 3"]}, "did you mean age"),
        ({"event": {}, "rule": []}, "an offer has no 'rule'"),
        ([], "an offer is an object"),
    ],
)
def test_a_wrong_offer_is_refused_with_the_reason(document: Any, message: str) -> None:
    with pytest.raises(EventRejected, match=message):
        market(tariff(lambda age: age)).match(document)


FILE = """
[programs.tariff]
version = 1
parameters = { age = "int" }
returns = "whole"
expression = "age * 2"
"""


def test_programs_have_one_form_in_toml_and_json(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(FILE)
    (tmp_path / "p.json").write_text(json.dumps(tomllib.loads(FILE)))
    for name in ("p.toml", "p.json"):
        (program,) = open_programs(tmp_path / name, MARKET)
        assert (program.name, program.returns) == ("tariff", MARKET.domains["whole"])
        with pytest.raises(FileError, match="there is no domain 'whole'"):
            open_programs(tmp_path / name)
    (tmp_path / "bad.toml").write_text(FILE.replace("version", "versoin"))
    with pytest.raises(FileError, match="not programs"):
        open_programs(tmp_path / "bad.toml", MARKET)
