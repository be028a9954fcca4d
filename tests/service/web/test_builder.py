"""The form of a subscription and its text are made from each other."""

from __future__ import annotations

import pytest

from tests.broker.market import SCHEMA
from tocsin.service.web.builder import Row, rows_of, text_of, trouble_with
from tocsin.service.web.schema_pages import read_tree


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [Row("price", "<", "100")],
        [Row("price", "between", "1, 5"), Row("price", "!=", "3")],
        [Row("price", "is present", "")],
        [Row("price", "in", "1, 2, 3")],
    ],
)
def test_rows_come_back_from_their_text(rows: list[Row]) -> None:
    text = text_of(["car"], rows, SCHEMA.view(["car"]))
    assert trouble_with(text, SCHEMA) is None
    assert rows_of(text) == (("car",), rows)


@pytest.mark.parametrize(
    "text",
    [
        "car where price < 1 or price > 5",
        "car where not (price < 1)",
        "order where some items (qty > 3)",
        "order where price < 5 and no items (qty > 3)",
        "order where every items (some parts (n = 1))",
        "car where price < 0.8 * estimate",
    ],
)
def test_what_rows_cannot_say_has_no_rows(text: str) -> None:
    assert rows_of(text) is None


def test_trouble_is_marked_where_it_is() -> None:
    trouble = trouble_with("car where prise < 1", SCHEMA)
    assert trouble is not None
    assert (trouble.before, trouble.place, trouble.after) == ("car where ", "prise", " < 1")
    assert "price" in trouble.message


def test_quotes_in_a_value_stay_in_the_value() -> None:
    text = text_of([], [Row("anything", "=", "x' or 'a' = 'a")], SCHEMA.view())
    assert text == "anything = 'x'' or ''a'' = ''a'"


def test_indented_lines_are_a_hierarchy() -> None:
    assert read_tree(["vehicle", "  car", "    mini", "  bike", "", "boat"]) == {
        "vehicle": {"car": {"mini": {}}, "bike": {}},
        "boat": {},
    }
