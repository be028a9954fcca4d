"""The subscriptions of the paper on drawn snapshots: what was drawn tells what must match."""

from __future__ import annotations

import pytest

from tocsin.language.semantics import evaluate
from tocsin.language.units import distance_metres
from tocsin.matching.matcher import Matcher
from tocsin.operators.schedules import schedule_names
from tocsin.schema import Event
from tocsin_examples.cameras import SUBSCRIPTIONS, Cameras, Scene, camera_registry

STATUE, TIMES_SQUARE = (40.6892, -74.0445), (40.7580, -73.9855)


def wanted(scene: Scene) -> set[str]:
    """Return the subscriptions that a scene satisfies, from what was drawn."""
    bronx = scene.area == "Bronx"
    congestion = scene.cars >= 12
    answers = {
        "S1": bronx and scene.chase,
        "S2": bronx and scene.mob > 50,
        "S3": distance_metres(scene.location, TIMES_SQUARE) <= 5000
        and congestion
        and scene.mob + scene.pedestrians > 250,
        "S4": bronx and congestion and scene.accident and scene.police < 2,
        "S5": distance_metres(scene.location, STATUE) < 1000 and scene.tour_boats > 2 * scene.coast_guard,
    }
    return {name for name, holds in answers.items() if holds}


@pytest.fixture(scope="module")
def snapshots() -> list[tuple[Scene, Event]]:
    cameras = Cameras(seed=4)
    return [
        (scene, cameras.schema.admit(cameras.snapshot(scene, number)))
        for number, scene in enumerate(cameras.scenes(60))
    ]


@pytest.mark.parametrize("schedule", schedule_names())
def test_the_subscriptions_of_the_paper_match_what_was_drawn(
    schedule: str, snapshots: list[tuple[Scene, Event]]
) -> None:
    cameras = Cameras()
    registry = camera_registry()
    matcher = Matcher(cameras.schema, operators=registry, schedule=schedule)
    bound = {name: registry.bind(text, cameras.schema) for name, text in SUBSCRIPTIONS.items()}
    for name, subscription in bound.items():
        matcher.add(name, subscription)
    seen: set[str] = set()
    for number, (scene, event) in enumerate(snapshots):
        found = set(matcher.match(event))
        assert found == wanted(scene), scene
        if number < 4:
            assert found == {name for name, each in bound.items() if evaluate(each, event, registry)}
        seen |= set(map(str, found))
    assert seen == set(SUBSCRIPTIONS)
    assert all(not counts.failures for counts in registry.runner.counts.values())
    assert matcher.asked.evaluations < 60 * len(matcher.asked.predicates)
