"""Workloads are seeded and mean what they say; measuring checks the answers before it times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tocsin.errors import FileError, NotSupported
from tocsin.matching.engine import NaiveMatcher
from tocsin.schema import Event
from tocsin_lab.bench.measure import WrongAnswer, measure
from tocsin_lab.bench.write_workload import NAMES, write_workload


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_is_the_same_for_the_same_seed_and_can_be_measured(name: str, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        write_workload(name, 300, 60, tmp_path / folder, seed=5)
    for file in ("subscriptions.jsonl", "events.jsonl"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    files = (tmp_path / "one" / "subscriptions.jsonl", tmp_path / "one" / "events.jsonl")
    figures = [measure(*files, engine=engine, batch=25) for engine in ("columnar", "naive")]
    assert figures[0].subscriptions == figures[1].subscriptions == 300
    assert figures[0].matches == figures[1].matches
    assert figures[0].checked_pairs > 0
    json.dumps(figures[0].as_json())


def test_nothing_is_timed_where_an_answer_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_workload("topss", 50, 20, tmp_path)
    monkeypatch.setattr(NaiveMatcher, "match", lambda self, event: _nothing(event))
    with pytest.raises(WrongAnswer):
        measure(tmp_path / "subscriptions.jsonl", tmp_path / "events.jsonl", engine="naive")


def _nothing(event: Event) -> list[int]:
    assert event.values
    return []


def test_an_unknown_workload_is_refused_with_the_names_there_are(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match="did you mean market"):
        write_workload("markt", 1, 1, tmp_path)


@pytest.mark.parametrize("missing", ["subscriptions.jsonl", "events.jsonl"])
def test_a_file_that_is_not_there_is_named(missing: str, tmp_path: Path) -> None:
    write_workload("topss", 5, 5, tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(FileError, match=missing):
        measure(tmp_path / "subscriptions.jsonl", tmp_path / "events.jsonl")


def test_no_events_are_nothing_to_measure(tmp_path: Path) -> None:
    write_workload("topss", 5, 5, tmp_path)
    (tmp_path / "events.jsonl").write_text("\n")
    with pytest.raises(FileError, match="no events"):
        measure(tmp_path / "subscriptions.jsonl", tmp_path / "events.jsonl")
