"""A soak: the whole service at a steady rate, with changes, readers and a webhook; what it holds stays level.

TOCSIN_SOAK_SECONDS says how long: a minute in .ci/run, hours by `make torture`. The test is on the slope, not on a time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tests.service.test_killed import ITEM, TOKEN, Serving
from tests.service.test_webhooks import Receiver
from tocsin.client import Client

SECONDS = float(os.environ.get("TOCSIN_SOAK_SECONDS", "45"))
BATCH = 200
MOST_BYTES_PER_EVENT = 60.0
ONCE_BYTES = 4e6  # that allocators and caches may take, however short the run is
READERS = 3


@dataclass
class Sample:
    """What the process holds, after so many events."""

    events: int
    bytes: int
    descriptors: int
    threads: int


@dataclass
class Soak:
    """Publishers, members who come and go, and readers, of one service, until told to stop."""

    url: str
    stop: threading.Event = field(default_factory=threading.Event)
    published: int = 0
    heard: int = 0
    problems: list[str] = field(default_factory=list)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        parts = [self.publish, self.change, *[self.listen] * READERS]
        threads = [threading.Thread(target=self._run, args=(part,), daemon=True) for part in parts]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stop.set()
            for thread in threads:
                thread.join(30)

    def _run(self, part: object) -> None:
        try:
            with Client(self.url, TOKEN) as client:
                part(client)  # type: ignore[operator]
        except Exception as error:  # noqa: BLE001 - told by the test
            if not self.stop.is_set():
                self.problems.append(repr(error))

    def publish(self, client: Client) -> None:
        while not self.stop.is_set():
            first = {**ITEM, "item": f"i{self.published}", "title": "told"}
            rest = [{**ITEM, "item": f"i{self.published + at}"} for at in range(1, BATCH)]
            client.publish_all([first, *rest], receipts=False)
            self.published += BATCH
            self.stop.wait(0.02)

    def change(self, client: Client) -> None:
        held: list[int] = []
        while not self.stop.is_set():
            held.append(client.subscribe(f"question where title = 'none {self.published}'").id)
            if len(held) > 50:
                client.unsubscribe(held.pop(0))

    def listen(self, client: Client) -> None:
        for _ in client.listen():
            self.heard += 1
            if self.stop.is_set():
                return


def sample(pid: int, events: int) -> Sample:
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    threads = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Threads"))
    return Sample(events, resident, len(list(Path(f"/proc/{pid}/fd").iterdir())), int(threads.split()[1]))


def slope(samples: list[Sample]) -> float:
    """Return how many bytes an event leaves behind, by least squares."""
    events = np.array([one.events for one in samples], float)
    return float(np.polyfit(events, np.array([one.bytes for one in samples], float), 1)[0])


@pytest.mark.slow
@pytest.mark.skipif("TOCSIN_SLOW" not in os.environ, reason="takes longer; set TOCSIN_SLOW=1")
@pytest.mark.timeout(int(SECONDS) + 300)
def test_memory_descriptors_and_threads_stay_level_under_a_steady_load(tmp_path: Path) -> None:
    serving = Serving(str(tmp_path / "store.db"), TOCSIN_WEBHOOK_PRIVATE="true")
    serving.start()
    assert serving.process is not None
    pid = serving.process.pid
    try:
        with Receiver().listening() as receiver, Client(serving.url, TOKEN) as client:
            client.subscribe("question where title = 'told'")
            client.add_webhook(receiver.url)
            soak = Soak(serving.url)
            samples: list[Sample] = []
            with soak.going_on():
                ends = time.monotonic() + SECONDS
                while time.monotonic() < ends and not soak.problems:
                    samples.append(sample(pid, soak.published))
                    soak.stop.wait(SECONDS / 100)
            assert soak.problems == []
            assert soak.heard > READERS
            assert receiver.took
    finally:
        serving.kill()
    steady = samples[len(samples) // 3 :]
    said = (
        f"{soak.published} events, {soak.heard} heard: {slope(steady):.1f} bytes an event, {steady[0]} to {steady[-1]}"
    )
    once = ONCE_BYTES / (steady[-1].events - steady[0].events)
    assert slope(steady) < MOST_BYTES_PER_EVENT + once, said
    half = len(steady) // 2
    for name in ("descriptors", "threads"):
        before, after = (max(getattr(one, name) for one in part) for part in (steady[:half], steady[half:]))
        assert after <= before + 5, name
