"""What numpy, pandas, polars and Arrow hand over: numbers are numbers, missing is absent, and what is no value is refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tocsin
from tocsin.errors import BadDefinition, BadValue, EventRejected, NotSupported

NAIVE = datetime(2026, 1, 1, 12)  # noqa: DTZ001
AWARE = NAIVE.replace(tzinfo=UTC)
TYPED = tocsin.Schema.infer([{"price": 1.5, "at": AWARE}])
TEXTS = {"cheap": "price < 10", "none": "price is absent", "new": "at as time > time '2025-01-01T00:00Z'"}


def matcher_of(schema: tocsin.Schema | None) -> tocsin.Matcher:
    matcher = tocsin.Matcher(schema)
    for id, text in TEXTS.items():
        matcher.subscribe(id, text.replace("at as time", "at") if schema is not None else text)
    return matcher


@pytest.fixture(params=["untyped", "typed"])
def matcher(request: pytest.FixtureRequest) -> tocsin.Matcher:
    return matcher_of(TYPED if request.param == "typed" else None)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (np.int64(5), ["cheap"]),
        (np.float32(5.5), ["cheap"]),
        (np.array([5]), ["cheap"]),
        (np.int64(50), []),
        ([5], ["cheap"]),
        ({}, ["none"]),
        (None, ["none"]),
        (pd.NA, ["none"]),
        (pd.NaT, ["none"]),
    ],
)
def test_a_number_of_numpy_is_the_number_and_what_pandas_has_for_no_value_is_none(
    matcher: tocsin.Matcher, value: Any, found: list[str]
) -> None:
    assert matcher.match({"price": value}) == found
    assert matcher.match_batch([{"price": value}]) == [found]


@pytest.mark.parametrize("value", [math.nan, np.float64("nan"), math.inf])
def test_nan_is_refused_whether_the_attribute_has_a_type_or_not(matcher: tocsin.Matcher, value: float) -> None:
    for match in (
        matcher.match,
        lambda event: matcher.match_frame([event]),
        lambda event: matcher.match_batch([event]),
    ):
        with pytest.raises(EventRejected, match=r"price: (np\.float64\()?(nan|inf)\)? is not a finite number"):
            match({"price": value})


@pytest.mark.parametrize("value", [NAIVE, pd.Timestamp(NAIVE), np.datetime64(NAIVE), NAIVE.date()])
def test_a_time_without_a_zone_is_refused(matcher: tocsin.Matcher, value: object) -> None:
    with pytest.raises(EventRejected, match=r"at: .* is not a"):
        matcher.match({"at": value})
    assert matcher.match({"at": pd.Timestamp(AWARE)}) == matcher.match({"at": AWARE}) == ["none", "new"]


def test_in_a_frame_of_pandas_nan_is_no_value_and_in_others_null_is(matcher: tocsin.Matcher) -> None:
    frame = pd.DataFrame({"price": [5, math.nan, 50]})
    assert matcher.match_frame(frame)["subscription"].tolist() == ["cheap", "none"]
    told = matcher.match_frame(pl.DataFrame({"price": [5.0, None, 50.0]}))
    assert told["subscription"].to_list() == ["cheap", "none"]
    for other in (pl.DataFrame({"price": [5.0, math.nan]}), pa.table({"price": [5.0, math.nan]})):
        with pytest.raises(BadValue, match=r"nan is not a finite number \(attribute price, row 1\)"):
            matcher.match_frame(other)


@pytest.mark.parametrize("value", [NAIVE, date(2026, 1, 1)])
def test_a_column_of_times_without_a_zone_is_refused_with_the_remedy_where_somebody_asks_about_it(
    matcher: tocsin.Matcher, value: date
) -> None:
    for frame in (pd.DataFrame({"at": [value]}), pl.DataFrame({"at": [value]})):
        with pytest.raises(
            BadValue, match=r"attribute at, row 0\); say in which zone it is: .*frame\['at'\].*tz_localize"
        ):
            matcher.match_frame(frame)
    remedied = pd.to_datetime(pd.DataFrame({"at": [value]})["at"]).dt.tz_localize("UTC").to_frame()
    assert matcher.match_frame(remedied)["subscription"].tolist() == ["none", "new"]
    remedied = pl.DataFrame({"at": [value]}).with_columns(pl.col("at").cast(pl.Datetime).dt.replace_time_zone("UTC"))
    assert matcher.match_frame(remedied)["subscription"].to_list() == ["none", "new"]
    nobody = tocsin.Matcher()
    nobody.subscribe("cheap", "price < 10")
    assert len(nobody.match_frame(pd.DataFrame({"at": [value], "price": [5]}))) == 1


FRAME = pd.DataFrame(
    {"brand": ["mini", None], "price": [900, math.nan], "doors": [3, 5], "at": pd.to_datetime([AWARE, None])}
)


@pytest.mark.parametrize(
    "table",
    [FRAME, pl.from_pandas(FRAME), pl.from_pandas(FRAME).lazy(), pa.Table.from_pandas(FRAME),
     pa.RecordBatch.from_pandas(FRAME), FRAME.iloc[:1].to_dict("records")],
    ids=["pandas", "polars", "lazy", "arrow", "batch", "records"],
)  # fmt: skip
def test_a_schema_is_inferred_from_a_table(table: Any) -> None:
    found = tocsin.Schema.infer(table)
    assert found.attributes == {"brand": "text", "price": "number", "doors": "number", "at": "time"}
    assert len(tocsin.Schema.propose(table).rejected) == 0
    matcher = tocsin.Matcher(found)
    matcher.subscribe("cheap", "price < 1300 and brand = 'mini' and doors = 3")
    assert matcher.match_frame(FRAME)["subscription"].tolist() == ["cheap"]


def test_what_a_schema_cannot_be_inferred_from_says_why() -> None:
    with pytest.raises(BadDefinition, match=r"at has times without a zone, such as .*: say in which zone"):
        tocsin.Schema.infer(FRAME.assign(at=NAIVE))
    with pytest.raises(BadDefinition, match="read piece by piece"):
        tocsin.Schema.infer(pa.Table.from_pandas(FRAME).to_reader())
    for wrong in ({"brand": "mini"}, '{"brand": "mini"}'):
        with pytest.raises(BadDefinition, match="samples are a list of events, or a DataFrame"):
            tocsin.Schema.infer(wrong)  # type: ignore[arg-type]
    with pytest.raises(NotSupported, match="is no schema"):
        tocsin.Matcher(FRAME)
