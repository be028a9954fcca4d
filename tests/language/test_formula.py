"""Formulas: types, meaning, and the columns that must say the same as the definition."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language.formulas import NAMES, SCOPE, Random, random_condition, random_row, random_value, rows_of
from tocsin.errors import BindError, FormulaFailed, ParseError, TooLarge
from tocsin.language import parse_condition, parse_expression, render
from tocsin.language.bind import bind_condition, bind_value
from tocsin.language.formula import BOOLEAN, DECIMAL, FLOAT, INT, TEXT, Function, Scope
from tocsin.language.formula_columns import ValueColumn, column_of, several_column
from tocsin.language.formula_vector import compute_column, condition_column
from tocsin.language.semantics import Row, Situation, compute
from tocsin.language.semantics import holds as defined

DOMAINS = {**NAMES, "?x": INT, "?y": FLOAT}
FAILED = "failed: "


def _columns(rows: list[dict[str, Any]]) -> dict[str, ValueColumn]:
    """Return the rows as columns."""
    of = [rows_of(row) for row in rows]
    return {name: several_column(domain, [row.get(name) for row in of]) for name, domain in DOMAINS.items()}


def _defined(compute_one: Any, row: Row) -> object:
    try:
        return compute_one(row)
    except FormulaFailed as error:
        return FAILED + error.reason


def _same(one: object, other: object) -> bool:
    """Return whether two values are equal, and of one type where that matters: 1 and 1.0 are the same number."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


# --- the columns say what the definition says -------------------------------------------------------------------------


@given(st.randoms(use_true_random=False))
def test_a_value_over_columns_is_what_the_definition_says_for_each_row(random: Random) -> None:
    rows = [random_row(random) for _ in range(8)]
    for _ in range(6):
        formula = bind_value(random_value(random), SCOPE)
        found = compute_column(formula, _columns(rows), len(rows))
        listed = found.to_list()
        for at, row in enumerate(rows):
            wanted = _defined(lambda row, formula=formula: compute(formula, rows_of(row)), row)
            got = listed[at] if (reason := found.reason(at)) is None else FAILED + reason
            assert _same(got, wanted), render(formula.root)


@given(st.randoms(use_true_random=False))
def test_a_condition_over_columns_is_what_the_definition_says_for_each_row(random: Random) -> None:
    rows = [random_row(random) for _ in range(8)]
    for _ in range(6):
        formula = bind_condition(random_condition(random), SCOPE)
        found = condition_column(formula, _columns(rows), len(rows))
        for at, row in enumerate(rows):
            wanted = _defined(lambda row, formula=formula: defined(formula.root, Situation(rows_of(row))), row)
            got = bool(found.holds[at]) if (reason := found.reason(at)) is None else FAILED + reason
            assert got == wanted, render(formula.root)


@given(st.randoms(use_true_random=False))
def test_a_name_may_be_a_constant_for_all_rows(random: Random) -> None:
    constants = random_row(random)
    formula = bind_condition(random_condition(random, 2), SCOPE)
    found = condition_column(formula, {}, 2, rows_of(constants))
    wanted = _defined(lambda row: defined(formula.root, Situation(rows_of(row))), constants)
    got = [
        bool(held) if (reason := found.reason(at)) is None else FAILED + reason for at, held in enumerate(found.holds)
    ]
    assert got == [wanted, wanted]


@given(st.randoms(use_true_random=False))
def test_rendered_formulas_mean_the_same(random: Random) -> None:
    tree, row = random_value(random), random_row(random)
    formula = bind_value(tree, SCOPE)
    again = bind_value(parse_expression(render(tree)), SCOPE)
    assert _defined(lambda row: compute(again, rows_of(row)), row) == _defined(
        lambda row: compute(formula, rows_of(row)), row
    )


# --- meaning ----------------------------------------------------------------------------------------------------------


def value(text: str, **row: object) -> object:
    return compute(bind_value(text, SCOPE), rows_of(row))


def holds(text: str, **row: object) -> bool:
    return defined(bind_condition(text, SCOPE).root, Situation(rows_of(row)))


def test_case_takes_the_first_branch_that_holds() -> None:
    text = "case when j > 7 then 900 when j > 3 then 1000 else 1200 end"
    assert [value(text, j=8), value(text, j=5), value(text, j=0), value(text)] == [900, 1000, 1200, 1200]
    assert value("case when j > 7 then 900 end", j=1) is None


def test_integers_are_exact_and_division_gives_floats() -> None:
    assert value("i * i + 1", i=10**30) == 10**60 + 1
    assert value("j / 4", j=6) == 1.5
    assert value("-j % 3", j=7) == 2
    assert holds("i > f", i=2**53 + 1, f=2.0**53)
    assert not holds("i = f + 0", i=2**53 + 1, f=2.0**53)


def test_decimals_are_computed_exactly_and_rounded_to_34_digits() -> None:
    assert value("d * 3", d=Decimal("0.1")) == Decimal("0.3")
    assert value("d / 3", d=Decimal(1)) == Decimal("0.3333333333333333333333333333333333")
    assert value("d + f", d=Decimal("0.1"), f=0.2) == 0.1 + 0.2


def test_constants_are_computed_exactly() -> None:
    assert value("f + (0.1 + 0.2)", f=0.0) == 0.3


@pytest.mark.parametrize(
    ("text", "row", "reason"),
    [
        ("i / j", {"i": 1, "j": 0}, "division by zero"),
        ("f % g", {"f": 1.0, "g": 0.0}, "division by zero"),
        ("f * g", {"f": 1e300, "g": 1e300}, "the result is too large"),
        ("f * i", {"f": 1.0, "i": 10**400}, "the result is too large"),
        ("half(j)", {"j": 7}, "odd"),
        ("ratio(f, g)", {"f": 1.0, "g": 0.5}, "ratio returned 'high', which is not a number"),
    ],
)
def test_what_has_no_value_fails_and_says_why(text: str, row: dict[str, Any], reason: str) -> None:
    with pytest.raises(FormulaFailed, match=reason):
        value(text, **row)


@pytest.mark.parametrize("text", ["j > 0 and 10 / j > 1", "10 / j > 1 and j > 0", "j > 0 and ratio(f, f) > 1"])
def test_a_false_part_wins_over_a_failing_one(text: str) -> None:
    assert not holds(text, j=0, f=0.5)


def test_a_true_part_of_a_disjunction_wins_over_a_failing_one() -> None:
    assert holds("10 / j > 1 or j = 0", j=0)
    with pytest.raises(FormulaFailed):
        holds("10 / j > 1 or j = 1", j=0)


def test_what_is_absent_satisfies_nothing_and_neither_does_its_negation() -> None:
    assert not holds("i + 1 > f", f=1.0)
    assert not holds("not (i + 1 > f)", f=1.0)
    assert holds("i is absent", f=1.0)
    assert value("half(j)") is None


def test_functions_are_called_only_for_rows_that_need_them() -> None:
    asked: list[int] = []

    def count(number: int) -> int:
        asked.append(number)
        return number

    scope = Scope.of({"j": INT}, resolve=lambda *_: Function("count", (INT,), INT, count))
    formula = bind_condition("j > 2 and count(j) = 4", scope)
    found = condition_column(formula, {"j": column_of(INT, [1, 2, 3, 4, None])}, 5)
    assert found.holds.tolist() == [False, False, False, True, False]
    assert asked == [3, 4]


def test_columns_hold_what_arrays_cannot() -> None:
    column = column_of(INT, [1, 2**70, None])
    assert column.members is not None
    assert column.to_list() == [1, 2**70, None]
    doubled = compute_column(bind_value("i * 2", SCOPE), {"i": column}, 3)
    assert doubled.to_list() == [2, 2**71, None]
    plain = compute_column(bind_value("i * 2", SCOPE), {"i": column_of(INT, [1, 2, None])}, 3)
    assert plain.values.dtype == np.int64


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prize + 1", "there is no attribute 'prize' here"),
        ("t + 1", "t is text, and `+` takes numbers"),
        ("i * (1 / (2 - 2))", "division by zero"),
        ("case when j > 1 then 2 else 'x' end", "this branch is text, and an earlier one is a whole number"),
        ("half(f)", "half takes a whole number here; f is a number"),
        ("half(j, j)", "half takes 1 argument; here it has 2"),
        ("twice(j)", "there is no function twice here"),
        ("?z + 1", "?z has no value here"),
        ("tags", "tags may have several values"),
        ("case when t < size then 1 end", "compare by = or !="),
        ("case when b < b then 1 end", "compare by = or !="),
        ("case when w = i then 1 end", "a time cannot be compared with a whole number"),
        ("case when half(j) then 1 end", "gives a whole number, which is no condition"),
        ("case when i contains 'x' then 1 end", "contains nothing"),
    ],
)
def test_type_errors_say_what_is_wrong_and_where(text: str, message: str) -> None:
    with pytest.raises(BindError, match=re.escape(message)):
        bind_value(text, SCOPE)


def test_an_error_points_at_its_place() -> None:
    with pytest.raises(BindError, match="takes numbers") as caught:
        bind_value("j * (t - 1)", SCOPE)
    assert str(caught.value).splitlines()[:1] == ["j * (t - 1)"]
    assert str(caught.value).splitlines()[1].startswith("     ^")


def test_variables_are_refused_where_there_are_none() -> None:
    with pytest.raises(BindError, match="there are none here"):
        bind_value("?x + 1", Scope({}))


def test_formulas_have_the_bounds_of_the_language() -> None:
    with pytest.raises(TooLarge):
        bind_value("+".join(["j"] * 100), SCOPE)
    with pytest.raises(ParseError):
        bind_value("j +", SCOPE)


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("i + 1", INT),
        ("i / 2", FLOAT),
        ("i + f", FLOAT),
        ("d * 2", DECIMAL),
        ("case when b = true then 1 else 0.5 end", FLOAT),
        ("case when b = true then t else size end", TEXT),
        ("positive(f)", BOOLEAN),
    ],
)
def test_the_domain_of_a_formula_follows_from_its_parts(text: str, domain: object) -> None:
    assert bind_value(text, SCOPE).domain == domain


def test_names_are_those_mentioned_with_aliases_resolved() -> None:
    formula = bind_condition(parse_condition("alias > 3 and ?x < f or j is present"), SCOPE)
    assert formula.names == ("i", "?x", "f", "j")
