"""Tocsin's columnar engine in the peers' protocol, measured as `tocsin bench match` does: the row to compare with."""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path

import msgspec

from tocsin.matching import engine_of
from tocsin_lab.bench.inferred import schema_of
from tocsin_lab.bench.measure import measure


def main() -> None:
    """Answer the first events, then measure."""
    subscriptions, events, checked, _, answers = sys.argv[1:]
    write_answers(Path(subscriptions), Path(events), int(checked), Path(answers))
    figures = measure(Path(subscriptions), Path(events))
    print(
        json.dumps({
            "build_s": figures.load_seconds + figures.build_seconds,
            "events": figures.events,
            "matches": figures.matches,
            "seconds": figures.seconds,
            "single_us": figures.single_p50_us,
        })
    )  # fmt: skip


def write_answers(subscriptions: Path, events: Path, checked: int, answers: Path) -> None:
    """Write the ids that match each of the first events."""
    with subscriptions.open("rb") as file, events.open("rb") as occurred:
        schema = schema_of(file, occurred)
    matcher = engine_of("columnar")(schema)
    with subscriptions.open("rb") as file:
        matcher.load(file)
    with events.open("rb") as file:
        chosen = [schema.admit(msgspec.json.decode(line)) for line in islice(filter(bytes.strip, file), checked)]
    with answers.open("w") as file:
        file.writelines(json.dumps(list(ids)) + "\n" for ids in matcher.match_batch(chosen))


if __name__ == "__main__":
    main()
