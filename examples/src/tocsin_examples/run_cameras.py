"""The cameras' demo: the subscriptions of Liu et al., section 2.1, on drawn snapshots, with a map of what matched."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from tocsin.matching.matcher import Matcher
from tocsin.operators.builtin.spatial import Regions
from tocsin.schema import Point
from tocsin_examples.cameras import SUBSCRIPTIONS, Cameras, camera_registry

NORTH, SOUTH, WEST, EAST = 40.92, 40.54, -74.10, -73.72
ROWS, COLUMNS = 24, 64
_SIGNS = {"Bronx": "b", "Manhattan": "m", "Queens": "q", "Brooklyn": "k", "Central Park": "p"}


@dataclass(frozen=True, slots=True)
class Summary:
    """What the demo did."""

    events: int
    matches: dict[str, int]
    evaluations: int
    evaluations_without_sharing: int  # every predicate of every subscription, for every event
    seconds: float
    schedule: str


def run(*, events: int, schedule: str, seed: int, console: Console) -> Summary:
    """Run the demo and print it; return its figures."""
    cameras, registry = Cameras(seed), camera_registry()
    matcher = Matcher(cameras.schema, operators=registry, schedule=schedule)
    for name, text in SUBSCRIPTIONS.items():
        matcher.subscribe(name, text)
    scenes = list(cameras.scenes(events))
    snapshots = [cameras.schema.admit(cameras.snapshot(scene, number)) for number, scene in enumerate(scenes)]
    matches: Counter[str] = Counter(dict.fromkeys(SUBSCRIPTIONS, 0))
    places: dict[Point, str] = {}
    started = time.perf_counter()
    for scene, snapshot in zip(scenes, snapshots, strict=True):
        found = [str(id) for id in matcher.match(snapshot)]
        matches.update(found)
        places[scene.location] = min(found)[-1] if found else "·"
    seconds = time.perf_counter() - started
    asked = sum(text.count("(") for text in SUBSCRIPTIONS.values())
    evaluations = matcher.asked.evaluations
    summary = Summary(events, dict(matches), evaluations, asked * events, seconds, schedule)
    _print_map(console, places)
    _print_summary(console, summary)
    return summary


def _print_map(console: Console, places: dict[Point, str]) -> None:
    """Print the regions as letters, snapshots as dots, and those that matched as the number of a subscription."""
    regions = Regions.new_york()
    rows = [[_sign(regions, row, column) for column in range(COLUMNS)] for row in range(ROWS)]
    for (latitude, longitude), sign in places.items():
        row = round((NORTH - latitude) / (NORTH - SOUTH) * (ROWS - 1))
        column = round((longitude - WEST) / (EAST - WEST) * (COLUMNS - 1))
        if 0 <= row < ROWS and 0 <= column < COLUMNS and not rows[row][column].isdigit():
            rows[row][column] = sign
    for line in rows:
        console.print("".join(line), markup=False, highlight=False)
    legend = ", ".join(f"{sign} {name}" for name, sign in _SIGNS.items())
    console.print(f"{legend};\n· a snapshot, 1 to 5 one that S1 to S5 match\n", markup=False, highlight=False)


def _sign(regions: Regions, row: int, column: int) -> str:
    latitude = NORTH - row * (NORTH - SOUTH) / (ROWS - 1)
    longitude = WEST + column * (EAST - WEST) / (COLUMNS - 1)
    covering = regions.covering((latitude, longitude))
    return next((_SIGNS[name] for name in reversed(covering) if name in _SIGNS), " ")


def _print_summary(console: Console, summary: Summary) -> None:
    table = Table("subscription", "matches", title=f"{summary.events:,} snapshots, schedule {summary.schedule}")
    for name, text in SUBSCRIPTIONS.items():
        table.add_row(f"{name}  {text.removeprefix('snapshot where ')}", str(summary.matches[name]))
    console.print(table)
    share = summary.evaluations / summary.evaluations_without_sharing
    console.print(
        f"{summary.evaluations:,} evaluations of operators in {summary.seconds:.2f} s, {share:.0%} of the "
        f"{summary.evaluations_without_sharing:,} that evaluating everything would take."
    )
