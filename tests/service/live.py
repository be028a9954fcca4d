"""A service on a real port, in a thread of this process: for streams, WebSockets and clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from tests.broker.market import SCHEMA
from tests.service.world import PASSWORD, QUICK
from tocsin.broker import Broker
from tocsin.operators.registry import Registry
from tocsin.schema import Schema
from tocsin.service.app import create_app, server_config
from tocsin.service.identities import Identities, Passwords
from tocsin.service.service import Service
from tocsin.service.settings import ServiceSettings


@dataclass
class Live:
    """Where it listens, tokens by account name, and what is inside."""

    url: str
    tokens: dict[str, str]
    service: Service
    broker: Broker

    def http(self, name: str) -> httpx.Client:
        """Return a plain client that acts for an account."""
        return httpx.Client(base_url=self.url, headers={"authorization": f"Bearer {self.tokens[name]}"}, timeout=30)


@contextmanager
def serving(
    folder: Path, schema: Schema = SCHEMA, operators: Registry | None = None, **settings: Any
) -> Iterator[Live]:
    """Give a service with the accounts ada and bob, until the block ends."""
    given = ServiceSettings(**{"engine": "definition", "ping_seconds": 0.3, "webhook_private": True, **settings})
    broker = Broker.open(str(folder / "store.db"), schema=schema, engine="definition", operators=operators)
    app = create_app(given, broker=broker)
    config = server_config(app, given, port=0, timeout_graceful_shutdown=3)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the service starts")
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        tokens = _tokens(broker, given)
        yield Live(f"http://127.0.0.1:{port}", tokens, app.state.service, broker)
    finally:
        app.state.service.stop_soon()
        server.should_exit = True
        thread.join(30)
        broker.close()


def _tokens(broker: Broker, settings: ServiceSettings) -> dict[str, str]:
    async def make() -> dict[str, str]:
        identities = Identities(broker.store, settings, Passwords(1, QUICK))
        made = {}
        for name in ("ada", "bob"):
            await identities.register(name, PASSWORD, "test")
            logged_in = await identities.log_in(name, PASSWORD, "test")
            made[name] = (await identities.new_token(logged_in.principal, "test", None)).secret
        identities.close()
        return made

    return asyncio.run(make())


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Return when the condition holds; fails, saying what was waited for, when it does not in time."""
    done = threading.Event()
    for _ in range(round(seconds / 0.01)):
        if condition():
            return
        done.wait(0.01)
    raise AssertionError(f"waited {seconds:g} seconds in vain: {what}")
