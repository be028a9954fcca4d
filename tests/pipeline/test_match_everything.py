"""match() with operators, properties, formulas and offers: one function, and what the definition says of every pair."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from tests.offers.worlds import MARKET, random_offer, random_subscription
from tests.pipeline.worlds import write_table
from tocsin.errors import BindError, FileError, NotSupported, ParseError, SchemaError, TocsinError
from tocsin.language import bind
from tocsin.language.explain import plain_values
from tocsin.language.semantics import decide
from tocsin.offers import Analysis, open_programs
from tocsin.operators.operator import operator
from tocsin.operators.registry import Registry
from tocsin.pipeline.match_batches import MatchBatches, Output
from tocsin.pipeline.open_index import IndexReference
from tocsin.pipeline.plan import Layout
from tocsin.schema import Event, Schema
from tocsin.schema.examples import load_example
from tocsin.schema.files import dumps
from tocsin.spark import match
from tocsin_examples.cameras import SUBSCRIPTIONS, Cameras, camera_registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CAMERAS = "tocsin_examples.cameras:camera_registry"  # where workers find it
HERE = f"{__name__}:market_operators"
TARIFF = """
[programs.tariff]
version = {version}
parameters = {{ age = "int", years = "int" }}
returns = "float"
expression = "age * {version} / years"
"""
Pair = tuple[Any, Any]
Told = tuple[Any, Any, str | None]  # bindings, computed values, failure


def market_operators() -> Registry:
    """Operators that hold or not, find several values, and fail now and then."""

    @operator()
    def fine(event: Event) -> bool:
        if event.values.get("count") == (7,):
            raise ValueError("seven")
        return "price" in event.values

    @operator(outputs={"size": int})
    def sizes(event: Event) -> list[int]:
        return [len(str(value)) for value in event.values.get("tags", ())]

    return Registry([fine, sizes])


def impure_operators() -> Registry:
    @operator(pure=False)
    def rings(_event: Event) -> bool:
        return True

    return Registry([rings])


def with_operators(random: random.Random, text: str) -> str:
    """Return a subscription that asks an operator besides, mostly."""
    asked = random.choice(["fine()", "not fine()", "sizes(?s) and ?s > 1", "(fine() or sizes(3))", ""])
    head, own = [*re.split(r" with (?=\w+ = )", text), ""][:2]
    if asked:
        head = f"{head} and {asked}" if " where " in head else f"{head} where {asked}"
    return f"{head} with {own}" if own else head


def subscriptions(random: random.Random, count: int) -> dict[str, str]:
    """Return subscriptions that bind."""
    found: dict[str, str] = {}
    while len(found) < count:
        text = with_operators(random, random_subscription(random))
        if "between" in text:  # what never holds of a value that fails: the expected failure of test_stored_offers.py
            continue
        try:
            bind(text, MARKET, operators=market_operators())
        except BindError:
            continue
        found[f"s{len(found)}"] = text
    return found


def offers(random: random.Random, count: int) -> dict[int, str]:
    """Return offers and plain events as JSON; offers may call the program `tariff` only."""
    found: dict[int, str] = {}
    while len(found) < count:
        offer = random_offer(random)
        offer["dynamic"] = {"price": "program('tariff', age, years)"} if random.random() < 0.6 else {}
        offer["rules"] = [rule for rule in offer["rules"] if "program" not in rule]
        if offer["dynamic"]:
            offer["event"].pop("price", None)
        document = offer if random.random() < 0.8 else offer["event"]
        found[len(found)] = json.dumps(document, default=lambda value: value.isoformat())
    return found


def defined(texts: dict[str, str], events: dict[int, str], programs: Path | None) -> dict[Pair, Told]:
    """Return what the definition says: matches with their details, failures with their reasons."""
    registry = market_operators()
    analysis = Analysis(MARKET, open_programs(programs), registry)
    bound = {id: bind(text, MARKET, operators=registry) for id, text in texts.items()}
    found: dict[Pair, Told] = {}
    for at, text in events.items():
        document = msgspec.json.decode(text)
        event = analysis.analyse(document) if isinstance(document.get("event"), dict) else MARKET.admit(document)
        for id, subscription in bound.items():
            verdict = decide(subscription, event, registry)
            if verdict.matched:
                bindings = [plain_values(each) for each in verdict.bindings]
                found[at, id] = (bindings or None, plain_values(verdict.computed) or None, None)
            elif verdict.failure is not None:
                found[at, id] = (None, None, verdict.failure)
    return found


def rows_of(table: pa.Table | pa.RecordBatch) -> dict[Pair, Told]:
    rows = table.to_pylist()
    found: dict[Pair, Told] = {
        (row["id"], row["subscription"]): (_read(row["bindings"]), _read(row["computed"]), row["failure"])
        for row in rows
    }
    assert len(found) == len(rows), "a row comes twice"
    return found


def _read(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def worker(folder: Path, schema: Schema, output: Output, **names: Any) -> MatchBatches:
    reference = IndexReference(str(folder), **names)
    return MatchBatches(reference, dumps(schema, "json"), Layout(whole="body"), output)


def batch_of(events: dict[int, str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(events), "body": list(events.values())})


DETAILS = Output("pairs", ("id",), text_ids=True, details=True, failures="keep")


# --- what workers run, without Spark ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_workers_tell_of_every_pair_what_the_definition_says(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    texts, events = subscriptions(draw, 40), offers(draw, 25)
    programs = tmp_path / "programs.toml"
    programs.write_text(TARIFF.format(version=1))
    lines = [json.dumps({"id": id, "text": text}) for id, text in texts.items()]
    assert not write_table(tmp_path / "s", lines, MARKET, operators=market_operators(), per_segment=15)
    function = worker(tmp_path / "s", MARKET, DETAILS, operators=HERE, programs=str(programs))
    expected = defined(texts, events, programs)
    found = pa.Table.from_batches(function(iter([batch_of(events)])))
    assert rows_of(found) == expected
    for part in range(3):
        assert any(told[part] for told in expected.values())
    counted = worker(tmp_path / "s", MARKET, Output("counts", ("id",)), operators=HERE, programs=str(programs))
    (counts,) = counted(iter([batch_of(events)]))
    matched = [at for (at, _), told in expected.items() if told[2] is None]
    assert {row["id"]: row["matches"] for row in counts.to_pylist()} == {at: matched.count(at) for at in events}


def test_a_worker_takes_up_a_programs_new_version(tmp_path: Path) -> None:
    draw = random.Random(5)
    texts, events = subscriptions(draw, 30), offers(draw, 12)
    programs = tmp_path / "programs.toml"
    lines = [json.dumps({"id": id, "text": text}) for id, text in texts.items()]
    write_table(tmp_path / "s", lines, MARKET, operators=market_operators())
    answers = []
    for version in (1, 2):
        programs.write_text(TARIFF.format(version=version) + "\n" * version)
        function = worker(tmp_path / "s", MARKET, DETAILS, operators=HERE, programs=str(programs))
        answers.append(rows_of(pa.Table.from_batches(function(iter([batch_of(events)])))))
        assert answers[-1] == defined(texts, events, programs)
    assert answers[0] != answers[1]


def test_an_offer_that_breaks_the_rules_is_an_invalid_row_and_a_failure_may_fail_the_job(tmp_path: Path) -> None:
    schema = load_example("insurance")
    bob = {"id": "bob", "text": "insurance where price < 10 with name = 'Bob', age = 48, years_ncd = 8"}
    write_table(tmp_path, [json.dumps(bob)], schema)
    event = {"event_type": "insurance", "name": "B", "cover": "Full"}
    good, bad, failing = (
        json.dumps({"event": event, "rules": rules, "dynamic": {"price": price}})
        for rules, price in ((["age > 40"], "age / 8"), (["aeg > 40"], "1"), ([], "age / (years_ncd - 8)"))
    )
    batch = batch_of({0: good, 1: bad, 2: failing})
    output = Output("pairs", ("id",), invalid="keep", text_ids=True, details=True, failures="keep")
    (found,) = worker(tmp_path, schema, output)(iter([batch]))
    first, second, third = found.to_pylist()
    assert (first["id"], first["subscription"], first["computed"]) == (0, "bob", '{"price":6.0}')
    assert (second["id"], second["subscription"], second["failure"]) == (2, "bob", "division by zero")
    assert (third["id"], third["subscription"]) == (1, None)
    assert "did you mean age" in third["invalid"]
    with pytest.raises(TocsinError, match="'bob': division by zero"):
        list(worker(tmp_path, schema, Output("pairs", ("id",), text_ids=True, failures="fail"))(iter([batch])))


# --- on Spark ---------------------------------------------------------------------------------------------------------


def test_spark_finds_what_operators_say_in_this_process(spark: SparkSession) -> None:
    cameras = Cameras(seed=4)
    raw = [cameras.snapshot(scene, number) for number, scene in enumerate(cameras.scenes(12))]
    registry = camera_registry()
    bound = {id: bind(text, cameras.schema, operators=registry) for id, text in SUBSCRIPTIONS.items()}
    expected = {
        (number, id)
        for number, event in enumerate(raw)
        for id, one in bound.items()
        if decide(one, cameras.schema.admit(event), registry).matched
    }
    events = spark.createDataFrame(
        [(number, json.dumps(event)) for number, event in enumerate(raw)] + [(99, '{"camera": 1}')],
        "id long, event string",
    ).repartition(2)
    given = spark.createDataFrame(list(SUBSCRIPTIONS.items()), "id string, text string")
    found = match(
        events, given, schema=cameras.schema, event_id="id", event_json="event", operators=CAMERAS, details=True
    ).collect()
    assert {(row.id, row.subscription) for row in found} == expected
    assert len(found) == len(expected)
    people = [json.loads(row.bindings) for row in found if row.subscription == "S2"]
    assert people
    assert all(each["people"] > 50 for bindings in people for each in bindings)


def test_offers_in_a_column_of_structs_match_like_those_of_json(spark: SparkSession, tmp_path: Path) -> None:
    schema = load_example("insurance")
    texts = {
        "bob": "insurance where price <= 20 * age with name = 'Bob', age = 48, years_ncd = 8",
        "john": "insurance where price < 500 with name = 'John', age = 32, years_ncd = 3",
        "plain": "insurance where cover = 'Full'",
    }
    given = spark.createDataFrame(list(texts.items()), "id string, text string")
    structs = spark.sql("""
        SELECT 1 AS id, named_struct(
            'event', named_struct('event_type', 'insurance', 'name', 'B', 'cover', 'Full'),
            'rules', array('age >= 40'), 'dynamic', map('price', '10 * age')) AS offer""")
    as_json = structs.selectExpr("id", "to_json(offer) AS offer")
    answers = [
        [tuple(row) for row in match(
            events, given, schema=schema, event_id="id", event_json="offer", details=True
        ).collect()]
        for events in (structs, as_json)
    ]  # fmt: skip
    assert answers[0] == answers[1] == [(1, "bob", None, '{"price":480.0}')]


def test_what_is_wrong_is_said_by_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    schema = Cameras().schema
    events = spark.createDataFrame([(1, "{}")], "id long, event string")

    def tried(text: str, **options: Any) -> None:
        given = spark.createDataFrame([("a", text)], "id string, text string")
        match(
            events, given, schema=schema, **{"event_id": "id", "event_json": "event", "operators": CAMERAS, **options}
        )

    with pytest.raises(ParseError, match="no operator"):
        tried("flies()")
    with pytest.raises(ParseError, match="not pure"):
        tried("rings()", operators=f"{__name__}:impure_operators")
    with pytest.raises(NotSupported, match="does not lead to"):
        tried("rings()", operators="tocsin.operators:nothing")
    with pytest.raises(NotSupported, match="by name"):
        tried("rings()", operators=camera_registry())
    with pytest.raises(SchemaError, match="no column"):
        tried("locIn('Bronx')", event_id="number")
    with pytest.raises(FileError):
        tried("locIn('Bronx')", programs=tmp_path / "none.toml")
    with pytest.raises(NotSupported, match="pairs"):
        tried("locIn('Bronx')", output="lists", details=True)
    write_table(tmp_path / "s", ['{"id": 1, "text": "locIn(\'Bronx\')"}'], schema, operators=camera_registry())
    with pytest.raises(NotSupported, match="call the operator locIn, which is not there"):
        match(events, tmp_path / "s", event_id="id", event_json="event")
