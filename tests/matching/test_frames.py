"""Tables of events in, tables of the same kind out; how things show themselves; what is no event says so."""

from __future__ import annotations

import json
from html import escape
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import tocsin
from tocsin.errors import BadValue, EventRejected, NotSupported

ROWS: list[dict[str, Any]] = [
    {"brand": "mini", "price": 900.0, "colour": "red"},
    {"brand": "audi", "price": 3500.5, "colour": None},
    {"brand": "mini", "price": 1400.0, "colour": "blue"},
]
SCHEMA = tocsin.Schema.infer([{"brand": "mini", "price": 900.5}, {"brand": "a", "price": 1, "colour": "red"}])
# The first event matches both, the second none, the third the second.
WANTED = [(0, "cheap"), (0, "minis"), (2, "minis")]


def matcher_of(texts: dict[Any, str] | None = None) -> tocsin.Matcher:
    matcher = tocsin.Matcher(SCHEMA)
    for id, text in (texts or {"cheap": "price < 1300", "minis": "brand = 'mini'"}).items():
        matcher.subscribe(id, text)
    return matcher


def pairs(rows: list[dict[str, Any]]) -> list[tuple[int, Any]]:
    """Return (the number of the event, the id) of rows that came back."""
    numbers = {row["price"]: number for number, row in enumerate(ROWS)}
    return sorted((numbers[row["price"]], row["subscription"]) for row in rows)


def test_a_pandas_frame_comes_back_as_one_with_its_own_index_and_types() -> None:
    frame = pd.DataFrame(ROWS, index=["x", "y", "z"]).astype({"brand": "category"})
    found = matcher_of().match_frame(frame)
    assert isinstance(found, pd.DataFrame)
    assert pairs(found.to_dict("records")) == WANTED
    assert sorted(found.index) == ["x", "x", "z"]
    assert found["brand"].dtype == frame["brand"].dtype


@pytest.mark.parametrize("lazy", [False, True])
def test_a_polars_frame_comes_back_as_one(lazy: bool) -> None:
    frame = pl.DataFrame(ROWS)
    found = matcher_of().match_frame(frame.lazy() if lazy else frame)
    assert isinstance(found, pl.LazyFrame if lazy else pl.DataFrame)
    assert pairs((found.collect() if isinstance(found, pl.LazyFrame) else found).to_dicts()) == WANTED


@pytest.mark.parametrize("kind", [pa.Table, pa.RecordBatch])
def test_arrow_comes_back_as_it_went_in(kind: Any) -> None:
    found = matcher_of().match_frame(kind.from_pylist(ROWS))
    assert type(found) is kind
    assert pairs(found.to_pylist()) == WANTED


def test_what_is_read_piece_by_piece_is_answered_piece_by_piece() -> None:
    table = pa.Table.from_pylist(ROWS)
    for streamed in (ds.dataset(table), table.to_reader(max_chunksize=1)):
        found = matcher_of().match_frame(streamed)
        assert isinstance(found, pa.RecordBatchReader)
        assert pairs(found.read_all().to_pylist()) == WANTED


def test_dicts_and_lines_of_json_come_back_as_dicts() -> None:
    plain = [{name: value for name, value in row.items() if value} for row in ROWS]
    lines = [json.dumps(row) for row in plain]
    for given_rows in (plain, lines, [line.encode() for line in lines]):
        found = matcher_of().match_frame(given_rows)
        assert isinstance(found, list)
        assert pairs(found) == WANTED
    assert pairs(list(matcher_of().match_frame(iter(plain)))) == WANTED
    assert matcher_of().match(lines[2]) == ["minis"]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.Table.from_pylist, pa.RecordBatch.from_pylist])
def test_nothing_that_matches_is_an_empty_frame_with_the_column(make: Any) -> None:
    for ids in ({7: "price < 1"}, {"none": "price < 1"}):
        found = matcher_of(ids).match_frame(make(ROWS))
        assert len(found) == 0
        assert "subscription" in (
            found.columns if hasattr(found, "iloc") or hasattr(found, "lazy") else found.schema.names
        )


@given(st.lists(st.integers(-50, 50), max_size=40), st.lists(st.integers(-50, 50), min_size=1, max_size=8))
def test_frames_match_as_events_do(prices: list[int], bounds: list[int]) -> None:
    schema = tocsin.Schema.infer([{"price": 1, "n": 1}])
    matcher = tocsin.Matcher(schema)
    for number, bound in enumerate(bounds):
        matcher.subscribe(number, f"price < {bound}")
    events = [{"price": price, "n": number} for number, price in enumerate(prices)]
    wanted = sorted((at, id) for at, ids in enumerate(matcher.match_batch(events)) for id in ids)
    for frame in (
        pd.DataFrame(events, columns=["price", "n"]),
        pl.DataFrame(events, schema={"price": pl.Int64, "n": pl.Int64}),
    ):
        found = matcher.match_frame(frame)
        assert sorted(zip(found["n"].to_list(), found["subscription"].to_list(), strict=True)) == wanted


# --- what is wrong ----------------------------------------------------------------------------------------------------


def test_what_is_no_table_or_no_event_says_what_to_do() -> None:
    matcher = matcher_of()
    with pytest.raises(NotSupported, match=r"matcher\.match\(event\)"):
        matcher.match_frame(ROWS[0])
    with pytest.raises(NotSupported, match="DataFrame of pandas or polars"):
        matcher.match_frame(3)
    with pytest.raises(NotSupported, match="column 'subscription' already"):
        matcher.match_frame(pd.DataFrame({"subscription": [1]}))
    with pytest.raises(EventRejected, match="not JSON"):
        matcher.match("price < 3")
    with pytest.raises(EventRejected, match="match_frame"):
        matcher.match(pd.DataFrame(ROWS))
    with pytest.raises(BadValue, match="row 0"):
        matcher.match_frame(pa.table({"price": ["cheap"], "brand": ["a"]}))
    assert list(matcher.match_frame(pd.DataFrame(ROWS), column="id")["id"]) != []


def test_rows_that_are_bad_are_named_and_blank_lines_are_none() -> None:
    matcher = tocsin.Matcher()
    matcher.subscribe("ann", "price < 3")
    lines = ['{"price": 1}\n', "\n", '{"price": 2']
    assert matcher.match_frame(lines[:2]) == [{"price": 1, "subscription": "ann"}]
    with pytest.raises(EventRejected, match=r"^row 2: not JSON"):
        matcher.match_frame(lines)
    with pytest.raises(NotSupported, match=r"a column has values of several types: .*column price"):
        matcher.match_frame(pd.DataFrame({"price": ["x", 1]}))
    with pytest.raises(NotSupported, match="of one event: matcher"):
        matcher.match_frame("events.jsonl")
    with pytest.raises(NotSupported, match=r"a list is no schema; of sample events: Matcher\(Schema.infer"):
        tocsin.Matcher([{"price": 1}])  # type: ignore[arg-type]


def test_ids_of_both_kinds_are_refused_where_a_column_holds_one() -> None:
    matcher = matcher_of({7: "price < 1300", "minis": "brand = 'mini'"})
    assert {type(one) for one in matcher.match_frame(pd.DataFrame(ROWS))["subscription"]} == {int, str}
    with pytest.raises(NotSupported, match="match_batch"):
        matcher.match_frame(pl.DataFrame(ROWS))


# --- how things show themselves ---------------------------------------------------------------------------------------


def test_schema_matcher_explanation_and_plan_show_themselves_as_tables() -> None:
    matcher = matcher_of({"a": "price < 1000 and brand = '<b>'"})
    shown = [
        (tocsin.Schema.infer(ROWS, mandatory=True), "brand", "mandatory"),
        (matcher, "subscriptions", "1"),
        (matcher.explain("a", {"brand": "mini", "price": 1100}), "price < 1000", "price is 1100"),
        (matcher.plan("a"), "(every event)", "rows beside it"),
    ]
    for thing, *words in shown:
        html = thing._repr_html_()
        console = Console(width=200)
        with console.capture() as captured:
            console.print(thing)
        for word in words:
            assert escape(word) in html, word
            assert word in captured.get(), word
    assert "<b>" not in matcher.explain("a", {"brand": "mini", "price": 1})._repr_html_().partition("</p>")[2]
    assert repr(matcher) == "<Matcher of 1 subscriptions to event>"
    assert repr(matcher.explain("a", {"brand": "mini", "price": 1100})).startswith("does not match\n  ✗ and\n")
