"""The frame of a peer in Python: read, build, answer, time, tell. benchmarks/peers/__init__.py has the protocol."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.files import Event, Skipped, Workload, read

REPEATS = 3

Prepare = Callable[[Sequence[Event]], Sequence[Any]]  # events as the peer wants them; not timed
Match = Callable[[Any], Sequence[int]]  # the ids that match one of them
Build = Callable[[Workload], tuple[Prepare, Match]]


def main(build: Build) -> None:
    """Run the program of the peer that `build` makes."""
    subscriptions, events, checked, seconds, answers = sys.argv[1:]
    try:
        figures = measure(build, read(Path(subscriptions), Path(events)), int(checked), float(seconds), Path(answers))
    except Skipped as reason:
        figures = {"skipped": str(reason)}
    print(json.dumps(figures))


def measure(build: Build, workload: Workload, checked: int, budget: float, answers: Path) -> dict[str, Any]:
    """Return the figures; writes the answers first."""
    started = time.perf_counter()
    prepare, match = build(workload)
    build_s = time.perf_counter() - started
    events = prepare(workload.events)
    with answers.open("w") as file:
        file.writelines(json.dumps([int(id) for id in match(event)]) + "\n" for event in events[:checked])
    seconds: list[float] = []
    matches = 0
    for _ in range(REPEATS):
        spent, matches, done = _repeat(match, events, float("inf") if seconds else budget)
        events = events[:done]
        seconds.append(spent)
    return {"build_s": build_s, "events": len(events), "matches": matches, "seconds": seconds}


def _repeat(match: Match, events: Sequence[Any], budget: float) -> tuple[float, int, int]:
    """Return the seconds, the matches and the number of events that were matched within the budget."""
    matches = done = 0
    started = time.perf_counter()
    for event in events:
        matches += len(match(event))
        done += 1
        if time.perf_counter() - started > budget:
            break
    return time.perf_counter() - started, matches, done
