"""The machine computes what the definition says, or leaves it to the slower way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tests.symmetric.worlds import MARKET, Random, programs
from tocsin.errors import BindError, FormulaFailed
from tocsin.language.formula_bind import bind_value
from tocsin.language.formula_columns import EXACT
from tocsin.language.formula_semantics import value_of
from tocsin.schema import NumericDomain
from tocsin.symmetric import meeting_of
from tocsin.symmetric.columns import PropertyColumn
from tocsin.symmetric.machine_code import machine_for
from tocsin.symmetric.offer import admitted

MEETING = meeting_of(MARKET)
SCOPE = MEETING.rule_scope(programs().resolve)
WANTED = [
    NumericDomain(name="float"), NumericDomain(name="int", type="int"), NumericDomain(name="some", minimum=0, maximum=99)
]  # fmt: skip
PEOPLE: dict[str, list[Any]] = {
    "age": [0, 1, 7, 40, -3, 10**15, None],
    "years": [0, 1, 2, 9, None],
    "budget": [0.5, 2.0, -7.25, None],
}


def number(random: Random, depth: int) -> str:
    shape = random.random()
    if not depth or shape < 0.35:
        return random.choice(["age", "years", "budget", "price", "count", "3", "0.5", "900"])
    if shape < 0.7:
        return f"({number(random, depth - 1)} {random.choice('+-*/%')} {number(random, depth - 1)})"
    if shape < 0.75:
        return f"-({number(random, depth - 1)})"
    if shape < 0.8:
        return "program('tariff', years, years + 1)"
    otherwise = f" else {number(random, depth - 1)}" if random.random() < 0.7 else ""
    return f"case when {condition(random, depth - 1)} then {number(random, depth - 1)}{otherwise} end"


def condition(random: Random, depth: int) -> str:
    shape = random.random()
    if depth and shape < 0.3:
        return f"({condition(random, depth - 1)} {random.choice(['and', 'or'])} {condition(random, depth - 1)})"
    if depth and shape < 0.4:
        return f"not ({condition(random, depth - 1)})"
    if shape < 0.6:
        return f"{number(random, depth)} {random.choice(['<', '<=', '=', '!=', '>', '>='])} years + 0"
    return random.choice(
        ["years > 1", "age between 0 and 7", "budget >= 0.5", "city = 'a'", "city != 'b'", "age is absent"]
        + ["price <= 5", "title = 'x'", "years = 2.5", "years != 2.5", "city is present"]
    )


def people(random: Random) -> list[dict[str, Any]]:
    drawn = [{name: random.choice(values) for name, values in PEOPLE.items()} for _ in range(12)]
    return [{**one, "city": random.choice(["a", "b", None])} for one in drawn]


@settings(max_examples=200)
@given(st.randoms(use_true_random=False))
def test_the_machine_computes_what_the_definition_says(random: Random) -> None:
    try:
        formula = bind_value(number(random, 3), SCOPE)
    except BindError:  # constants alone, divided by zero
        reject()
    wanted = random.choice(WANTED)
    machine = machine_for(formula, wanted, MEETING.property_domains)
    if machine is None:  # constants alone, such as 3 / 900, are a decimal
        assert "Decimal(" in repr(formula.root)
        return
    columns = {name: PropertyColumn(domain) for name, domain in MEETING.property_domains.items()}
    held = people(random)
    for person in held:
        for name, column in columns.items():
            column.append(person.get(name.removeprefix("person.")))
    offer = {"price": random.choice([2.5, 40, None]), "count": random.choice([3, None]), "title": "x"}
    for at, person in enumerate(held):
        ran = machine.run(columns, np.array([at]), offer)
        found = None if ran is None or ran[1].any() else ran[0]
        row = {**offer, **{f"person.{name}": value for name, value in person.items()}}
        try:
            value = value_of(formula.root, row)
            expected = None if value is None else admitted(value, wanted, "x")
        except FormulaFailed:
            assert found is None
            continue
        if found is None:
            assert row["person.age"] == 10**15, (formula, row)  # large numbers may make it unsure
        else:
            assert found.to_list() == [expected]


def test_large_numbers_are_left_to_the_slower_way() -> None:
    machine = machine_for(bind_value("age * age", SCOPE), WANTED[0], MEETING.property_domains)
    assert machine is not None
    columns = {name: PropertyColumn(domain) for name, domain in MEETING.property_domains.items()}
    for column in columns.values():
        column.append(None)
    columns["person.age"].append(EXACT)
    ran = machine.run(columns, np.array([0, 1]), {})
    assert ran is not None
    assert ran[1].tolist() == [False, True]


@pytest.mark.parametrize("text", ["program('risky', age)", "fee + 1", "city", "case when born = ends then 1 end"])
def test_what_is_more_than_numbers_has_no_code(text: str) -> None:
    formula = bind_value(text, SCOPE)
    assert machine_for(formula, formula.domain, MEETING.property_domains) is None
