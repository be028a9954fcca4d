"""Expressions prepared together mean what they mean one by one, and go by the short way where they can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.broker.market import SCHEMA, car, open_broker, seqs_of
from tocsin.broker.expressions import FEW, bind_stored, bulk_line, plain_tree, prepare, prepare_all
from tocsin.compile.bulk import load_bulk
from tocsin.compile.normalise import normalise
from tocsin.compile.table_builder import compile_table
from tocsin.errors import LanguageError

ATTRIBUTES = st.sampled_from(["price", "brand", "nothing"])
OPERANDS = st.one_of(st.integers(-9, 9), st.floats(-9, 9), st.sampled_from(["x", '"where":{"and":[', "{", "true", "é"]))
PREDICATES = st.tuples(ATTRIBUTES, st.sampled_from(["=", "!=", "<", ">=", "contains"]), OPERANDS).map(list)
DOCUMENTS = st.fixed_dictionaries(
    {"predicates": st.lists(PREDICATES, max_size=3)},
    optional={"event_types": st.sampled_from([["car"], ["car", "antique"], ["boat"]]), "id": st.integers(0, 9)},
)
MOST = 1 << 16


def outcome(document: dict[str, Any], *others: dict[str, Any]) -> object:
    """Return the normal form that a document has among others, or the error that it is refused with."""
    try:
        prepared = prepare_all([document, *others], SCHEMA, most_bytes=MOST)[0]
    except LanguageError as error:
        return str(error)
    return normalise(bind_stored(prepared.tree, SCHEMA))


@given(DOCUMENTS)
def test_documents_mean_the_same_together_as_alone(document: dict[str, Any]) -> None:
    fine = {"event_types": ["car"], "predicates": [["price", "<", 3], ["brand", "=", "x"]]}
    assert outcome(document, *[fine] * FEW) == outcome(document)


def test_plain_conjunctions_are_prepared_by_the_short_way() -> None:
    plain = {"event_types": ["car"], "predicates": [["price", "<", 3], ["brand", "=", "x"]]}
    long = {"event_types": ["car"], "predicates": [["price", "<", 3], ["brand", "in", ["x", "y"]]]}
    prepared = prepare_all([plain, long, "car where price < 9", *[plain] * FEW], SCHEMA, most_bytes=MOST)
    assert [one.plain for one in prepared[:4]] == [True, False, False, True]
    assert plain_tree(plain) == prepare(plain, SCHEMA, most_bytes=MOST).tree


@pytest.mark.parametrize(
    "text",
    [
        "car where price < 3",
        "car where price < 3 and brand = 'x'",
        'car where price < 3 and brand = \'"where":{"and":[\'',
        "car where price < 3 and (brand = 'x' or brand = 'y')",
        "car where price < 3 and not (brand = 'x' and price > 1)",
        "car where price in (1, 2) and brand = '{true}'",
        "car, antique where price < 3 or price > 7",
        "car",
    ],
)
def test_stored_subscription_is_the_same_line_for_bulk_loading(text: str) -> None:
    prepared = prepare(text, SCHEMA, most_bytes=MOST)
    loaded = load_bulk([bulk_line(7, prepared.tree)], SCHEMA)
    expected = compile_table(SCHEMA, [(7, prepared.form)])
    assert loaded.errors == []
    assert loaded.table.ids.tolist() == [7]
    assert len(loaded.table) == len(expected)


def test_batch_of_all_kinds_is_matched_at_once_and_after_a_restart(tmp_path: Path) -> None:
    place = str(tmp_path / "store.db")
    documents: list[Any] = [
        {"event_types": ["car"], "predicates": [["price", "<", limit], ["brand", "!=", "x"]]} for limit in range(600)
    ]
    documents += ["car where price < 5 or brand = 'y'", {"event_types": ["car"], "predicates": [["price", "=", 5]]}]
    with open_broker(place, engine="columnar") as broker:
        receipts = broker.subscribe_all(documents, owner="ada")
        first = broker.publish(car(5, brand="y"))
        reached = [*receipts[6:600], receipts[600], receipts[601]]
        expected = [(first.seq, one.id) for one in reached]
        assert seqs_of(broker, "ada") == expected
        assert broker.subscription(receipts[1].id, owner="ada").text == "car where price < 1 and brand != 'x'"
        broker.unsubscribe_all(receipts[:300])
        broker.publish(car(1000, brand="x"))
    for path in (tmp_path / "store.db.index").iterdir():
        path.unlink()
    with open_broker(place, engine="columnar") as broker:
        second = broker.publish(car(5, brand="y"))
        found = seqs_of(broker, "ada")
        assert found[-len(receipts[300:]) :] == [(second.seq, one.id) for one in receipts[300:]]
