"""Spatial operators: where an event is, among named regions.

locIn('Bronx')   locWithin('Times Square', 5000)   distanceFrom('Statue of Liberty', ?metres)   nearest(3, ?place)

Regions: named places of a map, from GeoJSON, found by a tree of rectangles and measured on the ellipsoid.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, cached_property
from importlib import resources
from math import cos, radians
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tocsin.errors import BadArgument, FileError, did_you_mean, nearest
from tocsin.operators.operator import OPEN, Open, Operator, operator
from tocsin.schema import Event, Point

if TYPE_CHECKING:
    import pyproj
    import shapely


class Regions:
    """Places by name: areas, lines and points. Points of ours are (latitude, longitude); GeoJSON has it the other way."""

    def __init__(self, shapes: dict[str, Any]) -> None:
        self._shapes = shapes

    @classmethod
    def of_geojson(cls, text: str, path: str = "the map") -> Regions:
        """Return the places of a GeoJSON FeatureCollection: features with a property `name`."""
        import shapely.geometry

        try:
            features = json.loads(text)["features"]
            named = {str(each["properties"]["name"]): shapely.geometry.shape(each["geometry"]) for each in features}
        except (ValueError, KeyError, TypeError) as error:
            message = f"not a GeoJSON FeatureCollection of features that have a property `name`: {error}"
            raise FileError(path, message) from None
        if len(named) < len(features):
            raise FileError(path, "two features have the same name")
        for name, shape in named.items():
            if shape.is_empty or not shape.is_valid:
                raise FileError(path, f"the outline of {name!r} is empty, or crosses itself")
        return cls(named)

    @classmethod
    def of_file(cls, path: Path) -> Regions:
        """Return the places of a GeoJSON file."""
        try:
            return cls.of_geojson(path.read_text(encoding="utf-8"), str(path))
        except OSError as error:
            raise FileError(str(path), error.strerror or str(error)) from None

    @classmethod
    def new_york(cls) -> Regions:
        """Return the packaged map: coarse outlines in New York, good for demonstrations only."""
        file = resources.files("tocsin.operators.builtin").joinpath("new_york.geojson")
        return cls.of_geojson(file.read_text(encoding="utf-8"))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._shapes)

    def check(self, name: object) -> None:
        """Raise BadArgument where there is no such place."""
        if isinstance(name, str) and name not in self._shapes:
            listed = ", ".join(self.names[:8])
            hint = did_you_mean(nearest(name, self._shapes)) or f"; there are: {listed}"
            raise BadArgument(f"there is no place {name!r} on the map{hint}")

    def shape(self, name: str) -> Any:
        """Return the outline of a place."""
        return self._shapes[name]

    def covering(self, point: Point) -> list[str]:
        """Return the areas in which a point lies, borders included."""
        import shapely

        found = self._tree.query(_shapely_point(point), predicate="intersects")
        names = [self.names[at] for at in sorted(found.tolist())]
        return [name for name in names if shapely.get_dimensions(self._shapes[name]) == 2]

    def covers(self, name: str, point: Point) -> bool:
        """Return whether a point lies in a place."""
        return bool(self._shapes[name].intersects(_shapely_point(point)))

    def metres_from(self, name: str, point: Point) -> float:
        """Return how far a point is from a place on the WGS 84 ellipsoid; 0 inside it."""
        shape = self._shapes[name]
        if shape.intersects(_shapely_point(point)):
            return 0.0
        longitude, latitude = _nearest_on(shape, point)
        return float(self._ellipsoid.inv(point[1], point[0], longitude, latitude)[2])

    def nearest(self, point: Point, count: int) -> list[tuple[str, float]]:
        """Return the nearest places with their distances in metres, nearest first."""
        measured = sorted((self.metres_from(name, point), name) for name in self.names)
        return [(name, metres) for metres, name in measured[:count]]

    @cached_property
    def _tree(self) -> shapely.STRtree:
        import shapely

        return shapely.STRtree(list(self._shapes.values()))

    @cached_property
    def _ellipsoid(self) -> pyproj.Geod:
        import pyproj

        return pyproj.Geod(ellps="WGS84")


def _shapely_point(point: Point) -> Any:
    import shapely

    return shapely.Point(point[1], point[0])


def _nearest_on(shape: Any, point: Point) -> tuple[float, float]:
    """Return the (longitude, latitude) of a shape that is nearest to a point.

    Degrees of longitude are shortened as they are at the point's latitude, which is near enough for a map of a city.
    """
    import shapely
    import shapely.ops

    scale = np.array([max(1e-6, cos(radians(point[0]))), 1.0])
    near = shapely.ops.nearest_points(
        shapely.transform(shape, lambda pairs: pairs * scale), shapely.Point(point[1] * scale[0], point[0])
    )[0]
    return near.x / scale[0], near.y


# Spatial operators.


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
