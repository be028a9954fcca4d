"""Cameras above a city: seeded snapshots over the `cameras` example schema, and the subscriptions of Liu et al.

A snapshot's image is drawn, with a known number of people, cars and boats at known distances, and then really looked
at: by colour, by connected shapes, by distance. Where a camera is, is chosen within named regions of the packaged map.
"""

from __future__ import annotations

import base64
import io
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.errors import BadArgument
from tocsin.operators.builtin.image import read_image
from tocsin.operators.builtin.spatial import spatial_operators
from tocsin.operators.operator import Operator, operator
from tocsin.operators.registry import Registry
from tocsin.schema import Event, Point, Schema
from tocsin.schema.examples import load_example

START = datetime(2026, 1, 1, 9, tzinfo=UTC)
SIZE, CELL = 320, 8  # pixels of an image's side, and of the cells that things are drawn in
COLOURS = {
    "person": (200, 30, 30),
    "policeCar": (30, 60, 220),
    "anyCar": (150, 150, 150),
    "accident": (250, 140, 20),
    "tourBoat": (250, 230, 60),
    "coastGuardBoat": (250, 250, 250),
}
MOB = 10  # people close together
CONGESTION = 12  # cars

SUBSCRIPTIONS = {  # section 2.1 of the paper
    "S1": "snapshot where locIn('Bronx') and chasePattern('policeCar', 'anyCar')",
    "S2": "snapshot where locIn('Bronx') and mobPattern(?people) and ?people > 50",
    "S3": "snapshot where locWithin('Times Square', 5000) and trafficPattern('congestion') "
    "and pedestrianCount(?ped) and ?ped > 250",
    "S4": "snapshot where locIn('Bronx') and trafficPattern('congestion') and trafficPattern('accident') "
    "and policeCarCount(?pol) and ?pol < 2",
    "S5": "snapshot where distanceFrom('Statue of Liberty', ?x) and ?x < 1000 "
    "and tourBoatCount(?y) and coastGuardBoatCount(?z) and ?y > 2 * ?z",
}


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to see, and from where."""

    area: str  # Bronx, Midtown, Harbour or Queens
    location: Point
    mob: int  # people close together
    pedestrians: int  # people apart from each other
    cars: int
    police: int
    chase: bool
    accident: bool
    tour_boats: int
    coast_guard: int


_CENTRES = {
    "Bronx": ((40.855, -73.870), 0.02),
    "Midtown": ((40.758, -73.985), 0.02),
    "Harbour": ((40.6892, -74.0445), 0.004),
    "Queens": ((40.72, -73.82), 0.02),
}


class Cameras:
    """A city full of cameras; the same seed gives the same snapshots."""

    def __init__(self, seed: int = 2026) -> None:
        self.schema: Schema = load_example("cameras")
        self._random = random.Random(seed)

    def scenes(self, count: int) -> Iterator[Scene]:
        """Yield what the cameras are above."""
        for _ in range(count):
            yield self._scene()

    def _scene(self) -> Scene:
        pick = self._random
        area = pick.choice(list(_CENTRES))
        (latitude, longitude), spread = _CENTRES[area]
        police = pick.choice((0, 0, 1, 1, 2, 3))
        return Scene(
            area=area,
            location=(
                round(latitude + pick.uniform(-spread, spread), 5),
                round(longitude + pick.uniform(-spread, spread), 5),
            ),
            mob=pick.choice((0, 0, 12, 40, 51, 60, 90)),
            pedestrians=pick.choice((0, 5, 40, 150, 245, 255, 260)),
            cars=pick.choice((1, 4, 8, 11, 12, 16)),
            police=police,
            chase=police > 0 and pick.random() < 0.4,
            accident=pick.random() < 0.5,
            tour_boats=pick.randrange(6),
            coast_guard=pick.randrange(4),
        )

    def snapshot(self, scene: Scene, number: int) -> dict[str, Any]:
        """Return the raw event of a scene."""
        return {
            "event_type": "snapshot",
            "camera": f"drone-{number % 20}",
            "location": list(scene.location),
            "at": (START + timedelta(seconds=number)).isoformat(),
            "altitude": 50 + number % 200,
            "image": draw(scene),
        }


# --- drawing ----------------------------------------------------------------------------------------------------------


def draw(scene: Scene) -> str:
    """Return the image of a scene, as the bytes of a PNG in a data URI."""
    from PIL import Image

    pixels = np.full((SIZE, SIZE, 3), (20, 60, 30), np.uint8)

    def put(kind: str, row: int, column: int, size: int = 6) -> None:
        pixels[row * CELL : row * CELL + size, column * CELL : column * CELL + size] = COLOURS[kind]

    for at in range(scene.mob):  # ten rows, shoulder to shoulder
        put("person", at % 10, at // 10, 2)
    for at in range(scene.pedestrians):  # every second cell, far from the mob
        put("person", 12 + 2 * (at % 13), 2 * (at // 13), 2)
    for at in range(scene.cars):
        put("anyCar", 37, 2 * at)
    for at in range(scene.police):
        put("policeCar", *((37, 1) if scene.chase and at == 0 else (39, 2 * at)))
    if scene.accident:
        put("accident", 39, 12)
    for at in range(scene.tour_boats):
        put("tourBoat", 39, 14 + 2 * at)
    for at in range(scene.coast_guard):
        put("coastGuardBoat", 39, 28 + 2 * at)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


# --- looking ----------------------------------------------------------------------------------------------------------

Labels = npt.NDArray[np.int64]


@lru_cache(64)
def _labelled(image: str, kind: str) -> tuple[Labels, int]:
    """Return the image's connected shapes of a kind's colour, labelled 1, 2, …, and how many there are."""
    from skimage.measure import label

    found: Any = label((read_image(image) == np.array(COLOURS[kind], np.uint8)).all(axis=2), connectivity=2)
    return found, int(found.max())


def _image(event: Event) -> str:
    (image,) = event.values["image"]
    return str(image)


def _count(event: Event, kind: str) -> int:
    return _labelled(_image(event), kind)[1]


def _largest_crowd(event: Event) -> int:
    """Return how many people are in the largest group that stands close together."""
    from skimage.measure import label
    from skimage.morphology import dilation, footprint_rectangle

    people, count = _labelled(_image(event), "person")
    if not count:
        return 0
    groups: Any = label(dilation((people > 0).astype(np.uint8), footprint_rectangle((9, 9), decomposition="separable")))
    members = {(int(person), int(group)) for person, group in zip(people[people > 0], groups[people > 0], strict=True)}
    return int(np.bincount([group for _, group in members]).max())


def _are_close(event: Event, chaser: str, chased: str) -> bool:
    """Return whether a shape of one kind is within four pixels of one of the other kind."""
    from skimage.morphology import dilation, footprint_rectangle

    first, second = _labelled(_image(event), chaser)[0], _labelled(_image(event), chased)[0]
    near = dilation((first > 0).astype(np.uint8), footprint_rectangle((9, 9), decomposition="separable"))
    return bool(((near > 0) & (second > 0)).any())


def camera_operators() -> list[Operator]:
    """Return the operators that look at snapshots, and the spatial ones."""
    reads = ("image:text",)

    def check_kinds(*kinds: object) -> None:
        for kind in kinds:
            if kind not in COLOURS:
                raise BadArgument(f"cameras see no {kind!r}; they see: {', '.join(COLOURS)}")

    def check_traffic(pattern: object) -> None:
        if pattern not in ("congestion", "accident"):
            raise BadArgument(f"there is no traffic pattern {pattern!r}; there are: congestion, accident")

    def counting(name: str, kind: str) -> Operator:
        def count(event: Event) -> int:
            return _count(event, kind)

        count.__doc__ = f"How many of this kind are in the picture: {kind}."
        return operator(name=name, cost=0.003, reads=reads, outputs={"count": int})(count)

    @operator(name="mobPattern", cost=0.01, reads=reads, outputs={"people": int})
    def mob_pattern(event: Event) -> int | None:
        """Whether ten or more people stand close together, and how many."""
        people = _largest_crowd(event)
        return people if people >= MOB else None

    @operator(name="chasePattern", cost=0.008, reads=reads, check=check_kinds)
    def chase_pattern(event: Event, chaser: str, chased: str) -> bool:
        """Whether something of one kind is close behind something of another kind."""
        return _are_close(event, chaser, chased)

    @operator(name="trafficPattern", cost=0.004, reads=reads, check=check_traffic)
    def traffic_pattern(event: Event, pattern: str) -> bool:
        """Whether there is congestion (twelve cars or more), or an accident."""
        return _count(event, "anyCar") >= CONGESTION if pattern == "congestion" else _count(event, "accident") > 0

    counts = {
        "pedestrianCount": "person",
        "policeCarCount": "policeCar",
        "tourBoatCount": "tourBoat",
        "coastGuardBoatCount": "coastGuardBoat",
    }
    looking = [mob_pattern, chase_pattern, traffic_pattern, *(counting(*pair) for pair in counts.items())]
    return [*spatial_operators(), *looking]


def camera_registry() -> Registry:
    """Return a registry of the cameras' operators."""
    return Registry(camera_operators())
