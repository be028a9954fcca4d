"""Offers, properties and operators on the command line: `tocsin match` and `tocsin explain` on the paper's example."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.broker.test_offers import A2, Q1, Q2, Q3
from tests.cli.test_commands import run
from tocsin.operators.operator import operator
from tocsin.operators.registry import Registry
from tocsin.schema import Event

A1: dict[str, Any] = {"event": {"name": "Company A", "cover": "Basic", "price": 650}, "rules": ["age >= 25"]}
PLAIN = {"event_type": "insurance", "name": "C", "cover": "Full", "price": 700}
PROGRAMS = """
[programs.auto_price]
version = 1
parameters = { years_ncd = "int" }
returns = "float"
expression = "case when years_ncd > 7 then 900 else 1200 end"
"""


@operator(outputs={"people": int})
def insured(event: Event) -> list[int]:
    """How many people it is for."""
    return [2, 60]


def registry() -> Registry:
    return Registry([insured])


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Return the options that name three drivers, and offers among events."""
    (tmp_path / "drivers.txt").write_text(f"{Q1}\n{Q2}\n{Q3}\n")
    by_name = {**A2, "dynamic": {"price": "program('auto_price', years_ncd)"}}
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, (A1, A2, by_name, PLAIN))))
    (tmp_path / "programs.toml").write_text(PROGRAMS)
    named = {"subscriptions": "drivers.txt", "events": "events.jsonl", "programs": "programs.toml"}
    return [word for name, file in named.items() for word in (f"--{name}", str(tmp_path / file))] + ["-s", "insurance"]


@pytest.mark.parametrize("engine", ["columnar", "naive"])
def test_match_takes_offers_among_the_events(files: list[str], engine: str) -> None:
    result = run("match", *files, "--engine", engine)
    assert result.exit_code == 0, result.output
    lines = result.stdout.replace("900.0", "900").splitlines()
    assert lines == ["2 3", "2(price=900)", "2(price=900)", "1 2 3"]
    told = [json.loads(line) for line in run("match", *files, "--engine", engine, "--json").stdout.splitlines()]
    assert told[1] == {"line": 2, "matches": ["2"], "computed": {"2": {"price": 900.0}}}
    assert told[3] == {"line": 4, "matches": ["1", "2", "3"]}


def test_match_tells_the_values_of_variables_and_what_failed(files: list[str], tmp_path: Path) -> None:
    ncd = "years_ncd = 0"
    (tmp_path / "drivers.txt").write_text(f"insurance where insured(?p) and ?p > 50 with name = 'Z', age = 50, {ncd}\n")
    share = {**A1, "event": {"name": "A", "cover": "Full"}, "dynamic": {"price": "1 / years_ncd"}}
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, (A1, share))))
    result = run("match", *files, "--operators", f"{__name__}:registry")
    assert (result.exit_code, result.stdout.splitlines()) == (1, ["1(?p=60)", ""])
    assert "event line 2, subscription 1: division by zero" in result.stderr
    printed = run("match", *files, "--operators", f"{__name__}:registry", "--json").stdout
    assert [json.loads(line) for line in printed.splitlines()] == [
        {"line": 1, "matches": ["1"], "bindings": {"1": [{"p": 60}]}},
        {"line": 2, "matches": [], "failures": {"1": "division by zero"}},
    ]


def test_explain_says_what_the_rules_and_the_condition_came_to() -> None:
    result = run("explain", Q3, json.dumps(A2), "-s", "insurance")
    assert result.exit_code == 1
    assert "computed: price = 900" in result.output
    assert "✗ price <= 700" in result.output
    assert "✓ the offer's rule driver.age >= 40 and driver.years_ncd >= 3" in result.output
    told = run("explain", Q2, json.dumps(A2), "-s", "insurance", "--json")
    assert (told.exit_code, json.loads(told.output)["computed"]) == (0, {"price": 900.0})
