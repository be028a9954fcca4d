"""Too much, too slow, failing, expired, stopped: refused before anything is acknowledged, and said so."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from tests.service.live import serving, wait_until
from tests.service.test_killed import ITEM, TOKEN, Serving
from tests.service.test_push import open_without_reading, publish, read, subscribe
from tests.service.world import PASSWORD, QUICK, World, play
from tocsin.client import Client
from tocsin.errors import StoreFailed
from tocsin.service.edge import Metrics
from tocsin.service.identities import Identities, Passwords
from tocsin.service.pipeline_watch import PipelineWatch
from tocsin.service.settings import ServiceSettings

CAR = {"event_type": "car", "price": 5}


def test_queue_that_is_full_refuses_with_when_to_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        monkeypatch.setattr(world.broker._queue, "_most_waiting", 0)
        refused = await world.client("ada").post("/v1/events", json=CAR)
        assert (refused.status_code, refused.json()["type"]) == (503, "/problems/overloaded")
        assert int(refused.headers["retry-after"]) >= 1
        monkeypatch.undo()
        await world.publish(5)
        assert (await world.client("ada").post("/v1/drafts/backfill", json={"text": "car"})).json()["looked_at"] == 1

    play(tmp_path, scenario)


def test_store_that_fails_is_a_clean_error_and_nothing_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise StoreFailed("no space left on the disk")

    async def scenario(world: World) -> None:
        await world.subscribe("ada")
        client = world.client("ada")
        ndjson = {"content-type": "application/x-ndjson"}
        with monkeypatch.context() as broken:
            broken.setattr(type(world.broker.store), "write", fail)
            answers = [
                await client.post("/v1/events", json=CAR),
                await client.post("/v1/events", content='{"event_type": "car", "price": 5}', headers=ndjson),
                await client.post("/v1/subscriptions", json={"text": "car"}),
                await client.post("/v1/tokens", json={"name": "t"}),
            ]
        for answer in answers:
            assert (answer.status_code, answer.json()["type"]) == (503, "/problems/store-failed"), answer.text
            assert "retry-after" in answer.headers
        assert await world.notifications("ada") == []
        await world.publish(5)
        assert len(await world.notifications("ada")) == 1

    play(tmp_path, scenario)


def test_stalled_readers_do_not_hold_up_publishing(tmp_path: Path) -> None:
    with serving(tmp_path, stalled_seconds=60) as live:
        subscribe(live)
        stalled = [open_without_reading(live) for _ in range(30)]
        wait_until(lambda: live.service.metrics.streams._value.get() == 30, "they are attached")
        for start in range(0, 200, 50):
            publish(live, range(start, start + 50), brand="x" * 20_000)
        assert [one["event"]["price"] for one in read(live, 200)] == list(range(200))
        for one in stalled:
            one.close()


def test_expired_token_and_session_are_not_good(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        made = await world.client("ada").post("/v1/tokens", json={"name": "brief", "seconds": 1e-6})
        headers = {"authorization": f"Bearer {made.json()['token']}"}
        assert (await world.client().get("/v1/account", headers=headers)).status_code == 401
        brief = replace(world.service.settings, session_seconds=1e-6)
        world.service.identities = Identities(world.broker.store, brief, Passwords(1, QUICK))
        browser = world.client()
        await browser.post("/v1/sessions", json={"name": "ada", "password": PASSWORD})
        assert (await browser.get("/v1/account")).status_code == 401

    play(tmp_path, scenario)


def test_command_of_the_pipeline_shows_no_secret(tmp_path: Path) -> None:
    settings = ServiceSettings(
        store="postgresql://tocsin:s3cret@host/db", pipeline="spark", admin_token=TOKEN,
        pipeline_checkpoint=str(tmp_path / "checkpoint"),
    )  # fmt: skip
    watch = PipelineWatch(settings, Metrics())
    assert "s3cret" not in " ".join(watch._command())
    assert watch._environment()["TOCSIN_STORE"] == settings.store
    assert TOKEN not in watch._environment().values()


def test_attached_process_ends_when_whoever_started_it_is_gone() -> None:
    waits = "from tocsin.service.pipeline_watch import follow; follow(); import threading; threading.Event().wait(60)"
    attached = subprocess.Popen([sys.executable, "-c", waits], stdin=subprocess.PIPE)
    assert attached.stdin is not None
    attached.stdin.close()
    assert attached.wait(30) == -signal.SIGTERM


def test_first_token_is_shown_once(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        assert world.tokens["admin"].startswith("toc_")
        assert world.service.identities.first_admin() is None

    play(tmp_path, scenario)


def test_stopping_is_orderly(tmp_path: Path) -> None:
    found = Serving(str(tmp_path / "store.db"), TOCSIN_SHUTDOWN_SECONDS="5")
    found.start()
    assert found.process is not None
    try:
        with Client(found.url, TOKEN) as client:
            client.subscribe("question where title = 'a'", lease_seconds=600)
            client.publish({**ITEM, "item": "1"})
        headers = {"authorization": f"Bearer {TOKEN}"}
        url = f"{found.url}/v1/notifications/stream?start=oldest"
        with httpx.stream("GET", url, headers=headers, timeout=30) as stream:
            pieces = stream.iter_bytes()
            while b'"item":"1"' not in next(pieces):
                pass
            found.process.send_signal(signal.SIGTERM)
            assert b"".join(pieces).strip(b": ping\n") == b""  # it ends; were it broken off, this would raise
        found.process.wait(30)
    finally:
        found.kill()
