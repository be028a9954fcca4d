"""`tocsin symmetric` on the paper's example."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from tests.symmetric.test_paper import A1, A2, QUERIES
from tocsin.cli.app import app

PROGRAM = {
    "name": "auto_price", "version": 1, "parameters": {"years_ncd": "years"}, "returns": "money",
    "expression": "case when years_ncd > 7 then 900 else 1200 end",
}  # fmt: skip


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["symmetric", *arguments])
    return result.exit_code, result.stdout


def test_match_prints_whom_each_offer_meets(tmp_path: Path) -> None:
    (tmp_path / "drivers.txt").write_text("\n".join(QUERIES.values()))
    by_name = {**A2, "dynamic": {"price": "program('auto_price', years_ncd)"}}
    (tmp_path / "offers.jsonl").write_text("\n".join(map(json.dumps, (A1, A2, by_name))))
    (tmp_path / "programs.jsonl").write_text(json.dumps(PROGRAM))
    files = ["--subscribers", str(tmp_path / "drivers.txt"), "--offers", str(tmp_path / "offers.jsonl")]
    code, printed = run("match", *files, "--programs", str(tmp_path / "programs.jsonl"), "--schema", "insurance")
    assert (code, printed.splitlines()) == (0, ["1 2 3", "2(price=900.0)", "2(price=900.0)"])


def test_explain_says_which_side_refuses() -> None:
    code, printed = run("explain", QUERIES["Q3"], json.dumps(A2), "--schema", "insurance")
    assert code == 1
    assert "does not match: refused by the subscriber" in printed
    assert "computed: price = 900" in printed
    assert "✗ price <= 700" in printed
    assert "✓ age >= 40 and years_ncd >= 3" in printed
    assert run("explain", QUERIES["Q2"], json.dumps(A2), "--schema", "insurance", "--json")[0] == 0


def test_query_prints_the_offers_that_a_driver_meets(tmp_path: Path) -> None:
    (tmp_path / "offers.jsonl").write_text("\n".join(map(json.dumps, (A1, A2))))
    asked = ["query", QUERIES["Q2"], "--offers", str(tmp_path / "offers.jsonl"), "--schema", "insurance"]
    code, printed = run(*asked)
    assert (code, printed.splitlines()) == (0, ["1", "2(price=900)"])
    assert '"price":900' in run(*asked, "--json")[1].replace(" ", "")
