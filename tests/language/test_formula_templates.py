"""Conditions bound by template are those that binding in full gives."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import LanguageError
from tocsin.language.bind import bind_condition
from tocsin.language.formula import FLOAT, INT, TEXT, ConditionFormula, Scope
from tocsin.offers.analysis import ConditionTemplates
from tocsin.schema import EnumeratedDomain

SCOPE = Scope.of(
    {"age": INT, "income": FLOAT, "region": TEXT, "size": EnumeratedDomain(name="size", values=("S", "M"))}
)
SHAPES = [
    "age >= {n}",
    "age between {n} and {m}",
    "{n} < age",
    "region = '{t}' and age < {n}",
    "(age > {n} and income <= {m}) and region != '{t}'",
    "age > {n} or age < {m}",
    "not (age = {n})",
    "age in ({n}, {m})",
    "age + {n} > income",
    "size = '{t}'",
    "age > -{n}",
    "age > {n}.5",
    "region starts with '{t}'",
    "income > {n} * {m}",
    'age>{n} -- more than "{m}"',
]
TEXTS = st.sampled_from(["", "a", "S", "M", "it", "5", "a 7 b", "--", "x = 3"])


def in_full(text: str) -> ConditionFormula:
    return bind_condition(text, SCOPE)


def bound_or_refused(bind: Callable[[str], ConditionFormula], text: str) -> ConditionFormula | str:
    try:
        return bind(text)
    except LanguageError as error:
        return f"{type(error).__name__}: {error}"


@given(st.lists(st.tuples(st.sampled_from(SHAPES), st.integers(0, 99), st.integers(0, 10**15), TEXTS), max_size=8))
def test_templates_give_what_binding_in_full_gives(drawn: list[tuple[str, int, int, str]]) -> None:
    templates = ConditionTemplates(SCOPE)
    for shape, n, m, text in drawn:
        written = shape.format(n=n, m=m, t=text)
        assert bound_or_refused(templates.bind, written) == bound_or_refused(in_full, written)


def test_a_text_that_differs_in_constants_is_not_parsed_again() -> None:
    templates = ConditionTemplates(SCOPE)
    for n in range(50):
        templates.bind(f"age between {n} and {n + 3}")
        templates.bind(f"region = 'r{n}'")
    assert templates.parsed == 2
