"""Pictures of structures: the snapshots of thesis 7.5, the figures of the symmetric paper."""

from __future__ import annotations

import pytest

from tests.matching.test_every_engine import CLASSIC, auction
from tocsin.errors import NotSupported
from tocsin.language import bind, parse
from tocsin.matching import Engine, engine_of
from tocsin.schema import EventType, NumericDomain, Schema, TypeAttribute
from tocsin_lab.show import show

SCENARIO = {"s1": "a > 6 and b = 6 and c < 12", "s2": "a > 6 and d = 7", "s3": "d = 7 and e < 3"}


def filled(engine: str, subscriptions: dict[str, str]) -> Engine:
    schema = auction()
    matcher = engine_of(engine)(schema)
    for id, text in subscriptions.items():
        matcher.add(id, bind(parse(text), schema))
    return matcher


def test_the_snapshots_of_thesis_7_5() -> None:
    """Figures 7.3 to 7.7: five predicates, p1 and p4 shared; the event satisfies p3 and p5; one hit each, no match."""
    matcher = filled("counting", SCENARIO)
    assert show(matcher, matcher.schema.admit({"c": 8, "e": 0, "d": 9})) == (
        "predicates, each stored once\n"
        "  <   p3: c < 12, p5: e < 3\n"
        "  =   p2: b = 6, p4: d = 7\n"
        "  >   p1: a > 6\n"
        "predicate → subscriptions\n"
        "  p1 → s1, s2\n"
        "  p2 → s1\n"
        "  p3 → s1\n"
        "  p4 → s2, s3\n"
        "  p5 → s3\n"
        "satisfied predicates: p3, p5\n"
        "subscription, hits of predicates\n"
        "  s1  1 of 3\n"
        "  s3  1 of 2\n"
    )


def small_numbers(highest: int) -> Schema:
    domain = NumericDomain(name="v", type="int", minimum=1, maximum=highest)
    return Schema({"v": domain}, {"v": "v"}, {"event": EventType("event", (TypeAttribute("v", mandatory=False),))})


def shown_table(highest: int, event: int) -> str:
    schema = small_numbers(highest)
    matcher = engine_of("counting-table")(schema)
    for id, text in enumerate(["v = 4", "v != 4", "v > 2", "v > 5", "v < 7"], 1):
        matcher.add(f"s{id}", bind(parse(text), schema))
    return show(matcher, schema.admit({"v": event}))


def test_the_table_of_topss_figure_1() -> None:
    """Operators by values; the event's value 4 is an index, and what is satisfied is inferred from it to both sides."""
    assert shown_table(8, 4).split("predicate → subscriptions")[0] == (
        "table of v, 1 to 8\n"
        "         1   2   3 [4]   5   6   7   8\n"
        "  =      .   .   . p1*   .   .   .   .\n"
        "  !=     .   .   .  p2   .   .   .   .\n"
        "  >      . p3*   .   .  p4   .   .   .\n"
        "  <      .   .   .   .   .   . p5*   .\n"
    )


def test_of_a_large_domain_only_the_values_that_occur_are_drawn() -> None:
    text = shown_table(1_000, 900)
    assert text.startswith("table of v, 1 to 1000, 5 of 1,000 values\n")
    assert "[900]" in text
    assert "p2*" in text


def test_the_matching_tree_of_the_symmetric_papers_figure_3() -> None:
    matcher = filled("matching-tree", {"s1": "a = 100 and b = 7", "s2": "a > 25"})
    assert show(matcher) == ("a?\n= 100\n    b?\n    = 7\n        [s1]\n*\n    a > 25?\n    yes\n        [s2]\n")


def test_hansons_trees_carry_marks_and_a_table_of_predicates() -> None:
    text = show(filled("hanson", SCENARIO))
    assert "IBS tree of d, depth 1\n  7   <[] =[2] >[]\n" in text
    assert "entry 2: s3  d = 7 and e < 3" in text


@pytest.mark.parametrize("engine", CLASSIC)
def test_every_engine_of_the_papers_has_a_picture_that_names_its_subscriptions(engine: str) -> None:
    text = show(filled(engine, SCENARIO))
    assert all(id in text for id in SCENARIO)


def test_what_has_no_picture_says_so() -> None:
    with pytest.raises(NotSupported, match="no picture"):
        show(filled("columnar", SCENARIO))
    with pytest.raises(NotSupported, match="helps nobody"):
        show(filled("counting", {str(id): f"a = {id}" for id in range(201)}))
