"""The whole service, killed with -9 under load: nothing acknowledged is lost, nothing is told twice, readers resume.

One cycle by default, TOCSIN_KILLS=200 for many, of which `make torture` says what came of them. Clients publish,
subscribe, unsubscribe and listen; they are outside of what is killed, and what they were told counts.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.databases import new_database, start_postgres
from tests.service.live import wait_until
from tocsin.client import Client
from tocsin.client.transport import Retries, ServiceRefused, ServiceUnreachable
from tocsin.store import Store
from tocsin.store.seals import check

SERVE = "from tocsin.cli import main; main()"
TOKEN = "toc_the-token-of-the-killed-service-0123456789"  # noqa: S105 - of a test
READERS = 3
KILLS = int(os.environ.get("TOCSIN_KILLS", "1"))
PATIENT = Retries(attempts=200, first_seconds=0.05, longest_seconds=0.5)
ITEM = {"event_type": "question", "title": "a", "question": "b", "at": "2027-01-01T00:00:00Z"}


class Serving:
    """`tocsin serve` as a process that is killed and started again on the same port."""

    def __init__(self, place: str, **settings: str) -> None:
        self._place, self._settings, self._port = place, settings, 0
        self.process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        others = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
        environment = {
            **others, "TOCSIN_STORE": self._place, "TOCSIN_PORT": str(self._port), "TOCSIN_ADMIN_TOKEN": TOKEN,
            "TOCSIN_ENGINE": "definition", "TOCSIN_LOG_LEVEL": "error", **self._settings,
        }  # fmt: skip
        command = [sys.executable, "-c", SERVE, "serve"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "Tocsin serves" in line, line
        self._port = int(line.rsplit(":", 1)[1])

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Load:
    """Publishers and a listener, who write down what they were told."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self.stop = threading.Event()
        self.published = threading.Event()  # nothing more will be acknowledged
        self.acknowledged: dict[str, int] = {}  # item -> seq
        self.told: list[list[tuple[str, str]]] = [[] for _ in range(READERS)]  # (notification, item), in order
        self.held: set[int] = set()  # subscriptions that were acknowledged, and not ended since
        self.ended: set[int] = set()
        self.problems: list[str] = []
        self._threads = [threading.Thread(target=self._publish, args=(number,), daemon=True) for number in range(2)]
        self._threads.append(threading.Thread(target=self._change, daemon=True))
        self._threads += [threading.Thread(target=self._listen, args=(one,), daemon=True) for one in self.told]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def _publish(self, number: int) -> None:
        with Client(self._serving.url, TOKEN, retries=PATIENT) as client:
            count = 0
            while not self.stop.is_set():
                items = [f"{number}-{count}-{at}" for at in range(random.Random(count).choice([1, 1, 5]))]
                count += 1
                try:
                    found = client.publish_all([{**ITEM, "item": item} for item in items])
                except (ServiceRefused, ServiceUnreachable) as error:
                    self.problems.append(f"publishing: {error}")
                    return
                self.acknowledged |= {item: one.seq for item, one in zip(items, found.items, strict=True)}

    def _change(self) -> None:
        """Subscribe and unsubscribe, over and over."""
        with Client(self._serving.url, TOKEN, retries=PATIENT) as client:
            for count in itertools.count():
                if self.stop.is_set():
                    return
                try:
                    self.held.add(client.subscribe(f"question where title = 'none {count}'", lease_seconds=86_400).id)
                    if count % 2:
                        chosen = min(self.held)
                        client.unsubscribe(chosen)
                        self.held.remove(chosen)
                        self.ended.add(chosen)
                except (ServiceRefused, ServiceUnreachable) as error:
                    self.problems.append(f"changing: {error}")
                    return

    def _listen(self, told: list[tuple[str, str]]) -> None:
        try:
            with Client(self._serving.url, TOKEN, retries=PATIENT) as client:
                for notification in client.listen(start="oldest"):
                    told.append((notification.id, notification.event["item"]))
                    if self.published.is_set() and self.all_told():
                        return
        except (ServiceRefused, ServiceUnreachable) as error:
            self.problems.append(f"listening: {error}")

    def wait_for(self, count: int) -> None:
        """Return when so many events are acknowledged."""
        wait_until(lambda: len(self.acknowledged) >= count, "publishing goes on", 60)

    def finish(self) -> None:
        self.stop.set()
        for thread in self._threads[:-READERS]:
            thread.join(60)
        self.published.set()
        wait_until(self.all_told, "everything is told", 60)

    def all_told(self) -> bool:
        """Return whether everything acknowledged was told; more may have been: of some the acknowledgement was lost."""
        return all({item for _, item in told} >= set(self.acknowledged) for told in self.told)

    def missing_or_back(self) -> list[int]:
        """Return subscriptions that are not as they were acknowledged: gone, or there again."""
        live, cursor = set(), None
        with Client(self._serving.url, TOKEN, retries=PATIENT) as client:
            while True:
                page = client.subscriptions(cursor=cursor, limit=1000)
                live |= {one.id for one in page.items}
                if (cursor := page.cursor) is None:
                    return sorted((self.held - live) | (self.ended & live))


def torture(place: str, kills: int, seed: int = 1) -> dict[str, Any]:
    """Kill the service again and again under load; return what was found."""
    rng, serving = random.Random(seed), Serving(place)
    serving.start()
    with Client(serving.url, TOKEN, retries=PATIENT) as client:
        client.subscribe("question where title = 'a'", lease_seconds=86_400)
    load = Load(serving)
    load.start()
    slowest = 0.0
    try:
        for _ in range(kills):
            load.wait_for(len(load.acknowledged) + rng.randint(2, 40))
            serving.kill()
            began = time.perf_counter()
            serving.start()
            slowest = max(slowest, time.perf_counter() - began)
        load.finish()
        changed = load.missing_or_back()
    finally:
        serving.kill()
    items = [Counter(item for _, item in told) for told in load.told]
    seqs = [[load.acknowledged[item] for _, item in told if item in load.acknowledged] for told in load.told]
    store = Store.open(place)
    try:
        damage = check(store)
    finally:
        store.close()
    return {
        "acknowledged": len(load.acknowledged),
        "subscribed": len(load.held) + len(load.ended),
        "slowest start": round(slowest, 2),
        "lost": [sorted(set(load.acknowledged) - set(each)) for each in items if set(load.acknowledged) - set(each)],
        "twice": sorted(item for each in items for item, count in each.items() if count > 1),
        "out of order": [pair for each in seqs for pair in itertools.pairwise(each) if pair[0] >= pair[1]],
        "missing or back": changed,
        "problems": load.problems,
        "damage": damage,
    }


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def test_killed_again_and_again_nothing_acknowledged_is_lost_or_told_twice(database: str, tmp_path: Path) -> None:
    place = str(tmp_path / "store.db")
    server = None
    if database == "postgres":
        if "TOCSIN_SLOW" not in os.environ:
            pytest.skip("takes longer; set TOCSIN_SLOW=1")
        server = start_postgres(tmp_path / "pg")
        if isinstance(server, str):
            pytest.skip(f"no PostgreSQL can be started here: {server}")
        place = new_database(server.get_uri())
    try:
        found = torture(place, KILLS)
    finally:
        if server is not None:
            server.cleanup()
    sys.stdout.write(f"{database}, {KILLS} kills: {found}\n")
    assert found.pop("acknowledged") > 0
    assert found.pop("subscribed") > 0
    del found["slowest start"]
    wrong = {name: value for name, value in found.items() if value}
    assert not wrong
