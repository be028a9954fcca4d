"""Folders of subscriptions: changed as a whole or not at all, by id, and readable at every version that is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tocsin.errors import DuplicateSubscription, FileError, ParseError, SchemaError
from tocsin.index.index_folder import MANIFEST
from tocsin.operators.operator import operator
from tocsin.operators.registry import Registry
from tocsin.pipeline import subscription_folder
from tocsin.pipeline.open_index import FolderIndex, IndexReference, open_index
from tocsin.pipeline.subscription_folder import (
    BadSubscriptions,
    folder_at,
    read_manifest,
    read_schema,
    remove_from_folder,
    write_folder,
)
from tocsin.schema import Event, EventType, NumericDomain, Schema, TypeAttribute

SCHEMA = Schema(
    {"number": NumericDomain(name="number")}, {"a": "number"}, {"event": EventType("event", (TypeAttribute("a"),))}
)


def lines(texts: dict[Any, str]) -> list[str]:
    return [json.dumps({"id": id, "text": text}) for id, text in texts.items()]


def matched(folder: Path, a: float, version: int | None = None) -> list[Any]:
    index = open_index(IndexReference(str(folder), version=version))
    return sorted(index.match_events([SCHEMA.admit({"a": a})], None, None).ids.tolist())


def test_a_changed_subscription_takes_the_place_of_the_old_and_others_stay(tmp_path: Path) -> None:
    write_folder(tmp_path, lines({"x": "a > 1", "y": "a > 1"}), SCHEMA)
    write_folder(tmp_path, lines({"x": "a < 0", "z": "a > 1"}), SCHEMA)
    assert matched(tmp_path, 2) == ["y", "z"]
    assert matched(tmp_path, -1) == ["x"]
    assert read_manifest(tmp_path).subscriptions == 3
    assert matched(tmp_path, 2, version=1) == ["x", "y"]
    assert matched(tmp_path, 2) == ["y", "z"]


def test_a_folder_that_is_replaced_holds_what_is_given_and_nothing_else(tmp_path: Path) -> None:
    write_folder(tmp_path, lines({1: "a > 1", 2: "a > 1"}), SCHEMA, per_segment=1)
    write_folder(tmp_path, lines({2: "a > 0"}), SCHEMA, mode="replace")
    assert matched(tmp_path, 2) == [2]
    assert matched(tmp_path, 2, version=1) == [1, 2]


def test_replacing_by_the_same_in_another_order_makes_no_new_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = lines({1: "a > 1", 2: "a > 2"})
    write_folder(tmp_path, given, SCHEMA, mode="replace")
    monkeypatch.delattr(subscription_folder, "load_bulk")  # nor is anything compiled
    write_folder(tmp_path, given[::-1], SCHEMA, mode="replace")
    assert read_manifest(tmp_path).version == 1


def test_a_load_that_fails_is_not_published(tmp_path: Path) -> None:
    write_folder(tmp_path, lines({1: "a > 1"}), SCHEMA)
    with pytest.raises(BadSubscriptions, match="1 subscription is wrong") as failed:
        write_folder(tmp_path, lines({1: "a > 5", 2: "a >"}), SCHEMA, mode="replace", bad="fail", per_segment=1)
    assert [line.id for line in failed.value.lines] == [2]
    assert matched(tmp_path, 2) == [1]
    assert read_manifest(tmp_path).version == 1
    new = tmp_path / "new"
    with pytest.raises(ParseError):
        write_folder(new, lines({1: "a >"}), SCHEMA, bad="fail")
    assert not (new / MANIFEST).exists()


@pytest.mark.parametrize("per_segment", [1, 2, 100])
def test_null_and_repeated_ids_are_bad_lines_and_the_rest_is_taken(tmp_path: Path, per_segment: int) -> None:
    given = [*lines({1: "a > 1"}), '{"id": null, "text": "a > 1"}', *lines({2: "a > 1"}), *lines({1: "a < 0"})]
    bad = write_folder(tmp_path, given, SCHEMA, per_segment=per_segment)
    assert sorted(line.line for line in bad) == [2, 4]
    assert {type(line.error) for line in bad} == {ParseError, DuplicateSubscription}
    assert matched(tmp_path, 2) == [1, 2]
    assert matched(tmp_path, -1) == []


def test_ids_are_all_texts_or_all_numbers_in_the_whole_folder(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="all texts or all whole numbers"):
        write_folder(tmp_path, lines({1: "a > 1", "x": "a > 1"}), SCHEMA)
    write_folder(tmp_path, lines({1: "a > 1"}), SCHEMA)
    with pytest.raises(FileError, match="all texts or all whole numbers"):
        write_folder(tmp_path, lines({"x": "a > 1"}), SCHEMA)
    assert matched(tmp_path, 2) == [1]


def test_another_schema_needs_the_folder_written_anew(tmp_path: Path) -> None:
    write_folder(tmp_path, lines({1: "a > 1"}), SCHEMA)
    other = Schema(
        {"number": NumericDomain(name="number")}, {"b": "number"}, {"event": EventType("event", (TypeAttribute("b"),))}
    )
    with pytest.raises(SchemaError, match="another schema"):
        write_folder(tmp_path, lines({2: "b > 1"}), other)
    write_folder(tmp_path, lines({2: "b > 1"}), other, mode="replace")
    assert read_schema(tmp_path) == other
    assert read_schema(tmp_path, 1) == SCHEMA
    assert matched(tmp_path, 2, version=1) == [1]


def test_old_versions_are_readable_as_long_as_they_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_folder, "KEPT_VERSIONS", 3)
    for at in range(6):
        write_folder(tmp_path, lines({at: "a > 1"}), SCHEMA, mode="replace", documents=True)
    assert [matched(tmp_path, 2, version=version) for version in (4, 5, 6)] == [[3], [4], [5]]
    with pytest.raises(FileError, match=r"version 2 .* not kept"):
        matched(tmp_path, 2, version=2)
    assert len(list(tmp_path.glob("*.segment"))) == 3
    assert len(list(tmp_path.glob("*.documents"))) == 3


def test_the_time_of_a_micro_batch_says_which_version_is_meant(tmp_path: Path) -> None:
    for id in range(3):
        write_folder(tmp_path, lines({id: "a > 1"}), SCHEMA)
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
    write_folder(tmp_path, lines(dict.fromkeys(range(4), "a > 1")), SCHEMA, per_segment=2)
    assert remove_from_folder(tmp_path, [1, 3, 99]) == 2
    assert remove_from_folder(tmp_path, [99]) == 0
    assert read_manifest(tmp_path).version == 2
    assert matched(tmp_path, 2) == [0, 2]
    assert matched(tmp_path, 2, version=1) == [0, 1, 2, 3]


def test_documents_are_those_of_the_newest_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_folder, "MOST_DOCUMENTS", 2)
    for at in range(5):
        write_folder(tmp_path, lines({"x": f"a > {at}", f"y{at}": "a > 1"}), SCHEMA, documents=True)
    index = open_index(IndexReference(str(tmp_path)))
    assert json.loads(index.document("x"))["text"] == "a > 4"
    assert json.loads(index.document("y0"))["text"] == "a > 1"
    assert len(read_manifest(tmp_path).documents) <= 3


def test_the_manifest_names_the_operators_that_subscriptions_call(tmp_path: Path) -> None:
    @operator()
    def fine(_event: Event) -> bool:
        return True

    @operator()
    def large(_event: Event) -> bool:
        return True

    given = lines({1: "a > 1 and fine()", 2: "a > 1 or not large()", 3: "a > 1"})
    assert not write_folder(tmp_path, given, SCHEMA, operators=Registry([fine, large]))
    assert read_manifest(tmp_path).operators == ("fine", "large")
    assert "fine" in str(write_folder(tmp_path, given, SCHEMA)[0])
