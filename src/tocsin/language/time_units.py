"""Units of durations, as `within 2 hours of` and time arithmetic use them."""

from __future__ import annotations

SECONDS = {"seconds": 1, "minutes": 60, "hours": 3_600, "days": 86_400, "weeks": 604_800}
MICROSECONDS = {unit: seconds * 1_000_000 for unit, seconds in SECONDS.items()}
SINGULAR = {unit.removesuffix("s"): unit for unit in SECONDS}
