"""The front of the demo's house: the service with its pages, over the house's broker, in a thread of this process."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import uvicorn

from tocsin.broker import Broker
from tocsin.errors import TocsinError
from tocsin.pipeline.meter import Meter
from tocsin.service import edge
from tocsin.service.app import create_app
from tocsin.service.identities import Identities
from tocsin.service.settings import ServiceSettings

PORT = 8080
_START_SECONDS, _STOP_SECONDS = 30.0, 10.0


class MeterWatch:
    """The pipeline of this process, as the service wants to know it; unknown until it starts."""

    starts = 1

    def __init__(self) -> None:
        self.meter: Meter | None = None

    @property
    def is_up(self) -> bool:
        """Whether it says that it runs."""
        return self.figures().get("state") == "running"

    def figures(self) -> dict[str, Any]:
        """Return what it says of itself; nothing, before it starts."""
        return {} if self.meter is None else asdict(self.meter.figures())


class Front:
    """A running service over an open broker."""

    def __init__(self, broker: Broker, place: str, port: int | None, pipeline: MeterWatch | None) -> None:
        """Serve on a port; None takes 8080, or any that is free where that is taken. Raises TocsinError."""
        edge.configure_logs("error")
        self._broker = broker
        self._settings = ServiceSettings(store=place, guests="publish", log_level="error", logins_per_minute=100)
        identities = Identities(broker.store, self._settings)
        self.admin_token = identities.first_admin() or ""
        identities.close()
        self._app = create_app(self._settings, broker=broker, pipeline=pipeline)
        listening = _listen(port)
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        config = uvicorn.Config(
            self._app, log_config=None, access_log=False, ws="websockets-sansio", timeout_graceful_shutdown=3,
            server_header=False,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, name="tocsin-front", daemon=True
        )
        self._thread.start()
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise TocsinError("the demo's service did not start")
            time.sleep(0.01)

    def open_account(self, name: str, password: str) -> str:
        """Make an account of a member; return an API token of it."""

        async def make() -> str:
            identities = Identities(self._broker.store, self._settings)
            try:
                await identities.register(name, password, "demo")
                entered = await identities.log_in(name, password, "demo")
                return (await identities.new_token(entered.principal, "demo", None)).secret
            finally:
                identities.close()

        return asyncio.run(make())

    def close(self) -> None:
        """Stop serving; the broker is the caller's."""
        self._app.state.service.stop_soon()
        self._server.should_exit = True
        self._thread.join(_STOP_SECONDS)


def _listen(port: int | None) -> socket.socket:
    wanted = [PORT, 0] if port is None else [port]
    for number in wanted:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind(("127.0.0.1", number))
        except OSError as error:
            made.close()
            if number == wanted[-1]:
                raise TocsinError(f"port {number} cannot be used: {error.strerror}; try another with --port") from None
            continue
        return made
    raise AssertionError("unreachable: the last port either works or raises")


def on_a_desktop(environment: Mapping[str, str], *, is_terminal: bool, platform: str = sys.platform) -> bool:
    """Return whether somebody sits before a screen here: not in CI, not over SSH, not in a pipe."""
    if not is_terminal or "CI" in environment or "SSH_CONNECTION" in environment:
        return False
    return platform in ("darwin", "win32") or bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


def show(url: str) -> bool:
    """Open a page in the browser where there is a desktop; return whether it was."""
    return on_a_desktop(os.environ, is_terminal=sys.stdout.isatty()) and webbrowser.open(url)
