"""The script that times a newcomer's path: what it prints is what the page of installing shows, and the page keeps the promise."""

from __future__ import annotations

import inspect
import re

import pytest

from tests.project.files import ROOT
from tools import newcomer

PAGE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+) \| ([0-9.]+) \| ([0-9.]*) ?\|$", PAGE, re.MULTILINE)


def test_the_page_shows_the_table_that_the_script_prints() -> None:
    steps = [(what, float(clock), float(used or 0)) for what, clock, used in ROWS]
    assert newcomer.table(steps) in PAGE
    code = inspect.getsource(newcomer)
    assert [what for what, _, _ in ROWS if what.partition(":")[0] not in code] == []


def test_the_times_of_the_page_are_within_what_is_promised() -> None:
    clocks = [float(clock) for _, clock, _ in ROWS]
    assert len(clocks) == 5
    assert sum(clocks[:2]) < newcomer.LIBRARY_SECONDS
    assert sum(clocks[2:]) < newcomer.SERVICE_SECONDS


def test_a_path_that_takes_too_long_ends_with_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(newcomer.Newcomer, "install", lambda self, _: self.took("install", 1.0, 1.0))
    monkeypatch.setattr(newcomer.Newcomer, "megabytes", lambda _: 258.0)
    monkeypatch.setattr(newcomer.Newcomer, "match", lambda self: self.took("match", 2.0, 2.0))
    for seconds, code in ((100.0, 0), (200.0, 1)):
        monkeypatch.setattr(
            newcomer.Newcomer, "serve", lambda self, _, seconds=seconds: self.took("serve", seconds, 0.0)
        )
        assert newcomer.main() == code
    assert "| serve | 200.0 |  |" in capsys.readouterr().out
