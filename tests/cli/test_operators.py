"""`tocsin operators`, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_commands import refused, run

EVENT = json.dumps(
    {
        "camera": "drone-1",
        "location": [40.855, -73.87],
        "at": "2026-01-01T00:00Z",
        "image": "none",
        "text": "a car chase",
    }
)


def test_operators_are_listed_with_their_arguments() -> None:
    result = run("operators", "list")
    assert result.exit_code == 0
    assert "distanceFrom(place: text, ?metres: float)" in result.output
    listed = json.loads(run("operators", "list", "--json").output)
    assert {"locIn", "similarTo", "templateCount"} <= {each["name"] for each in listed}


def test_one_operator_is_shown_with_all_that_is_declared() -> None:
    result = run("operators", "show", "locIn")
    assert "region: text, a constant or a variable" in result.output
    assert "reads: location:point" in result.output
    assert "did you mean locIn" in refused("operators", "show", "locin")


def test_a_subscription_is_tried_on_an_event() -> None:
    result = run("operators", "try", "locIn(?r) and hasStems('chasing')", EVENT, "-s", "cameras")
    assert result.exit_code == 0, result.output
    assert "matches\n  ?r = Bronx\n" in result.output
    result = run("operators", "try", "locIn('Queens')", EVENT, "-s", "cameras", "--json")
    assert result.exit_code == 1
    assert json.loads(result.output)["matched"] is False
    assert "there is no place 'Bronks'" in refused("operators", "try", "locIn('Bronks')", EVENT, "-s", "cameras")


def test_explain_shows_what_operators_found() -> None:
    result = run(
        "explain", "distanceFrom('Times Square', ?m) and ?m > 5000 and altitude is absent", EVENT, "-s", "cameras"
    )
    assert result.exit_code == 0, result.output
    assert "found ?m = 1" in result.output
    assert "there is no place 'Bronks'" in refused("explain", "locIn('Bronks')", EVENT, "-s", "cameras")
    assert "there is no operator 'locIn'" in refused(
        "explain", "locIn('Bronx')", EVENT, "-s", "cameras", "--operators", "tocsin.operators.registry:Registry"
    )


def test_a_failure_is_told() -> None:
    result = run("operators", "try", "not shapeCount(3)", EVENT, "-s", "cameras")
    assert result.exit_code == 1
    assert "failed: shapeCount raised ValueError: images by path need an allowed folder" in result.output


def test_settings_say_which_operators_there_are(tmp_path: Path) -> None:
    (tmp_path / "traffic.lp").write_text('conclusion("low") :- value("altitude", A), A < 100.')
    settings = tmp_path / "operators.toml"
    settings.write_text(
        '[spatial]\nattribute = "location"\n[rules]\ntraffic = "traffic.lp"\n'
        '[tables.known]\ndatabase = "x.db"\nquery = "select 1"\noutputs = { one = "int" }\n'
        '[services.weather]\nurl = "https://weather.example/"\nhosts = ["weather.example"]\n'
    )
    listed = json.loads(run("operators", "list", "--settings", str(settings), "--json").output)
    names = [each["name"] for each in listed]
    assert names == ["locIn", "locWithin", "distanceFrom", "nearest", "concludes", "known", "weather"]
    event = json.dumps({**json.loads(EVENT), "altitude": 60})
    options = ("-s", "cameras", "--settings", str(settings))
    assert run("operators", "try", "concludes('traffic', 'low')", event, *options).exit_code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[spatial]\nregion = 3", "unknown field `region`"),
        ("[spatial", "not settings of operators"),
        ('[rules]\na = "no.lp"', "No such file"),
        ('[tables.t]\ndatabase = "d"\nquery = "q"\noutputs = { a = "words" }', "an output is one of"),
    ],
)
def test_bad_settings_are_refused(tmp_path: Path, text: str, message: str) -> None:
    settings = tmp_path / "operators.toml"
    settings.write_text(text)
    assert message in refused("operators", "list", "--settings", str(settings))
