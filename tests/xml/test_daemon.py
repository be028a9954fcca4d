"""The daemon over real sockets: the thesis's requests, logging in, its bounds, and stopping."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from tests.xml.test_handle import EVENT, SUBSCRIPTION
from tests.xml.thesis import errors_of, sample, thesis_broker, words_of
from tocsin.broker import Broker
from tocsin.xml.daemon import DaemonLimits, Framer, XmlDaemon, serve_xml
from tocsin.xml.replies import GUEST, Principal

PUBLISHER = Principal(None, frozenset({"publisher"}))


async def authenticate(username: str, password: str, address: str) -> Principal | None:
    """Let sbile in, with the password of appendix B."""
    assert address == "127.0.0.1"
    roles = frozenset({"admin" if username == "root" else "member"})
    return Principal(username, roles) if (username, password) in {("sbile", "sbileman"), ("root", "r")} else None


class Client:
    """A connection to a daemon."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.framer = Framer()
        self.replies: list[bytes] = []

    async def send(self, data: bytes | str) -> None:
        self.writer.write(data.encode() if isinstance(data, str) else data)
        await self.writer.drain()

    async def reply(self) -> etree._Element | None:
        """Return the next reply; None at the end of the connection."""
        while not self.replies:
            data = await asyncio.wait_for(self.reader.read(65536), 30)
            if not data:
                return None
            self.replies += self.framer.feed(data)
        return etree.fromstring(self.replies.pop(0))

    async def ask(self, data: bytes | str) -> etree._Element:
        await self.send(data)
        root = await self.reply()
        assert root is not None
        return root

    def close(self) -> None:
        self.writer.close()


@contextlib.asynccontextmanager
async def listening(broker: Broker, **options: Any) -> AsyncIterator[tuple[XmlDaemon, Callable[[], Awaitable[Client]]]]:
    """Yield a daemon on a free port, and what connects to it."""
    daemon = await serve_xml(broker, **options)
    clients = []

    async def connect() -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", daemon.port))
        clients.append(client)
        return client

    try:
        yield daemon, connect
    finally:
        for client in clients:
            client.close()
        await daemon.stop()


def run(tmp_path: Path, scene: Callable[[Broker], Awaitable[None]]) -> None:
    with thesis_broker(tmp_path) as broker:
        asyncio.run(asyncio.wait_for(scene(broker), 60))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  (it changes in another thread, or when a task ends)
            await asyncio.sleep(0.01)


# --- requests ---------------------------------------------------------------------------------------------------------


def test_a_client_as_in_the_thesis_opens_a_socket_sends_one_request_and_closes_its_side(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        async with listening(broker, guest=Principal(None, frozenset({"publisher", "extender"}))) as (daemon, _):

            def thesis_client(body: bytes) -> bytes:
                with socket.create_connection(("127.0.0.1", daemon.port), timeout=30) as connection:
                    connection.sendall(body)
                    connection.shutdown(socket.SHUT_WR)
                    return b"".join(iter(lambda: connection.recv(65536), b""))

            for name in ("add_domain", "add_event"):
                reply = etree.fromstring(await asyncio.to_thread(thesis_client, sample(name)))
                assert reply.get("status") == "ok"
            assert {"8"} <= set(broker.schema.domains)
            assert "paint" in broker.schema.event_types
            broken = etree.fromstring(await asyncio.to_thread(thesis_client, sample("add_event")[:-5]))
            assert [code for code, _ in errors_of(broken)] == ["malformed"]
            assert await asyncio.to_thread(thesis_client, b"") == b""

    run(tmp_path, scene)


def test_a_client_may_wait_for_each_reply_and_stay(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        async with listening(broker, authenticate=authenticate) as (_, connect):
            client = await connect()
            assert (await client.ask('<USER username="sbile" password="sbileman"/>')).get("id") == "sbile"
            subscribed = await client.ask(SUBSCRIPTION)
            assert subscribed.get("status") == "ok"
            published = await client.ask(EVENT + "\n")
            [told] = broker.notifications("sbile")
            assert (str(told.subscription), str(told.seq)) == (subscribed.get("id"), published.get("seq"))

    run(tmp_path, scene)


def test_requests_sent_together_are_answered_in_their_order(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        async with listening(broker, guest=PUBLISHER) as (_, connect):
            client = await connect()
            await client.send((EVENT + "\n<IESCHEMA/>") * 3)
            tags = [root.tag for _ in range(6) if (root := await client.reply()) is not None]
            assert tags == ["REPLY", "IESCHEMA"] * 3

    run(tmp_path, scene)


def test_a_subscriber_hears_of_an_event_that_another_connection_publishes_byte_by_byte(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        async with listening(broker, guest=PUBLISHER, authenticate=authenticate) as (_, connect):
            subscriber, publisher = await connect(), await connect()
            await subscriber.ask('<USER username="sbile" password="sbileman"/>')
            await subscriber.ask(SUBSCRIPTION)
            for byte in EVENT.encode()[:-1]:
                await publisher.send(bytes([byte]))
            assert (await publisher.ask(">")).get("status") == "ok"
            assert len(broker.notifications("sbile")) == 1

    run(tmp_path, scene)


def test_an_extension_is_in_force_for_every_connection(tmp_path: Path) -> None:
    paint = EVENT.replace('"car"', '"paint"')

    async def scene(broker: Broker) -> None:
        async with listening(broker, guest=PUBLISHER, authenticate=authenticate) as (_, connect):
            one, other = await connect(), await connect()
            assert errors_of(await other.ask(paint))[0] == ("invalid", "2")
            await one.ask('<USER username="root" password="r"/>')
            assert (await one.ask(sample("add_event"))).get("status") == "ok"
            codes = {code for code, _ in errors_of(await other.ask(paint))}
            assert "invalid" not in codes
            assert "missing-mandatory-attribute" in codes

    run(tmp_path, scene)


# --- who it is --------------------------------------------------------------------------------------------------------


def test_a_guest_may_do_only_what_the_daemon_lets_guests_do(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        async with listening(broker, guest=GUEST) as (_, connect):
            client = await connect()
            assert errors_of(await client.ask(EVENT)) == [("login", None)]
            assert errors_of(await client.ask(sample("add_domain"))) == [("login", None)]
            assert (await client.ask("<IESCHEMA/>")).tag == "IESCHEMA"
            assert errors_of(await client.ask('<USER username="sbile" password="sbileman"/>')) == [("forbidden", None)]

    run(tmp_path, scene)


def test_after_some_wrong_passwords_the_connection_is_closed(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        async with listening(broker, authenticate=authenticate) as (_, connect):
            client = await connect()
            await client.ask('<USER username="sbile" password="sbileman"/>')
            for _ in range(3):
                assert errors_of(await client.ask('<USER username="sbile" password="guess"/>')) == [("login", None)]
            assert await client.reply() is None
            client = await connect()
            await client.ask('<USER username="sbile" password="sbileman"/>')
            await client.ask('<USER username="sbile" password="guess"/>')
            assert errors_of(await client.ask(SUBSCRIPTION)) == [("login", None)]

    run(tmp_path, scene)


def test_usernames_can_be_trusted_as_in_the_thesis_on_loopback_only(tmp_path: Path) -> None:
    named = SUBSCRIPTION.replace("<PUBLISH_SUB", '<PUBLISH_SUB id="1.0" username="automatic"', 1)

    async def scene(broker: Broker) -> None:
        async with listening(broker, trust_usernames=True) as (_, connect):
            client = await connect()
            assert (await client.ask(named)).get("status") == "ok"
            assert errors_of(await client.ask(SUBSCRIPTION)) == [("login", None)]
            assert len(broker.subscriptions("automatic")) == 1
        for host in ("0.0.0.0", "example.org", "::"):  # noqa: S104  (refused)
            with pytest.raises(ValueError, match="loopback"):
                await serve_xml(broker, host, trust_usernames=True)

    run(tmp_path, scene)


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_a_document_that_is_too_large_is_refused_while_it_is_still_sent(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        async with listening(broker) as (_, connect):
            client = await connect()
            await client.send(b"<a>" + b"x" * (3 << 20))
            reply = await client.reply()
            assert reply is not None
            assert errors_of(reply) == [("too-large", None)]
            assert await client.reply() is None

    run(tmp_path, scene)


def test_connections_beyond_the_bound_are_told_so(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        limits = DaemonLimits(connections=3, connections_per_address=2)
        async with listening(broker, limits=limits) as (daemon, connect):
            first = [await connect(), await connect()]
            for client in first:
                await client.ask("<IESCHEMA/>")
            third = await connect()
            reply = await third.reply()
            assert reply is not None
            assert errors_of(reply) == [("quota", None)]
            first[0].close()
            third.close()
            await until(lambda: daemon.connections == 1)
            assert (await (await connect()).ask("<IESCHEMA/>")).tag == "IESCHEMA"

    run(tmp_path, scene)


def test_a_client_that_does_not_finish_its_document_is_told_and_let_go(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        async with listening(broker, limits=DaemonLimits(receive_seconds=0.2)) as (daemon, connect):
            slow, silent = await connect(), await connect()
            await slow.send("<PUBLISH_EVENT")
            reply = await slow.reply()
            assert reply is not None
            assert errors_of(reply) == [("timeout", None)]
            assert await slow.reply() is None
            assert await silent.reply() is None
            slow.close()
            silent.close()
            await until(lambda: daemon.connections == 0)

    run(tmp_path, scene)


def test_a_connection_serves_a_bounded_number_of_requests(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        async with listening(broker, limits=DaemonLimits(requests=2)) as (_, connect):
            client = await connect()
            await client.send("<IESCHEMA/>" * 3)
            roots = [await client.reply() for _ in range(4)]
            assert [None if root is None else root.tag for root in roots] == ["IESCHEMA", "IESCHEMA", "REPLY", None]

    run(tmp_path, scene)


def test_what_is_no_xml_gets_a_reply_and_the_connection_ends(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        async with listening(broker) as (_, connect):
            client = await connect()
            assert "does not begin with '<'" in words_of(await client.ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
            assert await client.reply() is None

    run(tmp_path, scene)


def test_a_failure_that_nobody_foresaw_is_logged_and_told_without_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, logger = StringIO(), logging.Logger("of this test")  # noqa: LOG001 - whatever other tests do to the shared ones
    logger.addHandler(logging.StreamHandler(written))
    monkeypatch.setattr("tocsin.xml.daemon.log", logger)

    async def fails(username: str, password: str, address: str) -> Principal | None:
        raise RuntimeError("the secret reason")

    async def scene(broker: Broker) -> None:
        async with listening(broker, authenticate=fails) as (_, connect):
            client = await connect()
            reply = await client.ask('<USER username="sbile" password="hunter2"/>')
            assert errors_of(reply) == [("internal", None)]
            assert "secret" not in words_of(reply)
            assert (await client.ask("<IESCHEMA/>")).tag == "IESCHEMA"

    run(tmp_path, scene)
    assert "the secret reason" in written.getvalue()
    assert "hunter2" not in written.getvalue()


# --- stopping ---------------------------------------------------------------------------------------------------------


def test_stopping_answers_what_is_being_done_and_ends_what_waits(tmp_path: Path) -> None:
    entered, go_on = threading.Event(), threading.Event()

    async def slowly(username: str, password: str, address: str) -> Principal | None:
        entered.set()
        await asyncio.to_thread(go_on.wait, 30)
        return Principal(username, frozenset({"member"}))

    async def scene(broker: Broker) -> None:
        async with listening(broker, authenticate=slowly) as (daemon, connect):
            busy, idle = await connect(), await connect()
            await idle.ask("<IESCHEMA/>")
            await busy.send('<USER username="sbile" password="x"/><IESCHEMA/>')
            await until(entered.is_set)
            stopping = asyncio.create_task(daemon.stop())
            assert await idle.reply() is None
            with pytest.raises(OSError, match=r"refused|Connect call failed"):
                await connect()
            go_on.set()
            reply = await busy.reply()
            assert reply is not None
            assert reply.get("status") == "ok"
            assert await busy.reply() is None
            busy.close()
            await stopping
            assert daemon.connections == 0

    run(tmp_path, scene)
