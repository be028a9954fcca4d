"""Experiments run at a tiny scale, store raw results, and the report is made from these alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tocsin.errors import FileError, NotSupported
from tocsin.language import evaluate
from tocsin.matching import engine_of
from tocsin_lab.classic.counting import STAGES
from tocsin_lab.classic.rows import CodedPredicate
from tocsin_lab.experiments import PAPERS, experiment_of, experiments
from tocsin_lab.experiments.topss_predicates import fill, room
from tocsin_lab.experiments.topss_w4 import BITS, LISTS
from tocsin_lab.prepared import Prepared
from tocsin_lab.report import page, page_name, write_report
from tocsin_lab.results import Row, load, store
from tocsin_lab.rounds import Bench, Scale
from tocsin_lab.run import run
from tocsin_lab.timing import WrongAnswer, check
from tocsin_lab.workloads import le_subscribe, predicate_population, w4


@pytest.mark.parametrize("name", experiments())
def test_every_experiment_runs_and_decides_its_claims(name: str, tmp_path: Path) -> None:
    told: list[str] = []
    [results] = run(name, Bench(Scale.TINY), tmp_path, told.append)
    assert load(tmp_path / f"{name}.jsonl") == results
    experiment = experiment_of(name)
    assert experiment.statements
    there = {(row.series, row.figure) for row in results.rows}
    left_out = {row.series for row in results.rows if row.figure == "left out"}
    for statement in experiment.statements:
        for part in statement.parts:
            missing = {place for place in part.compared() if place not in there and place[0].split()[0] not in left_out}
            assert not missing, statement.says
        assert statement.says
        assert statement.place
        assert statement.paper
    assert results.circumstances.machine["cores"] >= 1
    assert len(told) == 2
    written = write_report(tmp_path, tmp_path / "report")
    assert all(path.exists() for path in written)
    page = (tmp_path / "report" / f"{page_name(experiment.paper)}.md").read_text()
    assert all(statement.says in page for statement in experiment.statements)
    assert f"`tocsin lab run {name}`" in page
    assert "<table>" in (tmp_path / "report" / "report.html").read_text()


def test_every_experiment_belongs_to_a_paper() -> None:
    assert {experiment.paper for experiment in experiments().values()} == set(PAPERS)


def test_no_reason_is_written_before_it_is_measured() -> None:
    """A statement has parts, which find reasons in the results, or says why it cannot be measured; nothing else."""
    for experiment in experiments().values():
        for statement in experiment.statements:
            assert bool(statement.parts) != bool(statement.unmeasured), statement.says


def test_the_papers_figures_are_those_of_its_table_1() -> None:
    assert (LISTS[1_000_000], BITS[1_000_000]) == (190.7, 562.4)


@pytest.mark.parametrize("prepared", [w4(120, 15), le_subscribe(120, 15), le_subscribe(120, 15, texts=2)])
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


@pytest.mark.parametrize("stage", STAGES)
def test_predicates_loaded_at_once_answer_like_those_that_come_one_by_one(stage: str) -> None:
    population = predicate_population("W3", 2_000, 3)
    at_once, singly = fill(STAGES[stage], population), STAGES[stage](population.columns)
    for number, predicate in enumerate(zip(*(field.tolist() for field in population.fields), strict=True)):
        singly.insert(number, CodedPredicate(*predicate))
    assert at_once.bytes() == singly.bytes()
    for event in population.events:
        one, other = room(population), room(population)
        count = at_once.satisfied(event, one)
        assert singly.satisfied(event, other) == count
        assert np.array_equal(np.sort(one[:count]), np.sort(other[:count]))


def test_the_axis_goes_on_until_the_curves_cross() -> None:
    """The lists cost as much as they have entries, the table always the same: the axis ends after the crossing."""
    rows = list(experiment_of("topss-predicates").run(Bench(Scale.TINY)))
    sizes = sorted({row.x for row in rows if row.series == "table W3" and row.figure == "memory MB"})
    assert sizes[-1] > 2_000  # beyond the sizes that every workload has


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
