"""The workloads of the evaluation have the paper's parameters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.operators.schedules.problems import workload_of
from tocsin.errors import FileError
from tocsin_lab.evaluation.drift import turned_round
from tocsin_lab.evaluation.figures import stated
from tocsin_lab.evaluation.lower_bound import lower_bound
from tocsin_lab.evaluation.measure import Run
from tocsin_lab.evaluation.report import PLACES, write_report
from tocsin_lab.evaluation.workloads import PaperWorkload, Setting, Truth, matching


@pytest.mark.parametrize("truth", ["spread", "equal", "popular"])
@pytest.mark.parametrize("zipf", [None, 1.0])
def test_events_match_the_stated_share_of_subscriptions(truth: Truth, zipf: float | None) -> None:
    made = PaperWorkload.of(Setting(subscriptions=4_000, predicates=2_000, zipf=zipf, truth=truth))
    made.workload.check()
    lengths = np.diff(made.workload.starts)
    assert (lengths.min(), lengths.max()) == (3, 5)
    expected = np.multiply.reduceat(made.probability[made.workload.members], made.workload.starts[:-1]).mean()
    assert expected == pytest.approx(0.002, rel=1e-3)
    seen = np.mean([matching(made.workload, truth).mean() for truth in made.events(300)])
    assert seen == pytest.approx(0.002, rel=0.35)


def test_zipf_popularity_falls_with_the_rank() -> None:
    made = PaperWorkload.of(Setting(subscriptions=20_000, predicates=1_000, zipf=1.0))
    popularity = np.sort(made.workload.popularity)[::-1]
    assert popularity[9] == pytest.approx(popularity[99] * 10, rel=0.25)


def test_a_setting_is_repeatable_and_its_seed_changes_it() -> None:
    one, two = (PaperWorkload.of(Setting(subscriptions=100, predicates=50)) for _ in range(2))
    other = PaperWorkload.of(Setting(subscriptions=100, predicates=50, seed=1))
    assert np.array_equal(one.workload.members, two.workload.members)
    assert not np.array_equal(one.probability, other.probability)
    assert all(np.array_equal(a, b) for a, b in zip(one.events(3), two.events(3), strict=True))


def test_the_lower_bound_is_reached_where_conjunctions_share_nothing() -> None:
    workload = workload_of([[0, 1], [2, 3], [4, 5]], 6)
    truth = np.array([True, True, False, True, False, False])
    assert lower_bound(workload, truth) == pytest.approx(2 + 1 + 1)


def test_the_drift_turns_the_order_of_probabilities_round() -> None:
    assert turned_round(np.array([0.1, 0.9, 0.5, 0.3])).tolist() == [0.9, 0.1, 0.3, 0.5]


def test_seconds_are_ordering_and_costs() -> None:
    run = Run([10, 20], 1.0, [0.25, 0.75], [0.01, 0.02])
    assert run.mean_evaluations == 15
    assert run.ordering_seconds == pytest.approx(0.5 + 1.0 / 1000)
    assert run.total_seconds == pytest.approx(0.5 + 1.0 / 1000 + 0.015)


def test_the_paper_states_numbers_for_four_settings() -> None:
    assert list(stated()) == [
        "figure 4, 80,000 subscriptions",
        "figure 6, 30,000 predicates",
        "figure 7, 5 longest subscription",
        "figure 7, 11 longest subscription",
    ]


def test_the_report_fills_its_tables_from_the_newest_records(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    places = "".join(f"<!-- {name} -->\nold\n<!-- /{name} -->\n" for name in PLACES)
    page.write_text(f"# Words\n{places}more words\n")
    times = {"prepare_seconds": 0.0, "event_seconds": [0.001], "operator_seconds": [1.5]}
    place = {"kind": "figure", "figure": 6, "x": 30_000, "series": "sequential", **times}
    records = [{**place, "evaluations": [9_999]}, {**place, "evaluations": [1_400, 1_600]}]
    records.append({"kind": "drift", "series": "sequential", **times, "evaluations": [10] * 20 + [30] * 20})
    write_report(records, page)
    text = page.read_text()
    assert text.startswith("# Words\n")
    assert text.endswith("more words\n")
    assert "old" not in text
    assert "| figure 6, 30,000 predicates | sequential | 3,267 | 1,500 |  |" in text
    assert "| sequential | 10 | 10 | 30 | 30 | 20 |" in text
    assert (tmp_path / "page" / "figure-6.svg").exists()
    assert not (tmp_path / "page" / "figure-4.svg").exists()


def test_the_overview_has_a_row_for_each_point_that_all_schedules_were_measured_at(tmp_path: Path) -> None:
    page, overview = tmp_path / "page.md", tmp_path / "overview.md"
    page.write_text("".join(f"<!-- {name} -->\n<!-- /{name} -->\n" for name in PLACES))
    overview.write_text("words\n<!-- schedules -->\nold\n<!-- /schedules -->\n")
    times = {"prepare_seconds": 0.0, "event_seconds": [0.5, 0.5], "operator_seconds": [1.0, 2.0]}
    place = {"kind": "figure", "figure": 6, **times}
    records = [
        {**place, "x": 30_000, "series": series, "evaluations": [1_000, 2_000]}
        for series in ("sequential", "sub-order", "adaptive", "adaptive, learning")
    ]
    records.append({**place, "x": 2_000, "series": "sequential", "evaluations": [1, 2]})
    write_report(records, page, overview)
    assert overview.read_text().splitlines()[4:] == [
        "| 6: 30,000 predicates | 2 | " + "1,500 | " * 4 + "2.000 | " * 3 + "2.000 |",
        "<!-- /schedules -->",
    ]


def test_a_page_without_a_place_for_a_table_says_what_to_write(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Words\n")
    with pytest.raises(FileError, match="<!-- stated -->"):
        write_report([], page)
