"""`tocsin demo`, as a user types it."""

from __future__ import annotations

import json

from typer.testing import CliRunner, Result

from tocsin.cli.app import app


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_demo_ends_by_itself_with_a_summary() -> None:
    result = run("demo", "--subscriptions", "60", "--events", "40", "--engine", "naive", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["subscriptions"] == 60
    assert summary["events"] == 40


def test_the_demo_shows_a_map_and_what_matched() -> None:
    result = run("demo", "--world", "cameras", "--events", "30", "--schedule", "sequential", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.output)
    assert set(summary["matches"]) == {"S1", "S2", "S3", "S4", "S5"}
    assert 0 < summary["evaluations"] < summary["evaluations_without_sharing"]
    assert "1 to 5 one that S1 to S5 match" in run("demo", "--world", "cameras", "--events", "3").output


def test_demo_of_a_world_that_is_not_there_names_those_that_are() -> None:
    assert "there is no world 'moon'; there are: auction, flights, cameras" in str(
        run("demo", "--world", "moon").exception
    )
