"""A site's documents translated into events, by columns and one by one, in one thread.

python -m benchmarks.mapping [--documents 200000] [--batch 1000] [--no-store]

Ten fields: a text, a number in other units, one scaled, one that is a text, a table of values, a time with its zone, a truth, a
text that is split, a pattern with a group, a path. The answers are compared before anything is timed. Seconds are of the
processor, the best of three rounds.
"""

from __future__ import annotations

import argparse
import random
import time
from typing import Any

from benchmarks.results import store
from tocsin.language.mapping import SiteMapping
from tocsin.language.mapping_columns import translate_batch
from tocsin.schema import (
    BooleanDomain,
    EnumeratedDomain,
    EventType,
    NumericDomain,
    Schema,
    TextDomain,
    TimeDomain,
    TypeAttribute,
)

DOMAINS = (
    TextDomain(name="text"), NumericDomain(name="number"), TimeDomain(name="time"), BooleanDomain(name="flag"),
    EnumeratedDomain(name="shade", values=("red", "blue", "green")),
)  # fmt: skip
ATTRIBUTES = {
    "title": "text", "price": "number", "weight_kg": "number", "year": "number", "shade": "shade", "ends": "time",
    "sold": "flag", "tags": "text", "code": "text", "seller": "text",
}  # fmt: skip
MAPPING = """
site = "flohmarkt"
event_type = "item"
rules = [
    { from = "Titel", to = "title" },
    { from = "Preis", to = "price", scale = 0.01 },
    { from = "Gewicht_lb", to = "weight_kg", unit = ["lb", "kg"], digits = 2 },
    { from = "Jahr", to = "year" },
    { from = "Farbe", to = "shade", table = { rot = "red", blau = "blue", gruen = "green" } },
    { from = "Ende", to = "ends", time = "%d.%m.%Y %H:%M", zone = "Europe/Berlin" },
    { from = "verkauft", to = "sold" },
    { from = "Worte", to = "tags", split = "," },
    { from = "Kennung", to = "code", pattern = "([A-Z]+)-[0-9]+" },
    { from = "Verkaeufer.Name", to = "seller" },
]
"""


def market() -> Schema:
    """Return the schema of the events."""
    entries = tuple(TypeAttribute(name, mandatory=False, multiple=name == "tags") for name in ATTRIBUTES)
    return Schema({domain.name: domain for domain in DOMAINS}, ATTRIBUTES, {"item": EventType("item", entries)})


def documents(count: int) -> list[dict[str, Any]]:
    """Return documents of a flea market."""
    pick = random.Random(1)
    words = [f"wort{number}" for number in range(40)]
    return [
        {
            "Titel": f"Stuhl {number}", "Preis": pick.randint(1, 1_000_000), "Gewicht_lb": pick.uniform(1, 500),
            "Jahr": str(pick.randint(1800, 2026)), "Farbe": pick.choice(["rot", "blau", "gruen"]),
            "Ende": f"{pick.randint(1, 28):02}.{pick.randint(1, 12):02}.2026 {pick.randint(4, 23):02}:{pick.randint(0, 59):02}",
            "verkauft": pick.random() < 0.5, "Worte": f"{pick.choice(words)}, {pick.choice(words)}",
            "Kennung": f"{pick.choice('ABC')}{pick.choice('XYZ')}-{pick.randint(1, 400)}",
            "Verkaeufer": {"Name": f"Haus {pick.randint(1, 3000)}", "Ort": "Wien"},
        }
        for number in range(count)
    ]  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--no-store", action="store_true", help="only print")
    options = parser.parse_args()
    mapping = SiteMapping.loads(MAPPING, market())
    given = documents(options.documents)
    single = given[: max(options.documents // 50, 1)]
    started = time.process_time()
    expected = [mapping.translate(document) for document in single]
    one_by_one = len(single) / (time.process_time() - started)
    if translate_batch(mapping, single) != expected:
        raise SystemExit("columns do not say what the definition says")
    best = 0.0
    for _ in range(3):
        started = time.process_time()
        for start in range(0, len(given), options.batch):
            translate_batch(mapping, given[start : start + options.batch])
        best = max(best, len(given) / (time.process_time() - started))
    figures = {
        "documents": options.documents,
        "batch": options.batch,
        "events/s by columns": round(best),
        "events/s one by one": round(one_by_one),
    }
    print(figures)
    if not options.no_store:
        store("mapping", figures)


if __name__ == "__main__":
    main()
