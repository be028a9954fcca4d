"""Raw results: one JSON line per measurement, with the machine and the versions it was taken on."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    cpu = next((line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), platform.machine())
    packages = {name: version(name) for name in ("numpy", "numba", "pyarrow", "msgspec")}
    return {
        "cpu": cpu,
        "cores": len([line for line in _cpuinfo() if line.startswith("processor")]),
        "python": platform.python_version(),
        **packages,
    }


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def store(name: str, figures: dict[str, Any]) -> None:
    """Append one measurement to the results of that name."""
    FOLDER.mkdir(exist_ok=True)
    line = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine(), **figures}
    with (FOLDER / f"{name}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def stored(name: str) -> Iterator[dict[str, Any]]:
    """Yield the measurements of that name, the oldest first."""
    path = FOLDER / f"{name}.jsonl"
    if path.exists():
        for line in path.read_text().splitlines():
            yield json.loads(line)
