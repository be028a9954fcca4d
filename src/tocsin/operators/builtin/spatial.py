"""Spatial operators: where an event is, among named regions.

locIn('Bronx')   locWithin('Times Square', 5000)   distanceFrom('Statue of Liberty', ?metres)   nearest(3, ?place)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tocsin.errors import BadArgument
from tocsin.operators.builtin.regions import Regions
from tocsin.operators.operator import OPEN, Open, Operator, operator
from tocsin.schema import Event, Point


@cache
def _packaged() -> Regions:
    return Regions.new_york()


def spatial_operators(regions: Regions | None = None, attribute: str = "location") -> list[Operator]:
    """Return the operators over a map; without one, over the packaged outlines of New York.

    An event that is nowhere is in no region, and at no distance. Of an event in several places, each counts.
    """
    reads = (f"{attribute}:point",)

    def places(event: Event) -> Sequence[Point]:
        return event.values.get(attribute, ())  # type: ignore[return-value]

    def map_() -> Regions:
        return regions or _packaged()

    def check(name: object, *_: object) -> None:
        map_().check(name)

    def check_count(count: object) -> None:
        if not isinstance(count, int) or count < 1:
            raise BadArgument(f"asks for the nearest {count} places; it takes 1 or more")

    def in_regions(events: list[Event], region: str | Open) -> list[object]:
        return [_is_in(map_(), places(event), region) for event in events]

    @operator(name="locIn", cost=0.0001, reads=reads, check=check, evaluate_batch=in_regions)
    def loc_in(event: Event, region: str | Open) -> object:
        """Whether the event is in a named region; with a variable, the regions that it is in."""
        return _is_in(map_(), places(event), region)

    @operator(name="locWithin", cost=0.0002, reads=reads, check=check)
    def loc_within(event: Event, place: str, metres: float) -> bool:
        """Whether the event is at most so many metres from a named place."""
        return any(map_().metres_from(place, point) <= metres for point in places(event))

    @operator(name="distanceFrom", cost=0.0002, reads=reads, check=check, outputs={"metres": float})
    def distance_from(event: Event, place: str) -> list[float]:
        """How many metres the event is from a named place, on the ellipsoid; 0 inside it."""
        return [map_().metres_from(place, point) for point in places(event)]

    @operator(name="nearest", cost=0.002, reads=reads, check=check_count, outputs={"place": str})
    def nearest(event: Event, count: int) -> list[str]:
        """The so many named places that are nearest to the event."""
        return [name for point in places(event) for name, _ in map_().nearest(point, count)]

    return [loc_in, loc_within, distance_from, nearest]


def _is_in(regions: Regions, points: Sequence[Point], region: str | Open) -> bool | list[str]:
    if region is OPEN:
        return [name for point in points for name in regions.covering(point)]
    return any(regions.covers(region, point) for point in points)
