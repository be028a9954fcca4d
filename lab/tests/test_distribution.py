"""What the distribution declares is what there is."""

from __future__ import annotations

import tomllib
from pathlib import Path

import tocsin
import tocsin_lab
from tocsin import matching
from tocsin.matching import engine_of
from tocsin.operators.schedules import schedule_of
from tocsin_lab.schedules import SCHEDULES

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_it_is_of_the_version_of_tocsin() -> None:
    assert tocsin_lab.__version__ == tocsin.__version__
    (needed,) = [each for each in PROJECT["dependencies"] if each.startswith("tocsin")]
    assert needed.partition("==")[2] == tocsin.__version__


def test_every_engine_has_the_name_that_it_is_declared_by() -> None:
    declared = PROJECT["entry-points"]["tocsin.engines"]
    assert set(declared) == set(matching._IN_THE_LAB)
    assert {name: engine_of(name).name for name in declared} == {name: name for name in declared}


def test_every_schedule_is_found_by_its_name() -> None:
    assert {name: schedule_of(name) for name in SCHEDULES} == SCHEDULES
