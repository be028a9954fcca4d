"""What is wrong with a call is said when the subscription is made."""

from __future__ import annotations

import pytest

from tocsin.errors import BadArgument, BadDefinition, BindError
from tocsin.language import render
from tocsin.operators.operator import Open, operator, unify
from tocsin.operators.registry import Registry
from tocsin.schema import Event
from tocsin.schema.examples import load_example

AUCTION = load_example("auction")


def known_place(place: object) -> None:
    if place == "Atlantis":
        raise BadArgument("there is no place 'Atlantis' on the map")


@operator(reads=("location:point",), outputs={"metres": float}, check=known_place)
def distanceFrom(_event: Event, _place: str) -> float:  # noqa: N802 - as subscriptions write it
    """How far the event is from a place."""
    return 5.0


@operator(outputs={"people": int})
def mobPattern(_event: Event) -> int:  # noqa: N802
    return 60


@operator
def locIn(_event: Event, _region: str | Open) -> bool:  # noqa: N802
    return True


@operator
def colour(_event: Event, _share: float) -> bool:
    return True


REGISTRY = Registry([distanceFrom, mobPattern, locIn, colour])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("locin('Bronx')", "there is no operator 'locin'; did you mean locIn?"),
        ("locIn('Bronx', 3)", "locIn takes 1 argument, not 2: locIn([?]_region: text)"),
        ("locIn(3)", "_region of locIn: 3 is not a text"),
        ("distanceFrom(?where, ?x)", "must be a constant, not a variable"),
        ("distanceFrom('Atlantis', ?x)", "there is no place 'Atlantis' on the map"),
        ("bid where distanceFrom('x', ?y)", "reads the attribute location, which events of these types do not have"),
        ("mobPattern(?x) and locIn(?x)", "?x is numeric elsewhere, and text in locIn(?x)"),
        ("mobPattern(?x) and ?x > 'many'", "numbers"),
        ("not (not mobPattern(?x) or not ?x > 3)", "?x has no value here"),
        ("mobPattern(?x) or not mobPattern(?x)", "?x has a value in another alternative only"),
        ("mobPattern(?x) or ?x > 50", "?x has no value here"),
        ("mobPattern(?x) and (price < 3 or not (locIn('a') and not ?x > ?y))", "?y has no value"),
    ],
)
def test_a_wrong_call_is_refused_with_the_place(text: str, message: str) -> None:
    with pytest.raises(BindError) as caught:
        REGISTRY.bind(text, AUCTION)
    if message != "numbers":
        assert message in str(caught.value)
    assert "^" in str(caught.value)


def test_what_is_right_is_bound_with_canonical_constants() -> None:
    bound = REGISTRY.bind("colour(5.0) and mobPattern(?p) and ?p > 50 and not locIn('Bronx')", AUCTION)
    assert render(bound.subscription) == "colour(5) and mobPattern(?p) and ?p > 50 and not locIn('Bronx')"


@pytest.mark.parametrize(
    "text",
    [
        "mobPattern(?x) and not locIn('a') and (?x > 3 or ?x < 1)",
        "(mobPattern(?x) or distanceFrom('a', ?x)) and ?x > 3",
        "locIn(?r) and not (mobPattern(7) or locIn(?r))",
        "not mobPattern(?x)",
        "not (mobPattern(?x) and ?x > 3)",
    ],
)
def test_variables_that_every_alternative_gives_a_value_are_accepted(text: str) -> None:
    REGISTRY.bind(text, AUCTION)


def test_calls_unify_but_for_the_names_of_variables() -> None:
    @operator(outputs={"a": int, "b": int})
    def p(_event: Event) -> None:
        return None

    registry = Registry([p])

    def pattern(text: str) -> object:
        call = registry.bind(text, AUCTION).subscription.where
        return unify(call, p)[0]  # type: ignore[arg-type]

    assert pattern("p(?x, ?y)") == pattern("p(?a, ?b)")
    assert pattern("p(?x, ?y)") != pattern("p(?x, ?x)")
    assert pattern("p(1, ?x)") != pattern("p(?x, 1)")


def test_declarations_that_cannot_work_are_refused() -> None:
    with pytest.raises(BadDefinition, match="annotate x with one of str"):

        @operator
        def untyped(_event: Event, x) -> bool:  # type: ignore[no-untyped-def]
            return True

    with pytest.raises(BadDefinition, match="seconds, above zero"):

        @operator(cost=0)
        def free(_event: Event) -> bool:
            return True

    with pytest.raises(BadDefinition, match="already"):
        Registry([locIn, locIn])
