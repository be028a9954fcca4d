"""Raw results: JSON lines, first what was run where, then one row per measurement; reports are made from these alone."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

import tocsin
from tocsin.errors import FileError
from tocsin_lab.verdicts import Sample

PREVIOUS = "previous"  # the folder of the run before, beside the results
PACKAGES = ("numpy", "numba", "duckdb", "psycopg", "pyspark", "pyarrow", "matplotlib")


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One measurement: a figure (unit in its name) of a series at x, a value of every round."""

    experiment: str
    series: str
    x: float
    figure: str
    values: tuple[float, ...]
    counted: bool = False  # the same in every run: bytes, nodes, evaluations; one value is enough
    note: str = ""

    @property
    def sample(self) -> Sample:
        return Sample(self.values, self.counted)

    @property
    def value(self) -> float:
        """The median."""
        return self.sample.interval.middle


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """Where and when an experiment ran."""

    experiment: str
    scale: str
    started: str
    seconds: float
    machine: dict[str, Any]
    versions: dict[str, str]


@dataclass(frozen=True)
class Results:
    """The rows of one experiment's last run."""

    circumstances: Circumstances
    rows: list[Row] = field(default_factory=list)

    def series(self, figure: str) -> list[str]:
        """Return the series that have this figure, in the order of their first row."""
        return list(dict.fromkeys(row.series for row in self.rows if row.figure == figure))

    def samples(self, series: str, figure: str) -> dict[float, Sample]:
        """Return x -> what was measured of a series, ascending."""
        found = {row.x: row.sample for row in self.rows if row.series == series and row.figure == figure}
        return dict(sorted(found.items()))

    def points(self, series: str, figure: str) -> dict[float, float]:
        """Return x -> median of a series, ascending."""
        return {x: sample.interval.middle for x, sample in self.samples(series, figure).items()}


def machine() -> dict[str, Any]:
    """Return what the machine is, and how busy it was with other things."""
    model = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    memory = next((int(line.split()[1]) // 1024 for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_megabytes": memory,
        "system": platform.system(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "tocsin": tocsin.__version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # an optional part that is not here
            found[package] = "not installed"
    return found


def store(folder: Path, experiment: str, scale: str, rows: Iterable[Row]) -> Results:
    """Run the rows' generator to its end and write what it gave to FOLDER/EXPERIMENT.jsonl."""
    started, clock, before = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), time.perf_counter(), machine()
    found = list(rows)
    circumstances = Circumstances(
        experiment=experiment,
        scale=scale,
        started=started,
        seconds=round(time.perf_counter() - clock, 1),
        machine=before,
        versions=versions(),
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{experiment}.jsonl"
    if path.exists():  # the report compares with the run before
        (folder / PREVIOUS).mkdir(exist_ok=True)
        path.replace(folder / PREVIOUS / path.name)
    lines = [msgspec.json.encode(circumstances), *(msgspec.json.encode(row) for row in found)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return Results(circumstances, found)


def load(path: Path) -> Results:
    """Return the results of a file that `store` wrote."""
    try:
        first, *rest = path.read_bytes().splitlines()
        circumstances = msgspec.json.decode(first, type=Circumstances)
        return Results(circumstances, [msgspec.json.decode(line, type=Row) for line in rest])
    except (OSError, ValueError) as error:
        raise FileError(str(path), f"these are no results of the laboratory: {error}") from None


def stored(folder: Path) -> Iterator[Results]:
    """Yield the results of all experiments in a folder."""
    for path in sorted(folder.glob("*.jsonl")):
        yield load(path)
