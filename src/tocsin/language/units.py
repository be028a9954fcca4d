"""Units of durations, as `within 2 hours of` and time arithmetic use them.

Distances and boxes on Earth, as the predicates `within … of` and `in box` mean them.

Earth is a sphere here (off by at most 0.6 % from the ellipsoid); exact distances are for operators to compute.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tocsin.errors import BadDefinition, did_you_mean, nearest
from tocsin.language.syntax import Box, Polygon
from tocsin.schema import Point

SECONDS = {"seconds": 1, "minutes": 60, "hours": 3_600, "days": 86_400, "weeks": 604_800}
MICROSECONDS = {unit: seconds * 1_000_000 for unit, seconds in SECONDS.items()}


# Distances and boxes on Earth, as the predicates `within … of` and `in box` mean them.


EARTH_RADIUS_METRES = 6_371_008.8
METRES = {"m": 1.0, "km": 1000.0, "mi": 1609.344}


def distance_metres(a: Point, b: Point) -> float:
    """Return the great-circle distance between two points (haversine)."""
    latitude_a, latitude_b = math.radians(a[0]), math.radians(b[0])
    half_latitude = (latitude_b - latitude_a) / 2
    half_longitude = math.radians(b[1] - a[1]) / 2
    chord = math.sin(half_latitude) ** 2 + math.cos(latitude_a) * math.cos(latitude_b) * math.sin(half_longitude) ** 2
    return 2 * EARTH_RADIUS_METRES * math.asin(math.sqrt(min(1.0, chord)))


def in_box(point: Point, box: Box) -> bool:
    """Return whether the point lies in the box, its edges included."""
    latitude, longitude = point
    if not box.south <= latitude <= box.north:
        return False
    if box.west <= box.east:
        return box.west <= longitude <= box.east
    return longitude >= box.west or longitude <= box.east


_SURE = 1e-9  # an area above this, computed with floats of degrees, has the sign that it should have


def in_polygon(point: Point, polygon: Polygon) -> bool:
    """Return whether the point lies in the polygon: within it, on an edge or a corner.

    Edges are straight between latitudes and longitudes. What the edges go round an odd number of times is within. Exact: a
    sign that rounding could change is computed with fractions.
    """
    corners, inside = polygon.corners, False
    latitude, longitude = point
    for (south, west), (north, east) in zip(corners, (*corners[1:], corners[0]), strict=True):
        if south > north:
            south, west, north, east = north, east, south, west
        if not south <= latitude <= north:
            continue
        side = _side(south, west, north, east, latitude, longitude)
        if side == 0 and min(west, east) <= longitude <= max(west, east):
            return True
        if south <= latitude < north and side > 0:  # the edge crosses the parallel to the east of the point
            inside = not inside
    return inside


def _side(south: float, west: float, north: float, east: float, latitude: float, longitude: float) -> float:
    """Return on which side of an edge that goes north a point lies: above 0 to the west, below 0 to the east."""
    area = (north - south) * (west - longitude) + (latitude - south) * (east - west)
    if abs(area) > _SURE:
        return area
    a, b, c, d, y, x = map(Fraction, (south, west, north, east, latitude, longitude))
    exact = (c - a) * (b - x) + (y - a) * (d - b)
    return (exact > 0) - (exact < 0)


def box_of(polygon: Polygon) -> Box:
    """Return the smallest box around a polygon."""
    latitudes, longitudes = zip(*polygon.corners, strict=True)
    return Box(min(latitudes), min(longitudes), max(latitudes), max(longitudes))


def box_around(center: Point, metres: float) -> Box:
    """Return a box that contains every point within `metres` of the center, a little larger than needed."""
    slack = 1e-6  # degrees; far above the rounding of distance_metres, far below what would let many points in
    degrees = math.degrees(metres / EARTH_RADIUS_METRES) + slack
    south, north = center[0] - degrees, center[0] + degrees
    whole_circle = south <= -90 or north >= 90 or metres >= EARTH_RADIUS_METRES * math.pi / 2
    if whole_circle:
        return Box(max(south, -90.0), -180.0, min(north, 90.0), 180.0)
    # The meridians that touch the circle: sin(width) = sin(radius) / cos(latitude).
    ratio = math.sin(math.radians(degrees)) / math.cos(math.radians(center[0]))
    if ratio >= 1:
        return Box(south, -180.0, north, 180.0)
    width = math.degrees(math.asin(ratio)) + slack
    west, east = center[1] - width, center[1] + width
    if west <= -180 and east >= 180:
        return Box(south, -180.0, north, 180.0)
    return Box(south, west + 360 if west < -180 else west, north, east - 360 if east > 180 else east)


# Units of measure, which mappings convert: each is `value * scale + offset` of its base, or `scale / value`.


_UNITS: dict[str, dict[str, tuple[str, str, bool]]] = {
    "length": {
        "m": ("1", "0", False), "km": ("1000", "0", False), "cm": ("0.01", "0", False), "mm": ("0.001", "0", False),
        "mi": ("1609.344", "0", False), "yd": ("0.9144", "0", False), "ft": ("0.3048", "0", False),
        "in": ("0.0254", "0", False), "nmi": ("1852", "0", False),
    },
    "mass": {
        "kg": ("1", "0", False), "g": ("0.001", "0", False), "mg": ("0.000001", "0", False), "t": ("1000", "0", False),
        "lb": ("0.45359237", "0", False), "klb": ("453.59237", "0", False), "oz": ("0.028349523125", "0", False),
    },
    "volume": {
        "l": ("1", "0", False), "ml": ("0.001", "0", False), "cm3": ("0.001", "0", False), "m3": ("1000", "0", False),
        "in3": ("0.016387064", "0", False), "ft3": ("28.316846592", "0", False),
        "gal": ("3.785411784", "0", False), "gal_uk": ("4.54609", "0", False),
    },
    "speed": {
        "m/s": ("1", "0", False), "km/h": ("5/18", "0", False), "mph": ("0.44704", "0", False), "kn": ("463/900", "0", False),
    },
    "temperature": {"K": ("1", "0", False), "C": ("1", "273.15", False), "F": ("5/9", "45967/180", False)},
    "power": {
        "W": ("1", "0", False), "kW": ("1000", "0", False), "hp": ("745.69987158227022", "0", False),
        "PS": ("735.49875", "0", False),
    },
    "fuel": {  # base: kilometres by litre
        "km/l": ("1", "0", False), "mpg": ("1609.344/3785.411784", "0", False),
        "mpg_uk": ("1609.344/4546.09", "0", False), "l/100km": ("100", "0", True),
    },
    "duration": {
        "s": ("1", "0", False), "ms": ("0.001", "0", False), "min": ("60", "0", False), "h": ("3600", "0", False),
        "d": ("86400", "0", False),
    },
}  # fmt: skip
UNIT_DIMENSIONS = {unit: dimension for dimension, units in _UNITS.items() for unit in units}


def conversion(source: str, target: str) -> tuple[float, float, bool]:
    """Return factor, offset and whether it divides: `value * factor + offset`, or `factor / value`; raises BadDefinition."""
    for unit in (source, target):
        if unit not in UNIT_DIMENSIONS:
            hint = did_you_mean(nearest(unit, UNIT_DIMENSIONS))
            raise BadDefinition(f"there is no unit {unit!r}{hint}; there are: {', '.join(UNIT_DIMENSIONS)}")
    if UNIT_DIMENSIONS[source] != UNIT_DIMENSIONS[target]:
        raise BadDefinition(f"{source} is {UNIT_DIMENSIONS[source]}, and {target} is {UNIT_DIMENSIONS[target]}")
    (scale, offset, divides), (other_scale, other_offset, other_divides) = (
        (_exact(each[0]), _exact(each[1]), each[2])
        for each in (_UNITS[UNIT_DIMENSIONS[unit]][unit] for unit in (source, target))
    )
    if divides and other_divides:
        return float(other_scale / scale), 0.0, False
    if divides or other_divides:
        return float(scale / other_scale if divides else other_scale / scale), 0.0, True
    return float(scale / other_scale), float((offset - other_offset) / other_scale), False


def _exact(text: str) -> Fraction:
    above, _, below = text.partition("/")
    return Fraction(above) / Fraction(below or "1")
