"""The dashboard: what is counted, what percentiles mean, and that charts say what the figures say."""

from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.service.world import World, play
from tocsin.service.web.dashboard_pages import HEIGHT, History, amount, ceiling, chart, percentile, rate


def test_events_and_notifications_are_counted_as_they_are_stored(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        history: History = world.app.state.history
        await history.close()  # moments are taken here, by hand
        history.moments.clear()
        history.take()
        await world.subscribe("ada", "car where price < 100")
        await world.subscribe("bob", "car where price < 1000")
        for price in (50, 500, 5000):
            await world.publish(price)
        history.take()
        first, last = history.moments
        assert (last.events - first.events, last.matches - first.matches) == (3, 3)
        assert last.subscriptions - first.subscriptions == 2
        assert rate(list(history.moments), 1, "events") > 0
        figures = (await world.client().get("/dashboard/figures")).json()
        assert figures["events"] == 3
        assert figures["matches"] == 3
        assert figures["subscriptions"] == 2
        assert figures["pipeline"] == "inline"
        assert figures["latency_p99_ms"] >= figures["latency_p50_ms"] > 0

    play(tmp_path, scenario)


def test_the_board_is_drawn_by_the_server_and_asks_to_be_loaded_again(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.app.state.history.take()
        for path in ("/dashboard", "/dashboard/board"):
            answer: httpx.Response = await world.client().get(path)
            assert answer.text.count("<svg") == 6
            assert 'hx-get="/dashboard/board"' in answer.text
            assert "style=" not in answer.text

    play(tmp_path, scenario)


def test_percentiles_are_of_what_came_between_two_looks() -> None:
    before = {0.01: 100.0, 0.1: 100.0, float("inf"): 100.0}
    after = {0.01: 100.0, 0.1: 110.0, float("inf"): 110.0}
    assert percentile(before, after, 0.5) == pytest.approx(0.055)
    assert percentile(after, after, 0.5) is None
    assert percentile({}, {}, 0.5) is None
    assert percentile(after, {**after, float("inf"): 120.0}, 0.5) == 0.1  # beyond the last bound: at least that


@given(st.lists(st.none() | st.floats(0, 1e12), min_size=1, max_size=200))
def test_a_chart_holds_every_value(values: list[float | None]) -> None:
    drawn = chart("x", [("", values)], points=len(values), seconds=60)
    heights = [float(part.split()[1]) for part in drawn.lines[0].path.replace("M", "L").split("L")[1:]]
    assert len(heights) == sum(value is not None for value in values)
    assert all(0 <= height <= HEIGHT for height in heights)


@given(st.floats(1e-6, 1e15))
def test_the_top_of_a_chart_is_round_and_not_far_above(value: float) -> None:
    assert value * (1 - 1e-6) <= ceiling(value) <= value * 2


def test_amounts_are_short() -> None:
    assert [amount(one) for one in (0, 0.5, 950, 1234, 100_000, 2.5e6, 3e9)] == [
        "0", "0.5", "950", "1.23k", "100k", "2.5M", "3G",
    ]  # fmt: skip
