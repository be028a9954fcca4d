"""Peers answer as the definition does, and one that does not is noticed before its times are believed."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import results
from benchmarks.peers import __main__ as command
from benchmarks.peers.catalogue import PEERS, Peer
from benchmarks.peers.definition import WrongAnswer, compare
from benchmarks.peers.files import Skipped
from benchmarks.peers.run import PeerFailed, Task, prepare, run_peer
from tests.project.files import ROOT
from tocsin_lab.bench.write_workload import write_workload

IN_PYTHON = ("closures", "numpy-scan", "duckdb-wide", "duckdb-grouping", "tama")
PINS = {
    "event-ruler": "java/pom.xml", "lucene-monitor": "java/pom.xml",
    "a-tree": "a_tree/Cargo.toml", "quamina": "quamina/go.mod",
}  # fmt: skip


def task_for(folder: Path) -> Task:
    """Return the task of the files in a folder, with little time."""
    return prepare(folder / "subscriptions.jsonl", folder / "events.jsonl", seconds=0.2, limit=60)


def write(folder: Path, subscriptions: list[dict[str, Any]], events: list[dict[str, Any]]) -> None:
    """Write files of a comparison."""
    for name, documents in (("subscriptions", subscriptions), ("events", events)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in documents))


def write_awkward(folder: Path) -> None:
    """Write what workloads lack: absent attributes, values and ids below 0, unknown texts, contradictions."""
    pick = random.Random(3)
    numbers, texts = ("price", "year", "and"), ("city", "tag")

    def predicate(attribute: str) -> list[Any]:
        if attribute in texts:
            return [attribute, pick.choice(("=", "!=")), pick.choice(("x", "y", ""))]
        return [attribute, pick.choice(("=", "!=", "<", "<=", ">", ">=")), pick.randint(-4, 4)]

    def event() -> dict[str, Any]:
        values = {name: pick.randint(-5, 5) for name in numbers} | {name: pick.choice(("x", "z", "")) for name in texts}
        return {"other": 1} | {name: value for name, value in values.items() if pick.random() < 0.7}

    subscriptions = []
    for id in range(-100, 100):
        predicates = [predicate(name) for name in pick.choices((*numbers, *texts), k=pick.randint(1, 4))]
        excluding = [name for name, operator, _ in predicates if operator == "!="]
        if len(set(excluding)) == len(excluding):  # a wide table has room for one
            subscriptions.append({"id": id, "predicates": predicates})
    write(folder, subscriptions, [event() for _ in range(40)])


@pytest.mark.parametrize("name", IN_PYTHON)
def test_a_peer_answers_as_the_definition_does(name: str, tmp_path: Path) -> None:
    write_workload("market", 200, 20, tmp_path)
    market = run_peer(PEERS[name], task_for(tmp_path))
    assert market.checked_events == 20
    assert market.events_per_s > 0
    write_awkward(tmp_path)
    assert run_peer(PEERS[name], task_for(tmp_path)).matches > 0


def test_a_wrong_answer_is_noticed(tmp_path: Path) -> None:
    write_workload("topss", 100, 10, tmp_path)
    program = tmp_path / "wrong.py"
    program.write_text(
        "import json, sys\n"
        "open(sys.argv[5], 'w').writelines('[1]\\n' for _ in range(int(sys.argv[3])))\n"
        "print(json.dumps({'build_s': 0, 'events': 10, 'matches': 10, 'seconds': [1, 1, 1]}))\n"
    )
    with pytest.raises(WrongAnswer, match="event 0: missing"):
        run_peer(Peer("wrong", "1", lambda: [sys.executable, str(program)]), task_for(tmp_path))


@pytest.mark.parametrize("given", [[[1, 2, 3]], [[1]], [[1, 2, 2]], [[1, 2], []], [[1, -2]]])
def test_ids_too_many_missing_or_twice_are_wrong(given: list[list[int]]) -> None:
    compare([[1, 2]], [[2, 1]])
    with pytest.raises(WrongAnswer):
        compare([[1, 2]], given)


def test_a_program_that_fails_or_hangs_is_reported(tmp_path: Path) -> None:
    write_workload("topss", 20, 3, tmp_path)
    task = task_for(tmp_path)
    with pytest.raises(PeerFailed, match="no luck"):
        run_peer(Peer("fails", "1", lambda: [sys.executable, "-c", "raise SystemExit('no luck')"]), task)
    hurried = Task(task.subscriptions, task.events, task.right, 0.1, limit=0.1)
    with pytest.raises(PeerFailed, match="ended after"):
        run_peer(Peer("hangs", "1", lambda: [sys.executable, "-c", "import time; time.sleep(60)"]), hurried)


def test_a_missing_toolchain_is_a_reason_to_skip_not_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_workload("topss", 20, 3, tmp_path)
    monkeypatch.setattr("benchmarks.peers.build.shutil.which", lambda tool: None)
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    files = [str(tmp_path / "subscriptions.jsonl"), str(tmp_path / "events.jsonl")]
    for name in PINS:
        assert command.main([name, *files]) == 0
        assert f"{name:18} skipped: there is no" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("predicates", "reason"),
    [
        ([["price", "like", "x"]], "compared on"),
        ([["city", "<", "x"]], "orders texts"),
        ([["price", "=", 1.5]], "integers or texts"),
        ([["price", "=", 2**62]], "beyond 62 bits"),
        ([["a b", "=", 1]], "no plain name"),
        ([], "more or less than"),
    ],
)
def test_files_beyond_what_peers_share_are_skipped_with_the_reason(
    predicates: list[Any], reason: str, tmp_path: Path
) -> None:
    write(tmp_path, [{"id": 1, "predicates": predicates}], [{"price": 1}])
    with pytest.raises(Skipped, match=reason):
        task_for(tmp_path)


def test_a_wide_table_says_what_it_cannot_express(tmp_path: Path) -> None:
    write(tmp_path, [{"id": 1, "predicates": [["price", "!=", 1], ["price", "!=", 2]]}], [{"price": 1}])
    with pytest.raises(Skipped, match="two values"):
        run_peer(PEERS["numpy-scan"], task_for(tmp_path))


def test_a_row_is_printed_and_its_raw_times_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_workload("topss", 20, 9, tmp_path)
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    files = [str(tmp_path / "subscriptions.jsonl"), str(tmp_path / "events.jsonl")]
    assert command.main(["closures", *files, "--events", "5", "--workload", "topss", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    (stored,) = results.stored("peers")
    assert stored["workload"] == "topss"
    assert printed["events"] == stored["events"] == 5
    assert len(stored["seconds"]) == 3


@pytest.mark.parametrize("name", PINS)
def test_the_version_told_is_the_version_pinned(name: str) -> None:
    pin = (ROOT / "benchmarks" / "peers" / PINS[name]).read_text()
    assert PEERS[name].version in pin
    assert "://" not in pin


def test_every_peer_is_documented() -> None:
    text = (ROOT / "benchmarks" / "peers" / "README.md").read_text()
    assert [name for name in PEERS if f"`{name}`" not in text] == []
