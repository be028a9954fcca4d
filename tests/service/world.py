"""A service to test with: the small market of tests/broker, accounts with tokens, and requests without sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher

from tests.broker.market import SCHEMA
from tocsin.broker import Broker, BrokerSettings
from tocsin.offers import Programs
from tocsin.operators.registry import Registry
from tocsin.schema import Schema
from tocsin.service.app import ServiceApp, create_app
from tocsin.service.identities import Identities, Passwords
from tocsin.service.service import Service
from tocsin.service.settings import ServiceSettings
from tocsin.store.store import MachineClock

PASSWORD = "correct horse battery"  # noqa: S105 - of test accounts
QUICK = PasswordHash((Argon2Hasher(time_cost=1, memory_cost=8, parallelism=1),))


@dataclass
class World:
    """A running service and clients of it, by account name; "" is a guest."""

    app: ServiceApp
    service: Service
    broker: Broker
    tokens: dict[str, str]
    clients: dict[str, httpx.AsyncClient] = field(default_factory=dict)

    def client(self, name: str = "") -> httpx.AsyncClient:
        """Return a client that acts for an account, by its token."""
        if name not in self.clients:
            headers = {"authorization": f"Bearer {self.tokens[name]}"} if name else {}
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            self.clients[name] = httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers)
        return self.clients[name]

    async def subscribe(self, name: str, text: str = "car where price < 100", **more: Any) -> dict[str, Any]:
        """Subscribe, and return the answer."""
        answer = await self.client(name).post("/v1/subscriptions", json={"text": text, **more})
        assert answer.status_code == 201, answer.text
        document: dict[str, Any] = answer.json()
        return document

    async def publish(self, price: float, name: str = "ada", **more: Any) -> dict[str, Any]:
        """Publish a car, and return the receipt."""
        answer = await self.client(name).post("/v1/events", json={"event_type": "car", "price": price, **more})
        assert answer.status_code == 201, answer.text
        document: dict[str, Any] = answer.json()
        return document

    async def notifications(self, name: str, **query: Any) -> list[dict[str, Any]]:
        """Return an account's notifications."""
        answer = await self.client(name).get("/v1/notifications", params={"start": "oldest", **query})
        assert answer.status_code == 200, answer.text
        items: list[dict[str, Any]] = answer.json()["items"]
        return items


@asynccontextmanager
async def running(
    folder: Path | str,
    broker_settings: BrokerSettings | None = None,
    operators: Registry | None = None,
    programs: Programs | None = None,
    schema: Schema = SCHEMA,
    machine: MachineClock | None = None,
    **settings: Any,
) -> AsyncIterator[World]:
    """Give a service with the accounts ada and bob (members) and admin."""
    place = str(folder / "store.db") if isinstance(folder, Path) else folder
    given = ServiceSettings(
        **{
            "engine": "definition",
            "threads": 8,
            "hosts": "*",
            "ping_seconds": 0.2,
            "logins_per_minute": 1000,
            **settings,
        }
    )
    broker = Broker.open(
        place, schema=schema, engine=given.engine, settings=broker_settings, operators=operators, programs=programs,
        machine=machine,
    )  # fmt: skip
    app = create_app(given, broker=broker)
    try:
        async with app.router.lifespan_context(app):
            service: Service = app.state.service
            service.identities.close()
            service.identities = Identities(broker.store, given, Passwords(2, QUICK))
            world = World(app, service, broker, await _accounts(service))
            yield world
            for client in world.clients.values():
                await client.aclose()
    finally:
        broker.close()


async def _accounts(service: Service) -> dict[str, str]:
    identities = service.identities
    tokens = {"admin": identities.first_admin() or ""}
    for name in ("ada", "bob"):
        account = await identities.register(name, PASSWORD, "test")
        logged_in = await identities.log_in(account.name, PASSWORD, "test")
        tokens[name] = (await identities.new_token(logged_in.principal, "test", None)).secret
    return tokens


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine in a loop of its own."""
    import asyncio

    asyncio.run(test)


Scenario = Callable[[World], Coroutine[Any, Any, None]]


def play(folder: Path | str, scenario: Scenario, **settings: Any) -> None:
    """Run a scenario against a fresh service."""

    async def whole() -> None:
        async with running(folder, **settings) as world:
            await scenario(world)

    run(whole())
