"""The edge of the service: half-sent requests, slow bodies, names and proxies that are believed, guesses, files, disks."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.live import serving, wait_until
from tests.service.world import PASSWORD, World, play
from tocsin.errors import StoreFailed
from tocsin.service.service import KernelsWarmed
from tocsin.service.settings import ServiceSettings
from tocsin.store.backup import backup

CLOUDEVENTS = {"content-type": "application/cloudevents-batch+json"}
HALF = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "


def connect(url: str, data: bytes = HALF) -> socket.socket:
    """Return a connection on which something was sent."""
    host, _, port = url.removeprefix("http://").partition(":")
    made = socket.create_connection((host, int(port)), timeout=30)
    made.sendall(data)
    return made


def is_closed(one: socket.socket) -> bool:
    one.settimeout(0.01)
    try:
        return one.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


@contextmanager
def served_with_few_descriptors(folder: Path) -> Iterator[str]:
    """Give the address of a whole service that may open 256 files."""
    command = [
        sys.executable, "-c", "from tocsin.cli import main; main()", "serve", "--store", str(folder / "store.db"),
        "--port", "0",
    ]  # fmt: skip
    few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))  # noqa: E731
    environment = {**os.environ, "TOCSIN_ENGINE": "definition"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, preexec_fn=few  # noqa: PLW1509
    ) as server:  # fmt: skip
        try:
            assert server.stdout is not None
            lines = [server.stdout.readline() for _ in range(2)]
            yield lines[1].removeprefix("Tocsin serves ").strip()
        finally:
            server.terminate()
            assert server.wait(30) in (0, -signal.SIGTERM)


def test_half_sent_requests_do_not_shut_others_out_where_descriptors_are_few(tmp_path: Path) -> None:
    with served_with_few_descriptors(tmp_path) as url, ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(connect(url))
        for _ in range(5):
            assert httpx.get(f"{url}/healthz", timeout=30).status_code == 200
        assert httpx.get(f"{url}/readyz", timeout=30).json()["store"] == "ok"
    assert stat.S_IMODE((tmp_path / "store.db").stat().st_mode) == 0o600


def test_request_whose_headers_do_not_come_is_closed(tmp_path: Path) -> None:
    with (
        serving(tmp_path, header_seconds=0.2) as live,
        connect(live.url, b"") as never,
        connect(live.url) as half,
        connect(live.url, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as asked,
    ):
        assert asked.recv(100).startswith(b"HTTP/1.1 200")
        asked.sendall(HALF)
        for one in (never, half, asked):
            wait_until(lambda one=one: is_closed(one), "it is closed")  # type: ignore[misc]


def test_headers_without_end_are_closed(tmp_path: Path) -> None:
    with serving(tmp_path, header_seconds=600) as live, connect(live.url) as one:
        sent = 0
        try:
            while sent < 10_000_000:
                sent += one.send(b"x" * 10_000)
        except OSError:
            pass
        assert sent < 10_000_000


def test_body_that_does_not_come_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path, body_seconds=0.2) as live:
        head = f"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {live.tokens['ada']}\r\n"
        half = f"{head}Content-Length: 1000\r\nContent-Type: application/json\r\n\r\n{{".encode()
        answer = b""
        with connect(live.url, half) as one:
            while data := one.recv(10_000):
                answer += data
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"/problems/too-slow" in answer


def test_connections_of_one_address_are_bounded_and_the_silent_make_room(tmp_path: Path) -> None:
    with serving(tmp_path, connections=40, connections_per_address=10) as live, ExitStack() as stack:
        silent = [stack.enter_context(connect(live.url)) for _ in range(30)]
        wait_until(lambda: sum(map(is_closed, silent)) >= 20, "those that came first make room")
        assert httpx.get(f"{live.url}/healthz").status_code == 200
        assert sum(map(is_closed, silent)) < 30  # no more than need be


def test_forwarded_addresses_are_believed_of_named_proxies_only(tmp_path: Path) -> None:
    body = {"name": "nobody", "password": "wrong"}
    for proxies, expected in ((None, 429), ("127.0.0.1", 401)):
        folder = tmp_path / str(expected)
        folder.mkdir()
        with serving(folder, logins_per_minute=2, trusted_proxies=proxies) as live:
            codes = [
                httpx.post(
                    f"{live.url}/v1/sessions", json=body, headers={"x-forwarded-for": f"203.0.113.{last}"}
                ).status_code
                for last in range(1, 8)
            ]
            assert codes[-1] == expected


def test_request_for_a_name_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path, public_url="https://market.example/") as live:
        port = live.url.rpartition(":")[2]
        for host, status in (
            (f"127.0.0.1:{port}", 200), (f"localhost:{port}", 200), ("[::1]:80", 200), ("market.example", 200),
            (f"evil.example:{port}", 421), ("", 421), ("127.0.0.1.evil.example", 421),
        ):  # fmt: skip
            answer = httpx.get(f"{live.url}/v1/schema", headers={"host": host})
            assert answer.status_code == status, (host, answer.text)
    assert ServiceSettings(hosts="a.example, b.example").allowed_hosts == frozenset({"a.example", "b.example"})
    assert ServiceSettings(host="0.0.0.0").allowed_hosts is None  # noqa: S104


def test_wrong_guesses_of_strangers_do_not_lock_the_owner_out(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        def browser(address: str) -> httpx.AsyncClient:
            transport = httpx.ASGITransport(world.app, client=(address, 1))
            return httpx.AsyncClient(transport=transport, base_url="http://test")

        right, wrong = {"name": "ada", "password": PASSWORD}, {"name": "ada", "password": "a wrong guess"}
        owner, stranger, neighbour = browser("192.0.2.1"), browser("203.0.113.1"), browser("192.0.2.1")
        assert (await owner.post("/v1/sessions", json=right)).status_code == 201
        for guesser in (stranger, neighbour):  # the neighbour has the owner's address
            codes = [(await guesser.post("/v1/sessions", json=wrong)).status_code for _ in range(12)]
            assert codes == [401] * 10 + [429] * 2
        assert (await stranger.post("/v1/sessions", json=right)).status_code == 429
        assert (await browser("198.51.100.7").post("/v1/sessions", json=right)).status_code == 201
        assert (await owner.post("/v1/sessions", json=right)).status_code == 201
        codes = [(await owner.post("/v1/sessions", json=wrong)).status_code for _ in range(12)]
        assert codes == [401] * 10 + [429] * 2  # also with what it keeps
        assert not world.service.identities.knows_device("bob", owner.cookies["tocsin_device"])

    play(tmp_path, scenario, logins_per_minute=10)


def test_not_ready_while_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        assert (await world.client().get("/readyz")).status_code == 200
        monkeypatch.setattr("tocsin.service.service._GOOD_SECONDS", 0.0)

        def full(*_: Any, **__: Any) -> Any:
            raise StoreFailed("the database failed: database or disk is full")

        monkeypatch.setattr(world.broker.store, "write", full)
        refused = await world.client().get("/readyz")
        assert (refused.status_code, refused.json()["store"]) == (503, "failed")
        assert (await world.client().get("/healthz")).status_code == 200
        monkeypatch.undo()
        wait = world.client()
        while (await wait.get("/readyz")).status_code != 200:  # within two seconds
            pass

    play(tmp_path, scenario)


@pytest.mark.parametrize("few", [0, 2])
def test_not_ready_until_the_kernels_are_there_unless_the_definition_answers_for_few_subscriptions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    compiled, broken = threading.Event(), threading.Event()
    monkeypatch.setattr("tocsin.matching.young.MOST_YOUNG", few)
    monkeypatch.setattr("tocsin.matching.matcher.kernels_kept", lambda: False)
    monkeypatch.setattr("tocsin.service.service.kernels_kept", lambda: False)

    def compile_all(*, everything: bool) -> None:
        assert not everything
        compiled.wait()
        if broken.is_set():
            raise RuntimeError("no compiler")

    monkeypatch.setattr("tocsin.matching.warm.warm", compile_all)

    async def scenario(world: World) -> None:
        async def becomes(state: str) -> int:
            while True:
                answer = await world.client().get("/readyz")
                if answer.json()["kernels"] == state:
                    return answer.status_code

        world.app.state.kernels = KernelsWarmed()
        world.app.state.kernels.start()
        for _ in range(few):
            assert await becomes("compiling") == 200
            made = await world.subscribe("ada")
            assert (await world.publish(50))["seq"] in {one["seq"] for one in await world.notifications("ada")}
            assert (await world.client("ada").get(f"/v1/subscriptions/{made['id']}")).status_code == 200
            assert (await world.client().get("/metrics")).status_code == 200
        await world.subscribe("bob")  # one more than the definition answers for: the next event would wait
        assert await becomes("compiling") == 503
        assert (await world.client().get("/healthz")).status_code == 200
        compiled.set()
        assert await becomes("ready") == 200
        broken.set()
        world.app.state.kernels = KernelsWarmed()
        world.app.state.kernels.start()
        assert await becomes("failed") == 503

    play(tmp_path, scenario, engine="columnar")


def test_store_and_backup_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.publish(1)
        backup(str(tmp_path / "store.db"), tmp_path / "copy.db")
        for name in ("store.db", "store.db-wal", "store.db-shm", "copy.db"):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600, name

    before = os.umask(0o022)
    try:
        play(tmp_path, scenario)
    finally:
        os.umask(before)


def test_cloudevent_is_stored_once_in_whatever_batch_it_comes(tmp_path: Path) -> None:
    def cloud(*ids: int, price: int = 0) -> str:
        one = {"specversion": "1.0", "source": "/shop", "type": "car"}
        return json.dumps([{**one, "id": str(id), "data": {"price": price or id}} for id in ids])

    async def scenario(world: World) -> None:
        await world.subscribe("ada", "car where price < 100")
        client = world.client("ada")

        async def send(body: str) -> httpx.Response:
            return await client.post("/v1/events", content=body, headers=CLOUDEVENTS)

        first = (await send(cloud(1, 2))).json()["items"]
        second = (await send(cloud(2, 3, 3))).json()["items"]
        assert second[0] == first[1]
        assert second[1] == second[2]
        single = json.dumps(json.loads(cloud(3))[0])
        again = await client.post(
            "/v1/events", content=single, headers={"content-type": "application/cloudevents+json"}
        )
        assert again.json()["seq"] == second[1]["seq"]
        assert (await send(cloud(4, 1, price=9))).status_code == 409  # another event under the id of the first
        assert [one["event"]["price"] for one in await world.notifications("ada")] == [1, 2, 3]

    play(tmp_path, scenario)


def test_long_keys_of_guests_are_told_apart(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        guest = world.client()
        receipts = []
        for last in ("a", "b", "a"):
            headers = {"idempotency-key": "k" * 199 + last}
            answer = await guest.post("/v1/events", json={"event_type": "car", "price": 1}, headers=headers)
            assert answer.status_code == 201
            receipts.append(answer.json()["seq"])
        assert receipts[0] == receipts[2] != receipts[1]

    play(tmp_path, scenario, guests="publish")


@pytest.mark.parametrize("reveal", [False, True])
def test_dry_run_counts_others_subscriptions_only_where_the_operator_allows_it(tmp_path: Path, reveal: bool) -> None:
    async def scenario(world: World) -> None:
        mine = await world.subscribe("ada", "car where price < 50")
        await world.subscribe("bob", "car where price < 73")
        event = {"event_type": "car", "price": 10}

        async def told(name: str) -> dict[str, Any]:
            answer = await world.client(name).post("/v1/events?dry_run=true", json=event)
            items: list[dict[str, Any]] = answer.json()["items"]
            return items[0]

        assert await told("ada") == {"matches": 2 if reveal else None, "yours": [mine["id"]]}
        assert await told("") == {"matches": 2 if reveal else None, "yours": []}
        assert (await told("admin"))["matches"] == 2

    play(tmp_path, scenario, guests="publish", reveal_counts=reveal)
