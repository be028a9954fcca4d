"""Experiments run at a tiny scale, store raw results, and the report is made from these alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tocsin.errors import FileError, NotSupported
from tocsin.language import evaluate
from tocsin.matching import engine_of
from tocsin_lab.experiments import Scale, experiment_of, experiments
from tocsin_lab.experiments.topss_w4 import BITS, LISTS
from tocsin_lab.prepared import Prepared
from tocsin_lab.report import page, write_report
from tocsin_lab.results import Row, load, store
from tocsin_lab.run import run
from tocsin_lab.timing import WrongAnswer, check, milliseconds
from tocsin_lab.workloads import le_subscribe, predicate_workload, w4


@pytest.mark.parametrize("name", experiments())
def test_every_experiment_runs_and_decides_its_claims(name: str, tmp_path: Path) -> None:
    told: list[str] = []
    [results] = run(name, Scale.TINY, tmp_path, told.append)
    assert load(tmp_path / f"{name}.jsonl") == results
    claims = experiment_of(name).claims(results)
    assert claims
    assert all(claim.says and claim.ours for claim in claims)
    assert results.circumstances.machine["cores"] >= 1
    assert len(told) == 2
    written = write_report(tmp_path, tmp_path / "report")
    assert all(path.exists() for path in written)
    text = (tmp_path / "report" / "report.md").read_text()
    assert all(claim.says in text for claim in claims)
    assert "<table>" in (tmp_path / "report" / "report.html").read_text()


def test_the_papers_figures_are_those_of_its_table_1() -> None:
    assert (LISTS[1_000_000], BITS[1_000_000]) == (190.7, 562.4)


@pytest.mark.parametrize("prepared", [w4(120, 15), le_subscribe(120, 15), predicate_workload("W3", 500, 5)])
def test_the_oracle_of_a_workload_is_the_definition(prepared: Prepared) -> None:
    subscriptions = dict(prepared.subscriptions())
    for number, event in enumerate(prepared.events):
        right = [id for id, bound in subscriptions.items() if evaluate(bound, event)]
        assert prepared.expected(number).tolist() == right


def test_workloads_are_the_same_for_the_same_seed() -> None:
    assert np.array_equal(w4(50, 5).workload.value, w4(50, 5).workload.value)
    assert not np.array_equal(w4(50, 5, seed=1).workload.value, w4(50, 5, seed=2).workload.value)


def test_a_wrong_answer_ends_the_experiment_before_anything_is_timed() -> None:
    prepared = w4(100, 5)
    matcher = engine_of("counting")(prepared.schema)
    matcher.add_all(list(prepared.subscriptions())[:-10])
    with pytest.raises(WrongAnswer, match="counting is wrong about event"):
        check(matcher, prepared)


def test_a_set_up_error_leaves_no_results(tmp_path: Path) -> None:
    def broken() -> list[Row]:
        raise WrongAnswer("no")

    with pytest.raises(WrongAnswer):
        store(tmp_path, "x", "tiny", (row for _ in [0] for row in broken()))
    assert not list(tmp_path.iterdir())


def test_timing_calls_every_item() -> None:
    seen: list[int] = []
    assert milliseconds(seen.append, [1, 2, 3], 0.0) >= 0
    assert seen[0] == 1  # the warm-up
    assert seen[1:4] == [1, 2, 3]


def test_unknown_experiments_and_missing_results_are_told(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match="did you mean"):
        experiment_of("topss-w5")
    with pytest.raises(FileError, match="tocsin lab run"):
        write_report(tmp_path, tmp_path / "report")


def test_the_page_knows_the_markdown_that_the_report_uses() -> None:
    text = page("# A & b\n\nSome `x < y` **bold** [link](#a).\n\n| h | i |\n|---|---|\n| 1 | ![p](q.svg) |\n")
    assert '<h1 id="a--b">A &amp; b</h1>' in text
    assert '<code>x &lt; y</code> <strong>bold</strong> <a href="#a">link</a>' in text
    assert '<td><img alt="p" src="q.svg"></td>' in text
