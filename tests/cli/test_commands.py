"""The commands, as a user types them: output, exit codes, messages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tocsin.cli.app import app
from tocsin.errors import TocsinError

SALE: dict[str, Any] = {
    "event_type": "sale",
    "item": "i1",
    "title": "old clock",
    "category": "wall clock",
    "price": 40,
    "at": "2026-01-01T00:00Z",
    "seller": {"name": "ann"},
}


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, arguments, input=stdin)


def refused(*arguments: str, stdin: str | None = None) -> str:
    """Return the message of a command that could not run."""
    result = run(*arguments, stdin=stdin)
    assert isinstance(result.exception, TocsinError), result.output
    return str(result.exception)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    subscriptions = [
        '{"id": "bulk", "event_types": ["sale"], "predicates": [["price", "<", 50]]}',
        '{"id": "text", "text": "sale where category kind of \'clocks\'"}',
        "bid where price > 1000",
    ]
    events = [json.dumps(SALE), json.dumps({**SALE, "price": 90}), json.dumps({**SALE, "price": -1, "colour": "red"})]
    paths = {"subscriptions": tmp_path / "subscriptions.jsonl", "events": tmp_path / "events.jsonl"}
    paths["subscriptions"].write_text("\n".join(subscriptions))
    paths["events"].write_text("\n".join(events))
    return {name: str(path) for name, path in paths.items()}


# --- match ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["columnar", "naive"])
def test_match_prints_one_line_of_ids_per_event_and_goes_on_after_a_bad_one(files: dict[str, str], engine: str) -> None:
    result = run(
        "match",
        "--schema",
        "auction",
        "--subscriptions",
        files["subscriptions"],
        "--events",
        files["events"],
        "--engine",
        engine,
    )
    assert result.stdout.splitlines() == ["bulk text", "text", ""]
    assert result.exit_code == 1
    assert "event line 3: price: -1 is not at least 0; events of type sale have no attribute 'colour'" in result.stderr


def test_match_prints_json_for_programs(files: dict[str, str]) -> None:
    result = run(
        "match", "--schema", "auction", "--subscriptions", files["subscriptions"], "--events", files["events"], "--json"
    )
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines[0] == {"line": 1, "matches": ["bulk", "text"]}
    assert lines[2]["violations"] == ["price: -1 is not at least 0", "events of type sale have no attribute 'colour'"]


def test_match_reads_events_from_standard_input(files: dict[str, str]) -> None:
    arguments = ("match", "--schema", "auction", "--subscriptions", files["subscriptions"], "--events", "-")
    result = run(*arguments, stdin=json.dumps(SALE))
    assert result.stdout == "bulk text\n"
    assert result.exit_code == 0


def test_match_reports_bad_subscriptions_and_uses_the_others(files: dict[str, str]) -> None:
    path = Path(files["subscriptions"])
    path.write_text(path.read_text() + '\n{"id": "bad", "text": "sale where prize < 3"}\nsale where price <')
    result = run("match", "--schema", "auction", "--subscriptions", str(path), "--events", files["events"])
    assert result.stdout.splitlines()[0] == "bulk text"
    assert "did you mean price" in result.stderr
    assert "2 bad subscriptions" in result.stderr


def test_match_proposes_a_schema_where_none_is_given(tmp_path: Path) -> None:
    (tmp_path / "s").write_text('{"id": 1, "predicates": [["a", ">", 3]]}')
    (tmp_path / "e").write_text('{"a": 5}\n{"a": 1}')
    result = run("match", "--subscriptions", str(tmp_path / "s"), "--events", str(tmp_path / "e"))
    assert result.stdout == "1\n\n"


def test_match_says_what_is_missing(files: dict[str, str], tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing")
    assert "No such file" in refused(
        "match", "--schema", "auction", "--subscriptions", missing, "--events", files["events"]
    )
    assert "there is no engine 'columna'; did you mean columnar" in refused(
        "match",
        "--schema",
        "auction",
        "--engine",
        "columna",
        "--subscriptions",
        files["subscriptions"],
        "--events",
        files["events"],
    )
    assert "only one" in refused("match", "--schema", "auction", "--subscriptions", "-", "--events", "-")


# --- parse and explain ------------------------------------------------------------------------------------------------


def test_parse_shows_tree_and_normal_form() -> None:
    result = run("parse", "--schema", "auction", "--json", "item where price < 3 and not (year = 4)")
    shown = json.loads(result.stdout)
    assert shown["tree"]["event_types"] == ["item"]
    assert shown["conjunctions"] == ["event_type in {0} and price in (-∞, 3) and year outside {4}"]
    assert shown["warnings"] == []
    assert result.exit_code == 0


def test_parse_warns_of_what_can_never_hold() -> None:
    result = run("parse", "--schema", "auction", "price < 3 and price > 9")
    assert "can never hold" in result.stderr
    assert result.exit_code == 1


def test_parse_points_at_the_place() -> None:
    message = refused("parse", "--schema", "auction", "price < 'cheap'")
    line, mark = message.splitlines()
    assert line == "price < 'cheap'"
    assert mark.index("^") == line.index("'cheap'")
    assert "price is numeric" in mark


def test_explain_tells_why_and_answers_by_its_exit_code() -> None:
    matched = run("explain", "--schema", "auction", "sale where price < 50", json.dumps(SALE))
    assert matched.exit_code == 0
    assert "✓ price < 50   (price is 40)" in matched.stdout
    missed = run("explain", "--schema", "auction", "--json", "sale where price < 30", json.dumps(SALE))
    assert missed.exit_code == 1
    assert json.loads(missed.stdout)["changes"][0]["condition"] == "price < 30"


def test_explain_without_a_schema_takes_types_as_they_are_asked_about() -> None:
    assert run("explain", "car where price < 50", '{"event_type": "car", "price": 40}').exit_code == 0
    assert "(price as number is 60)" in run("explain", "price < 50", '{"price": 60}').stdout


# --- schema -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["table", "toml", "json", "xml", "arrow", "json-schema", "dtd:PUBLISH_EVENT"])
def test_schema_show_writes_every_form(format: str) -> None:
    result = run("schema", "show", "thesis", "--format", format)
    assert result.exit_code == 0, result.output
    assert "furniture_category" in result.stdout


def test_schema_extend_applies_the_rules_and_saves(tmp_path: Path) -> None:
    out = tmp_path / "new.toml"
    result = run(
        "schema", "extend", "thesis", "--domain", '{"name": "colour", "kind": "enumerated", "values": ["red", "blue"]}',
        "--attribute", "colour=colour", "--add", "car=colour:multiple", "--event-type", "boat=price,colour:optional",
        "--output", str(out),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    shown = run("schema", "show", str(out), "--types", "boat")
    assert "colour" in shown.stdout


def test_schema_extend_refuses_what_exists() -> None:
    assert "already" in refused("schema", "extend", "thesis", "--attribute", "price=1")


def test_schema_infer_proposes_a_schema_that_loads(tmp_path: Path) -> None:
    (tmp_path / "e.jsonl").write_text('{"a": 5, "b": {"c": "x"}}\n{"a": 1.5, "tags": ["p", "q"]}')
    out = tmp_path / "schema.toml"
    assert run("schema", "infer", str(tmp_path / "e.jsonl"), "-o", str(out)).exit_code == 0
    assert run("schema", "check", str(out)).exit_code in (0, 1)
    assert "b.c" in run("schema", "show", str(out)).stdout


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_help_does_not_load_what_it_does_not_need() -> None:
    code = (
        "import sys; sys.argv = ['tocsin', '--help']\n"
        "from tocsin.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numba', 'numpy', 'pyarrow', 'lark', 'pyspark', 'sqlalchemy', 'lxml'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "match" in done.stdout


def test_errors_end_with_exit_code_2_and_no_traceback() -> None:
    code = "import sys; sys.argv = ['tocsin', 'parse', 'price <']; from tocsin.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("tocsin:\nprice <\n")


def test_rules_are_imported_and_what_cannot_be_said_is_reported(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(
        json.dumps([{"id": "a", "query": {"term": {"brand": "mini"}}}, {"id": "b", "query": {"fuzzy": {}}}])
    )
    out, report = tmp_path / "out.jsonl", tmp_path / "report.jsonl"
    result = run("import", "percolator", str(rules), "-o", str(out), "--report", str(report))
    assert result.exit_code == 1
    assert "1 of 2 rules taken" in result.output
    assert json.loads(out.read_text()) == {"id": "percolator:a", "text": "brand = 'mini'"}
    told = [json.loads(line) for line in report.read_text().splitlines()]
    assert [(each["id"], each["taken"]) for each in told] == [("percolator:a", True), ("percolator:b", False)]
    assert "fuzzy" in told[1]["reason"]


def test_imported_rules_are_bound_where_a_schema_is_given(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"id": "a", "query": {"term": {"no such": "mini"}}}))
    result = run("import", "percolator", str(rules), "--schema", "auction")
    assert result.exit_code == 1
    assert "0 of 1 rules taken" in result.output


def test_mapping_is_proposed_checked_tried_and_counted(tmp_path: Path) -> None:
    schema, samples, mapping = tmp_path / "s.toml", tmp_path / "cars.csv", tmp_path / "m.toml"
    schema.write_text(
        '[domains.number]\nkind = "numeric"\n[domains.origin]\nkind = "enumerated"\nvalues = ["europe", "japan"]\n'
        '[attributes]\nweight_kg = "number"\norigin = "origin"\n'
        '[event_types.car]\nweight_kg = "mandatory"\norigin = "optional"\n'
    )
    samples.write_text("Weight_in_lbs,Origin,Name\n1000,Europe,mini\n2000,USA,ford\n")
    common = ["--schema", str(schema)]
    inferred = run("mapping", "infer", str(samples), *common, "-o", str(mapping))
    assert "USA" in inferred.stderr
    assert 'unit = ["lb", "kg"]' in mapping.read_text()
    assert run("mapping", "check", str(mapping), *common).exit_code == 0
    tried = run("mapping", "try", str(mapping), str(samples), *common)
    assert (tried.exit_code, "origin, from Origin" in tried.stdout) == (1, True)
    run("schema", "extend", str(schema), "--values", "origin=usa", "--alias", "origin/USA=usa", "-o", str(schema))
    counted = run("mapping", "coverage", str(mapping), str(samples), *common)
    assert (counted.exit_code, counted.stdout.splitlines()[0]) == (0, "2 of 2 documents become events")
