"""`tocsin serve --pipeline spark`: started, watched, started again after a kill, and gone when the service is."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.live import wait_until
from tests.service.test_killed import ITEM, PATIENT, TOKEN, Serving
from tocsin.client import Client

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("TOCSIN_SLOW" not in os.environ, reason="starts Spark three times; set TOCSIN_SLOW=1"),
    pytest.mark.timeout(600),
]
START_SECONDS = 180.0


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    found = Serving(str(tmp_path / "store.db"), TOCSIN_PIPELINE="spark", TOCSIN_ENGINE="columnar")
    found.start()
    yield found
    found.kill()


def readiness(serving: Serving) -> dict[str, Any]:
    answer = httpx.get(f"{serving.url}/readyz", timeout=10)
    document: dict[str, Any] = answer.json()
    assert (answer.status_code == 200) == (document["status"] == "ready")
    return document


def wait_until_ready(serving: Serving) -> None:
    wait_until(lambda: readiness(serving)["status"] == "ready", "the pipeline is up", START_SECONDS)


def children(pid: int) -> list[int]:
    """Return the processes that a process has started, from any of its threads."""
    return [int(one) for path in Path(f"/proc/{pid}/task").glob("*/children") for one in path.read_text().split()]


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False


class Reader:
    """Listens in a thread, across restarts, and writes down what it is told."""

    def __init__(self, url: str) -> None:
        self.told: list[str] = []
        self._client = Client(url, TOKEN, retries=PATIENT)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        for notification in self._client.listen(start="oldest"):
            self.told.append(notification.event["item"])

    def wait_for(self, items: list[str]) -> None:
        wait_until(lambda: set(items) <= set(self.told), f"{items} are told", START_SECONDS)


def publish(serving: Serving, items: list[str]) -> None:
    with Client(serving.url, TOKEN, retries=PATIENT) as client:
        client.publish_all([{**ITEM, "item": item} for item in items])


def test_pipeline_is_started_watched_and_killed_without_loss(serving: Serving) -> None:
    wait_until_ready(serving)
    with Client(serving.url, TOKEN) as client:
        client.subscribe("question where title = 'a'", lease_seconds=86_400)
    reader = Reader(serving.url)
    first, second, third = ([f"{lot}-{at}" for at in range(20)] for lot in "abc")
    publish(serving, first)
    reader.wait_for(first)

    assert serving.process is not None
    (pipeline,) = children(serving.process.pid)
    os.kill(pipeline, signal.SIGKILL)
    wait_until(lambda: readiness(serving)["status"] == "not ready", "readiness shows that it is gone")
    publish(serving, second)  # acknowledged all the same
    wait_until_ready(serving)
    assert readiness(serving)["pipeline"]["starts"] == 2
    reader.wait_for(second)

    (pipeline,) = children(serving.process.pid)
    serving.kill()
    wait_until(lambda: not is_alive(pipeline), "the pipeline ends with the service", 60)
    serving.start()
    publish(serving, third)
    wait_until_ready(serving)
    reader.wait_for(third)
    assert Counter(reader.told) == Counter([*first, *second, *third])


def test_offers_are_matched_by_the_pipeline_with_the_services_programs(tmp_path: Path) -> None:
    (tmp_path / "programs.toml").write_text(
        '[programs.price]\nversion = 1\nparameters = { age = "int" }\nreturns = "float"\nexpression = "10 * age"\n'
    )
    serving = Serving(
        str(tmp_path / "market.db"),
        TOCSIN_PIPELINE="spark",
        TOCSIN_ENGINE="columnar",
        TOCSIN_SCHEMA="insurance",
        TOCSIN_PROGRAMS=str(tmp_path / "programs.toml"),
    )
    serving.start()
    try:
        wait_until_ready(serving)
        with Client(serving.url, TOKEN, retries=PATIENT) as client:
            client.subscribe("insurance where price < 500 with name = 'Bob', age = 48, years_ncd = 8")
            client.subscribe("insurance where price < 500 with name = 'Amy', age = 51, years_ncd = 8")
            offer = {
                "event": {"event_type": "insurance", "name": "B", "cover": "Full"},
                "rules": ["age > 40"],
                "dynamic": {"price": "program('price', age)"},
            }
            assert client.publish(offer).accepted
            wait_until(lambda: len(client.notifications().items) == 1, "the offer is matched", START_SECONDS)
            (told,) = client.notifications().items
            assert (told.event["price"], told.computed) == (480.0, ("price",))
    finally:
        serving.kill()
