"""Units of durations, as `within 2 hours of` and time arithmetic use them.

Distances and boxes on Earth, as the predicates `within … of` and `in box` mean them.

Earth is a sphere here (off by at most 0.6 % from the ellipsoid); exact distances are for operators to compute.
"""

from __future__ import annotations

import math

from tocsin.language.syntax import Box
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
