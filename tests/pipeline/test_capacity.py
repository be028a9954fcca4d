"""The capacity planner's arithmetic, and its command; that predictions hold is measured by benchmarks/capacity.py."""

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from tocsin.cli.app import app
from tocsin.errors import NotSupported
from tocsin.pipeline.capacity import (
    Load,
    MachineFigures,
    engine_cost_us,
    event_cost_us,
    made_sample,
    measure_figures,
    plan_capacity,
)
from tocsin.schema.files import dumps

FIGURES = MachineFigures(
    search_us=2.0, subscriptions=100_000, growth=0.0, id_ns=10.0, admission_us=1.0, transport_us=5.0,
    bytes_per_subscription=100.0, compile_us=36.0, event_bytes=200.0,
)  # fmt: skip


def test_a_billion_subscriptions_need_shards_and_each_takes_every_event() -> None:
    plan = plan_capacity(Load(subscriptions=1e9, events_per_second=1e6, matches_per_event=50), FIGURES)
    assert plan.index_bytes == 1e11
    assert plan.shards * plan.subscriptions_per_shard >= 1e9
    assert plan.network_in == 1e6 * 200 * plan.shards
    one = event_cost_us(FIGURES, 1e9 / plan.shards, 50 / plan.shards)
    assert plan.event_us == one
    assert plan.cores >= plan.shards * 1e6 * one / 1e6 / 0.6
    assert plan.executors * 4 >= plan.cores
    assert plan.compile_core_hours == pytest.approx(1e9 * 36e-6 / 3600)
    assert [share for _, share in plan.limits] == sorted((share for _, share in plan.limits), reverse=True)


def test_a_small_load_is_one_shard_on_one_core() -> None:
    plan = plan_capacity(Load(subscriptions=1e5, events_per_second=100, matches_per_event=1), FIGURES)
    assert (plan.shards, plan.cores, plan.executors) == (1, 1, 1)


def test_one_driver_that_stores_every_match_is_what_breaks_first() -> None:
    load = Load(subscriptions=1e6, events_per_second=1e6, matches_per_event=50, sink="store")
    assert plan_capacity(load, FIGURES).limits[0] == ("one driver that stores", 1e6 * 50 * 16 / 200e6)


def test_the_search_grows_as_a_power_and_matches_cost_their_ids() -> None:
    growing = msgspec.structs.replace(FIGURES, subscriptions=100, growth=0.5, id_ns=1000.0)
    assert engine_cost_us(growing, 400, 0) == pytest.approx(4.0)
    assert engine_cost_us(growing, 100, 3) == pytest.approx(5.0)


def test_an_executor_without_room_for_an_index_is_refused() -> None:
    with pytest.raises(NotSupported, match="needs more than"):
        plan_capacity(
            Load(subscriptions=1, events_per_second=1, matches_per_event=1, executor_memory_bytes=1e9), FIGURES
        )


def test_a_sample_tells_figures_and_a_made_one_matches_as_often_as_asked() -> None:
    schema, lines, events = made_sample(4_000, 10.0)
    figures = measure_figures(schema, lines, events[:1_000])
    assert figures.subscriptions == 4_000
    assert figures.search_us > 0
    assert 0.0 <= figures.growth <= 1.0
    assert figures.bytes_per_subscription > 8
    from tocsin.pipeline.capacity import _batch_of, _loaded

    counts = _loaded(schema, lines).count_arrow(_batch_of(schema, events))
    assert 7 < counts.mean() < 13


def test_the_command_plans_from_the_users_own_sample(tmp_path: Path) -> None:
    schema, lines, events = made_sample(1_200, 5.0)
    (tmp_path / "s.json").write_text(dumps(schema, "json"))
    (tmp_path / "subscriptions.jsonl").write_text("\n".join(lines))
    (tmp_path / "events.jsonl").write_text("\n".join(json.dumps(event) for event in events[:200]))
    load = ["capacity", "--subscriptions", "1e9", "--events-per-second", "1e6", "--matches-per-event", "50"]
    told = CliRunner().invoke(app, load)
    assert told.exit_code == 0, told.output
    assert "breaks first" in told.output
    sample = ["--sample-subscriptions", str(tmp_path / "subscriptions.jsonl"), "--sample-events",
              str(tmp_path / "events.jsonl"), "--schema", str(tmp_path / "s.json"), "--json"]  # fmt: skip
    found = CliRunner().invoke(app, [*load, *sample])
    assert found.exit_code == 0, found.output
    plan = json.loads(found.output)
    assert plan["figures"]["subscriptions"] == 1_200
    assert plan["plan"]["shards"] >= 1
