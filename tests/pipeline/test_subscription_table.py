"""Folders of subscriptions: changed as a whole or not at all, by id, and readable at every version that is kept."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from tests.pipeline.worlds import bound_subscriptions, random_schema, write_table
from tocsin.errors import DuplicateSubscription, FileError, ParseError, SchemaError
from tocsin.index.index_folder import MANIFEST
from tocsin.language import parse, render
from tocsin.language.documents import from_document
from tocsin.operators.operator import operator
from tocsin.operators.registry import Registry
from tocsin.pipeline import compile_rows, subscription_table, table_contents
from tocsin.pipeline.match import prepare_match
from tocsin.pipeline.match_batches import open_index
from tocsin.pipeline.open_index import FolderIndex, IndexReference
from tocsin.pipeline.subscription_table import (
    BadSubscriptions,
    SubscriptionTable,
    TableChange,
    folder_at,
    read_manifest,
    read_schema,
)
from tocsin.schema import Event, EventType, NumericDomain, Schema, TypeAttribute

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = Schema(
    {"number": NumericDomain(name="number")}, {"a": "number"}, {"event": EventType("event", (TypeAttribute("a"),))}
)


def lines(texts: dict[Any, str]) -> list[str]:
    return [json.dumps({"id": id, "text": text}) for id, text in texts.items()]


def matched(folder: Path, a: float, version: int | None = None) -> list[Any]:
    index = open_index(IndexReference(str(folder), version=version))
    return sorted(index.match_events([SCHEMA.admit({"a": a})], None, None).ids.tolist())


def frame(spark: SparkSession, texts: dict[Any, str]) -> DataFrame:
    kind = "string" if any(isinstance(id, str) for id in texts) else "long"
    return spark.createDataFrame(list(texts.items()), f"id {kind}, text string")


def test_finding_10_executors_compile_and_what_is_known_by_content_is_not_compiled_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(compile_rows, "load_bulk")  # this process compiles nothing
    table = SubscriptionTable(tmp_path, SCHEMA)
    texts = {id: f"a > {id}" for id in range(50)}
    assert table.replace(frame(spark, texts)) == TableChange(1, compiled=50)
    assert table.replace(frame(spark, dict(reversed(texts.items())))) == TableChange(1, unchanged=50)
    changed = {**texts, 7: "a < 0", 99: "a < 0"}
    del changed[3]
    assert table.replace(frame(spark, changed)) == TableChange(2, compiled=2, unchanged=48, removed=1)
    assert matched(tmp_path, 5.5) == [0, 1, 2, 4, 5]
    assert matched(tmp_path, -1) == [7, 99]
    assert matched(tmp_path, 5.5, version=1) == [0, 1, 2, 3, 4, 5]
    assert table.replace(frame(spark, texts)).compiled == 2
    assert matched(tmp_path, 5.5) == [0, 1, 2, 3, 4, 5]


def test_finding_10_match_compiles_a_dataframe_once_for_all_calls(spark: SparkSession, tmp_path: Path) -> None:
    events = spark.createDataFrame([(1, 5.0)], "n long, a double")
    texts = {"x": f"a > {hash(str(tmp_path)) % 1000 / 1000}", "y": "a < 0"}
    references = [prepare_match(events, frame(spark, texts), schema=SCHEMA).function.index for _ in range(2)]
    assert references[0] == references[1]
    other = prepare_match(events, frame(spark, {"x": "a > 1"}), schema=SCHEMA).function.index
    assert (other.place, other.version) == (references[0].place, (references[0].version or 0) + 1)


def test_finding_12_many_small_changes_leave_few_segments(tmp_path: Path) -> None:
    table = SubscriptionTable(tmp_path, SCHEMA)
    for at in range(40):
        table.upsert(lines({at: f"a > {at}"}))
    assert len(table.manifest.segments) <= 6
    assert matched(tmp_path, 10.5) == list(range(11))
    table.delete(range(30, 40))
    assert table.compact().version == 42
    assert len(table.manifest.segments) == 1
    assert [entry.dead for entry in table.manifest.segments] == [0]
    assert table.compact().version == 42
    assert matched(tmp_path, 1000) == list(range(30))


def test_compacting_keeps_segments_below_their_bound(tmp_path: Path) -> None:
    table = SubscriptionTable(tmp_path, SCHEMA, per_segment=10)
    table.upsert(lines(dict.fromkeys(range(25), "a > 1")))
    table.delete([0, 11])
    table.compact()
    assert [entry.subscriptions for entry in table.manifest.segments] == [9, 9, 5]
    assert matched(tmp_path, 2) == [*range(1, 11), *range(12, 25)]


def test_history_tells_what_made_each_version(tmp_path: Path) -> None:
    table = SubscriptionTable(tmp_path, SCHEMA)
    table.replace(lines({1: "a > 1", 2: "a >"}))
    table.upsert(lines({3: "a > 1", 4: "a > 1"}))
    table.delete([1])
    table.upsert(lines({3: "a > 1"}))  # nothing new
    told = [(each.version, each.operation, each.subscriptions, each.quarantined) for each in table.history()]
    assert told == [(3, "delete", 2, False), (2, "upsert", 3, False), (1, "replace", 1, True)]
    assert [each.written_us for each in table.history()] == sorted(
        (e.written_us for e in table.history()), reverse=True
    )


def test_quarantine_keeps_bad_rows_with_their_reasons(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("x", "a > 1"), ("y", "a > 'one'"), ("x", "a < 1"), (None, "a > 1"), ("z", "b > 1")]
    given = spark.createDataFrame(rows, "id string, text string").coalesce(1)
    table = SubscriptionTable(tmp_path, SCHEMA)
    change = table.replace(given)
    assert [(bad.line, bad.id) for bad in change.bad] == [(2, "y"), (3, "x"), (4, None), (5, "z")]
    found = {row.line: row for row in table.quarantine_frame(spark).collect()}
    assert "numeric" in found[2].reason
    assert "already" in found[3].reason
    assert "id" in found[4].reason
    assert json.loads(found[5].document) == {"id": "z", "text": "b > 1"}
    assert matched(tmp_path, 2) == ["x"]
    table.upsert(lines({"z": "a > 1"}))
    assert table.quarantine() == []
    assert len(table.quarantine(version=1)) == 4


@pytest.mark.parametrize("seed", range(4))
def test_texts_of_one_kind_mean_what_each_of_them_parsed_means(seed: int) -> None:
    rng = random.Random(seed)
    schema = random_schema(rng)
    templates, taken = compile_rows.TextTemplates(), 0
    for bound in bound_subscriptions(rng, schema, 150):
        text = render(bound.subscription)
        # The same with other constants: digits and letters within quotes are drawn anew.
        other = re.sub(r"(?<=[ (])[0-9]+(?=[ )]|$)", lambda _: str(rng.randrange(10**6)), text)
        other = re.sub(r"'(\w+)'", lambda found: f"'{''.join(rng.sample(found.group(1), len(found.group(1))))}'", other)
        for each in (text, other):
            line = json.dumps({"id": 1, "text": each}).encode()
            bulk = templates.as_bulk(line)
            if bulk != line:
                taken += 1
                assert from_document(json.loads(bulk))[1] == parse(each)
    assert taken > 10


@pytest.mark.parametrize(
    "text",
    [
        "a > -1",
        "a > 1e3",
        "a > 1 -- 2",
        "a between 1 and 2",
        "a in (1, 2)",
        "not (a > 1)",
        "a > 1 or a < 0",
        "a > 1 + 1",
    ],
)
def test_texts_that_are_no_plain_conjunctions_are_parsed(text: str) -> None:
    line = json.dumps({"id": 1, "text": text}).encode()
    assert compile_rows.TextTemplates().as_bulk(line) == line


def test_a_bad_text_of_a_known_kind_is_told_as_it_was_written(tmp_path: Path) -> None:
    (bad,) = SubscriptionTable(tmp_path, SCHEMA).upsert(lines({1: "a > 1", 2: "a > 2", 3: "a > 'x'"})).bad
    assert "Write a number, such as: a > 100" in str(bad)


@pytest.mark.parametrize("partitions", [1, 3])
def test_of_rows_with_one_id_the_first_counts_whatever_is_known_already(
    spark: SparkSession, tmp_path: Path, partitions: int
) -> None:
    table = SubscriptionTable(tmp_path, SCHEMA)
    table.replace(lines({1: "a > 1", 2: "a > 2"}))
    rows = [(2, "a > 2"), (1, "a < 0"), (1, "a > 1"), (2, "a < 0"), (3, "a > 3"), (3, "a > 3")]
    frames = spark.createDataFrame(rows, "id long, text string").coalesce(1)
    change = table.replace(frames if partitions == 1 else frames.repartition(partitions))
    assert len(change.bad) == 3
    if partitions == 1:
        assert sorted(bad.line for bad in change.bad) == [3, 4, 6]
        assert matched(tmp_path, 9) == [2, 3]
        assert matched(tmp_path, -1) == [1]
    assert len(table) == 3


def test_a_changed_subscription_takes_the_place_of_the_old_and_others_stay(tmp_path: Path) -> None:
    write_table(tmp_path, lines({"x": "a > 1", "y": "a > 1"}), SCHEMA)
    write_table(tmp_path, lines({"x": "a < 0", "z": "a > 1"}), SCHEMA)
    assert matched(tmp_path, 2) == ["y", "z"]
    assert matched(tmp_path, -1) == ["x"]
    assert read_manifest(tmp_path).subscriptions == 3
    assert matched(tmp_path, 2, version=1) == ["x", "y"]
    assert matched(tmp_path, 2) == ["y", "z"]


def test_a_folder_that_is_replaced_holds_what_is_given_and_nothing_else(tmp_path: Path) -> None:
    write_table(tmp_path, lines({1: "a > 1", 2: "a > 1"}), SCHEMA, per_segment=1)
    write_table(tmp_path, lines({2: "a > 0"}), SCHEMA, mode="replace")
    assert matched(tmp_path, 2) == [2]
    assert matched(tmp_path, 2, version=1) == [1, 2]


def test_replacing_by_the_same_in_another_order_makes_no_new_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = lines({1: "a > 1", 2: "a > 2"})
    write_table(tmp_path, given, SCHEMA, mode="replace")
    monkeypatch.delattr(compile_rows, "load_bulk")  # nor is anything compiled
    write_table(tmp_path, given[::-1], SCHEMA, mode="replace")
    assert read_manifest(tmp_path).version == 1


def test_a_load_that_fails_is_not_published(tmp_path: Path) -> None:
    write_table(tmp_path, lines({1: "a > 1"}), SCHEMA)
    with pytest.raises(BadSubscriptions, match="1 subscription is wrong") as failed:
        write_table(tmp_path, lines({1: "a > 5", 2: "a >"}), SCHEMA, mode="replace", bad="fail", per_segment=1)
    assert [line.id for line in failed.value.lines] == [2]
    assert matched(tmp_path, 2) == [1]
    assert read_manifest(tmp_path).version == 1
    new = tmp_path / "new"
    with pytest.raises(ParseError):
        write_table(new, lines({1: "a >"}), SCHEMA, bad="fail")
    assert not (new / MANIFEST).exists()


@pytest.mark.parametrize("per_segment", [1, 2, 100])
def test_null_and_repeated_ids_are_bad_lines_and_the_rest_is_taken(tmp_path: Path, per_segment: int) -> None:
    given = [*lines({1: "a > 1"}), '{"id": null, "text": "a > 1"}', *lines({2: "a > 1"}), *lines({1: "a < 0"})]
    bad = write_table(tmp_path, given, SCHEMA, per_segment=per_segment)
    assert sorted(line.line for line in bad) == [2, 4]
    assert {type(line.error) for line in bad} == {ParseError, DuplicateSubscription}
    assert matched(tmp_path, 2) == [1, 2]
    assert matched(tmp_path, -1) == []


def test_ids_are_all_texts_or_all_numbers_in_the_whole_folder(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="all texts or all whole numbers"):
        write_table(tmp_path, lines({1: "a > 1", "x": "a > 1"}), SCHEMA)
    write_table(tmp_path, lines({1: "a > 1"}), SCHEMA)
    with pytest.raises(FileError, match="all texts or all whole numbers"):
        write_table(tmp_path, lines({"x": "a > 1"}), SCHEMA)
    assert matched(tmp_path, 2) == [1]


def test_another_schema_needs_the_folder_written_anew(tmp_path: Path) -> None:
    write_table(tmp_path, lines({1: "a > 1"}), SCHEMA)
    other = Schema(
        {"number": NumericDomain(name="number")}, {"b": "number"}, {"event": EventType("event", (TypeAttribute("b"),))}
    )
    with pytest.raises(SchemaError, match="another schema"):
        write_table(tmp_path, lines({2: "b > 1"}), other)
    write_table(tmp_path, lines({2: "b > 1"}), other, mode="replace")
    assert read_schema(tmp_path) == other
    assert read_schema(tmp_path, 1) == SCHEMA
    assert matched(tmp_path, 2, version=1) == [1]


def test_old_versions_are_readable_as_long_as_they_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_table, "KEPT_VERSIONS", 3)
    for at in range(6):
        write_table(tmp_path, lines({at: "a > 1"}), SCHEMA, mode="replace", documents=True)
    assert [matched(tmp_path, 2, version=version) for version in (4, 5, 6)] == [[3], [4], [5]]
    with pytest.raises(FileError, match=r"version 2 .* not kept"):
        matched(tmp_path, 2, version=2)
    assert len(list(tmp_path.glob("*.segment"))) == 3
    assert len(list(tmp_path.glob("*.contents"))) == 3


def test_the_time_of_a_micro_batch_says_which_version_is_meant(tmp_path: Path) -> None:
    for id in range(3):
        write_table(tmp_path, lines({id: "a > 1"}), SCHEMA)
    folder = folder_at(tmp_path)
    second, third = (folder.manifest(version).effective_us for version in (2, 3))  # type: ignore[union-attr]
    index = FolderIndex(tmp_path)
    event = SCHEMA.admit({"a": 2})

    def at(time_us: int) -> list[int]:
        index.refresh(None, time_us)
        return sorted(index.match_events([event], None, None).ids.tolist())

    assert [at(time) for time in (0, second - 1, second, third - 1, third, third + 10)] == [
        [0], [0], [0, 1], [0, 1], [0, 1, 2], [0, 1, 2],
    ]  # fmt: skip
    assert at(second) == [0, 1]  # run again


def test_a_removed_subscription_leaves_only_the_new_version(tmp_path: Path) -> None:
    write_table(tmp_path, lines(dict.fromkeys(range(4), "a > 1")), SCHEMA, per_segment=2)
    assert SubscriptionTable(tmp_path).delete([1, 3, 99]).removed == 2
    assert SubscriptionTable(tmp_path).delete([99]).removed == 0
    assert read_manifest(tmp_path).version == 2
    assert matched(tmp_path, 2) == [0, 2]
    assert matched(tmp_path, 2, version=1) == [0, 1, 2, 3]


def test_documents_are_those_of_the_newest_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_contents, "MOST_CONTENTS", 2)
    for at in range(5):
        write_table(tmp_path, lines({"x": f"a > {at}", f"y{at}": "a > 1"}), SCHEMA, documents=True)
    index = open_index(IndexReference(str(tmp_path)))
    assert json.loads(index.document("x"))["text"] == "a > 4"
    assert json.loads(index.document("y0"))["text"] == "a > 1"
    assert 1 <= len(read_manifest(tmp_path).contents) <= 3


def test_the_manifest_names_the_operators_that_subscriptions_call(tmp_path: Path) -> None:
    @operator()
    def fine(_event: Event) -> bool:
        return True

    @operator()
    def large(_event: Event) -> bool:
        return True

    given = lines({1: "a > 1 and fine()", 2: "a > 1 or not large()", 3: "a > 1"})
    assert not write_table(tmp_path, given, SCHEMA, operators=Registry([fine, large]))
    assert read_manifest(tmp_path).operators == ("fine", "large")
    assert "fine" in str(write_table(tmp_path, given, SCHEMA)[0])
