"""`tocsin load`: the random client runs against a service, and its report adds up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from tests.service.live import serving
from tocsin.schema.examples import load_example
from tocsin.store.events import read_events
from tocsin_examples.load import LoadReport


def run(*arguments: str) -> tuple[int, LoadReport]:
    command = [sys.executable, "-c", "from tocsin.cli import main; main()", "load", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    return done.returncode, msgspec.json.decode(done.stdout, type=LoadReport)


def test_load_asks_at_random_and_reports_what_it_took(tmp_path: Path) -> None:
    with serving(tmp_path, schema=load_example("auction")) as live:
        options = ("--seconds", "1.5", "--clients", "4", "--batch", "5", "--publish", "0.5", "--subscribe", "0.3")
        code, report = run(live.url, "--token", live.tokens["ada"], *options)
        assert (code, report.failed, report.errors) == (0, 0, {})
        assert set(report.kinds) == {"publish", "subscribe", "unsubscribe", "read"}
        assert report.requests == sum(one.requests for one in report.kinds.values())
        assert report.events == 5 * report.kinds["publish"].requests > 0
        for one in report.kinds.values():
            assert 0 < one.milliseconds["p50"] <= one.milliseconds["p90"] <= one.milliseconds["p99"]
        assert "publish" in str(report)
        with live.broker.store.read() as connection:
            assert len(read_events(connection, 0, 10**6)) == report.events


def test_load_that_fails_says_how_often_and_why(tmp_path: Path) -> None:
    with serving(tmp_path) as live:  # whose schema is not the auction's
        # Only publishing, which fails: on a busy machine there may be time for a single request.
        only = ("--publish", "1", "--subscribe", "0")
        code, report = run(live.url, "--token", live.tokens["ada"], "--seconds", "1", "--clients", "1", *only)
        assert code == 1
        assert report.failed == sum(report.errors.values()) > 0
