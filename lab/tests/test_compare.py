"""Two stored runs: what changed beyond noise is named, what did not is not."""

from __future__ import annotations

from pathlib import Path

import msgspec
from typer.testing import CliRunner

from tocsin.cli.app import app
from tocsin_lab.compare import changes, comparison, turned
from tocsin_lab.report import write_report
from tocsin_lab.results import PREVIOUS, Results, Row, load, store

EXPERIMENT = "le-subscribe-insertion"
FAIR, PREFERRED, QUARANTINING = "counting", "equality-preferred", "quarantining"


def rows(fair: float, noise: float = 0.0) -> list[Row]:
    cost = {FAIR: fair, PREFERRED: 2.0, QUARANTINING: 2.0}
    return [
        Row(
            experiment=EXPERIMENT, series=series, x=1_000, figure="insertion ms",
            values=tuple(each + noise * number for number in range(6)),
        )
        for series, each in cost.items()
    ]  # fmt: skip


def run_of(folder: Path, fair: float, noise: float = 0.0) -> Results:
    return store(folder, EXPERIMENT, "tiny", rows(fair, noise))


def test_a_figure_that_changed_is_named_and_noise_is_not(tmp_path: Path) -> None:
    before, same, slower = (run_of(tmp_path / str(at), fair) for at, fair in enumerate((1.0, 1.05, 4.0)))
    assert list(changes(before, same)) == []
    [change] = changes(before, slower)
    assert str(change) == "le-subscribe-insertion, counting at 1,000: insertion ms 1 → 4 (4 times)"
    noisy = run_of(tmp_path / "noisy", 0.9, noise=1.0)
    assert list(changes(before, noisy)) == []


def test_a_verdict_that_changed_is_named(tmp_path: Path) -> None:
    before, slower, near = (run_of(tmp_path / str(at), fair) for at, fair in enumerate((1.0, 4.0, 1.95)))
    [found] = turned({EXPERIMENT: before}, {EXPERIMENT: slower})
    assert found.settled
    assert "holds → does not hold" in str(found)
    [found] = turned({EXPERIMENT: before}, {EXPERIMENT: near})
    assert not found.settled


def test_runs_of_another_scale_are_not_compared_by_time(tmp_path: Path) -> None:
    before = run_of(tmp_path / "a", 1.0)
    after = run_of(tmp_path / "b", 4.0)
    quick = Results(msgspec.structs.replace(after.circumstances, scale="quick"), after.rows)
    lines = comparison({EXPERIMENT: before}, {EXPERIMENT: quick})
    assert any("another scale" in line for line in lines)
    assert not any("4 times" in line for line in lines)


def test_the_run_before_is_kept_and_the_report_tells_what_changed(tmp_path: Path) -> None:
    run_of(tmp_path / "results", 1.0)
    run_of(tmp_path / "results", 4.0)
    assert load(tmp_path / "results" / PREVIOUS / f"{EXPERIMENT}.jsonl").rows == rows(1.0)
    write_report(tmp_path / "results", tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "insertion ms 1 → 4 (4 times)" in text
    page = (tmp_path / "out" / "le-subscribe.md").read_text()
    assert "The fair predicate algorithm is faster to update" in page
    assert "**does not hold**: not explained" in page


def test_the_command_fails_where_two_runs_contradict_each_other(tmp_path: Path) -> None:
    run_of(tmp_path / "a", 1.0)
    run_of(tmp_path / "b", 4.0)
    runner = CliRunner()
    same = runner.invoke(app, ["lab", "compare", str(tmp_path / "a"), str(tmp_path / "a")])
    assert (same.exit_code, same.stdout) == (0, "nothing changed beyond noise, and no verdict\n")
    assert runner.invoke(app, ["lab", "compare", str(tmp_path / "a"), str(tmp_path / "b")]).exit_code == 1
