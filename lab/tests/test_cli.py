"""`tocsin lab` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.matching.test_every_engine import auction
from tocsin.cli.app import app
from tocsin.schema import files
from tocsin_lab.experiments import experiments
from tocsin_lab.rounds import Bench, Scale
from tocsin_lab.run import run

runner = CliRunner()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files.save(auction(), tmp_path / "schema.json")
    (tmp_path / "subscriptions.jsonl").write_text(
        '{"id": "s1", "text": "a > 6 and b = 6"}\n{"id": "s2", "text": "d = 7 and e < 3"}\n'
    )
    (tmp_path / "events.jsonl").write_text('{"a": 7, "b": 6, "d": 7, "e": 1}\n{"a": 1, "b": 2, "d": 3, "e": 9}\n')
    return tmp_path


def files_of(folder: Path) -> list[str]:
    return ["--subscriptions", str(folder / "subscriptions.jsonl"), "--schema", str(folder / "schema.json")]


def test_show_draws_the_structure_and_what_an_event_does_in_it(folder: Path) -> None:
    event = '{"a": 7, "b": 6}'
    found = runner.invoke(app, ["lab", "show", "counting", *files_of(folder), "--event", event])
    assert found.exit_code == 0
    assert "s1  2 of 2  matches" in found.stdout


def test_advise_recommends_an_engine(folder: Path) -> None:
    arguments = ["lab", "advise", *files_of(folder), "--events", str(folder / "events.jsonl"), "--seconds", "20"]
    found = runner.invoke(app, [*arguments, "--json"])
    assert found.exit_code == 0
    advice = json.loads(found.stdout)
    assert advice["recommended"] in {trial["engine"] for trial in advice["trials"] if not trial["problem"]}


def test_bad_subscriptions_are_told_and_give_exit_code_1(folder: Path) -> None:
    with (folder / "subscriptions.jsonl").open("a") as file:
        file.write('{"id": "s3", "text": "nothing = 3"}\n')
    found = runner.invoke(app, ["lab", "show", "counting", *files_of(folder)])
    assert found.exit_code == 1
    assert "s1, s2" not in found.stderr


def test_list_and_report(tmp_path: Path) -> None:
    listed = runner.invoke(app, ["lab", "list"])
    assert all(name in listed.stdout for name in experiments())
    run("thesis-subscriptions", Bench(Scale.TINY), tmp_path / "results", lambda _: None)
    arguments = ["lab", "report", "--results", str(tmp_path / "results"), "--output", str(tmp_path / "out")]
    assert runner.invoke(app, arguments).exit_code == 0
    assert (tmp_path / "out" / "report.html").exists()
