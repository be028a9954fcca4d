"""One cycle: a process loads the store, is killed, and the store is judged."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.torture.load import run_load
from tests.torture.verdict import Lines, Verdict, judge
from tocsin.store import store

# How often the load may come by before it is killed; the migration has a test of its own.
OFTEN, SELDOM = 40, 3
_OPENING_SECONDS = 60.0
POINTS = {
    point: OFTEN if point.startswith("store") or point == "broker.mid-publish" else SELDOM
    for point in store.POINTS
    if not point.startswith("migration")
}


class Torture:
    """A store that is loaded and killed again and again."""

    def __init__(
        self, place: Callable[[], str], seed: int, engine: str, weaken: Callable[[], None] | None = None
    ) -> None:
        self._new_place, self._engine, self._weaken = place, engine, weaken
        self._rng = random.Random(seed)
        self._place, self._seq, self._rounds = place(), 0, 0
        self.total = Verdict()
        self.killed: dict[str, int] = {}

    def cycle(self) -> Verdict:
        """Load, kill, judge; return the verdict on this cycle."""
        if self._rounds and self._rounds % 10 == 0:  # a new store now and then: the first open is killed too
            self._place, self._seq = self._new_place(), 0
        self._rounds += 1
        points = [point for point in POINTS if self._engine == "columnar" or not point.startswith("index")]
        point = self._rng.choice([None, None, *points])
        lines = self._load_and_kill(point)
        verdict, self._seq = judge(self._place, lines, self._seq, self._engine)
        self.total.add(verdict)
        return verdict

    def _load_and_kill(self, point: str | None) -> Lines:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            self._be_the_load(writer, point)
        os.close(writer)
        patience = self._rng.uniform(0.05, 1.2) if point is None else 5.0
        lines, by_us = _read_until_death(reader, child, patience, while_opening=self._rng.random() < 0.2)
        _, status = os.waitpid(child, 0)
        how = "not" if not os.WIFSIGNALED(status) else "at random" if by_us else f"at {point}"
        self.killed[how] = self.killed.get(how, 0) + 1
        return lines

    def _be_the_load(self, writer: int, point: str | None) -> None:
        """Never returns."""
        try:
            if point is not None:
                store.kill_at(point, self._rng.randint(1, POINTS[point]))
            if self._weaken is not None:
                self._weaken()
            run_load(self._place, writer, f"r{self._rounds}-{self._rng.randrange(10**6)}", self._engine)
        except BaseException:  # noqa: BLE001 - whatever it is, it must not run on as the parent
            import traceback

            traceback.print_exc()
            os._exit(3)
        os._exit(0)


def _read_until_death(reader: int, child: int, patience: float, *, while_opening: bool) -> tuple[Lines, bool]:
    """Return what the process wrote, and whether we killed it because patience ended.

    Patience begins when the store is open, so that a slow machine does not see openings killed only.
    """
    deadline = time.monotonic() + (patience if while_opening else _OPENING_SECONDS)
    data = b""
    killed = opened = False
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        if ready:
            chunk = os.read(reader, 1 << 16)
            if not chunk:
                break
            data += chunk
            if not opened and not while_opening:
                opened, deadline = True, time.monotonic() + patience
        if not killed and time.monotonic() >= deadline:
            os.kill(child, signal.SIGKILL)
            killed, deadline = True, time.monotonic() + 60
    os.close(reader)
    return [json.loads(line) for line in data.split(b"\n") if line], killed


def sqlite_places(folder: Path) -> Callable[[], str]:
    """Return a function that names new SQLite stores."""
    numbers = iter(range(10**6))
    return lambda: str(folder / f"store{next(numbers)}.db")
