"""Running the service: uvicorn around the app, the first admin's token, and an orderly end.

On SIGTERM or SIGINT streams are ended first, since the server waits for its connections; then requests under way are
answered, then the broker is closed. What was acknowledged needs none of that.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn

from tocsin.errors import TocsinError
from tocsin.service import logs
from tocsin.service.app import create_app
from tocsin.service.doors import guarded
from tocsin.service.identities import Identities
from tocsin.service.readiness import KernelsWarmed
from tocsin.service.service import open_broker
from tocsin.service.settings import ServiceSettings

Tell = Callable[[str], None]


class Server(uvicorn.Server):
    """Ends streams as soon as it is told to stop, and says where it listens."""

    def __init__(self, config: uvicorn.Config, app: Any, tell: Tell) -> None:
        super().__init__(config)
        self._app, self._tell = app, tell

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            settle_garbage()
            for server in self.servers:
                for socket in server.sockets:
                    host, port = socket.getsockname()[:2]
                    self._tell(f"Tocsin serves http://{f'[{host}]' if ':' in host else host}:{port}")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        service = getattr(self._app.state, "service", None)
        if service is not None:
            service.stop_soon()
        super().handle_exit(sig, frame)


def settle_garbage() -> None:
    """Let the collector leave alone what is there for good, and come less often: it took a seventh of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def server_config(app: Any, settings: ServiceSettings, **more: Any) -> uvicorn.Config:
    """Return how the app is served: with doors, and believing no proxy but those that are named."""
    given = {
        "host": settings.host, "port": settings.port, "log_config": None, "access_log": False, "lifespan": "on",
        "timeout_graceful_shutdown": max(1, round(settings.shutdown_seconds)), "server_header": False,
        "ws": "websockets-sansio", "ws_max_size": 64 << 10, "backlog": 4096, "limit_concurrency": None,
        "timeout_keep_alive": 30, "http": guarded(settings), "proxy_headers": bool(settings.proxies),
        "forwarded_allow_ips": settings.proxies,
    }  # fmt: skip
    return uvicorn.Config(app, **{**given, **more})


def run(settings: ServiceSettings, *, tell: Tell, warn: Tell) -> None:
    """Serve until told to stop."""
    if settings.xml_port is not None:
        import tocsin.xml  # noqa: F401  says what to install before anything is begun
    logs.configure(settings.log_level)
    os.umask(0o077)  # what is written beside the store says what people ask for
    _announce_admin(settings, tell, warn)
    app = create_app(settings)
    if settings.engine == "columnar" and settings.pipeline == "inline":
        app.state.kernels = kernels = KernelsWarmed()
        kernels.start()
    config = server_config(app, settings)
    server = Server(config, app, tell)
    server.run()
    if not server.started:
        raise TocsinError(f"the service could not be started; is port {settings.port} taken? The log says why")


def _announce_admin(settings: ServiceSettings, tell: Tell, warn: Tell) -> None:
    """Make the first admin where there is none, and print the token, once."""
    if settings.admin_token is not None and len(settings.admin_token) < 24:
        raise TocsinError("TOCSIN_ADMIN_TOKEN has at least 24 characters; leave it out to have one made")
    with open_broker(settings) as broker:
        secret = Identities(broker.store, settings).first_admin()
    if secret is not None:
        tell(f"admin token: {secret}")
        warn("This token is shown once; it is the account `admin`. Make others with POST /v1/tokens.")
