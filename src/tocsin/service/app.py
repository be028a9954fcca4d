"""The app: routes, the edge around them, and the service inside, from start to end.

app = create_app(read_settings())                          # opens the broker itself
app = create_app(ServiceSettings(), broker=broker)         # over one that is open: for tests, and for embedding

Running the service: uvicorn around the app, the first admin's token, and an orderly end.

On SIGTERM or SIGINT streams are ended first, since the server waits for its connections; then requests under way are
answered, then the broker is closed. What was acknowledged needs none of that.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from tocsin.broker import Broker
from tocsin.errors import TocsinError
from tocsin.service import problems, routing
from tocsin.service.edge import Edge, Metrics, configure_logs, guarded
from tocsin.service.identities import Identities
from tocsin.service.openapi import openapi_document
from tocsin.service.pipeline_watch import PipelineWatch, Watch
from tocsin.service.routes import API_ROUTES
from tocsin.service.routes.operations import start_daemon
from tocsin.service.service import KernelsWarmed, Service, open_broker
from tocsin.service.settings import ServiceSettings
from tocsin.service.web.builder import Overlaps
from tocsin.service.web.dashboard_pages import History
from tocsin.service.web.routes import RULES, page_routes
from tocsin.service.web.visit import not_found


class ServiceApp(Starlette):
    """The service as an ASGI app, which can say what it is."""

    @cached_property
    def document(self) -> dict[str, Any]:
        """The OpenAPI document."""
        return openapi_document(self.routes)


def create_app(settings: ServiceSettings, *, broker: Broker | None = None, pipeline: Watch | None = None) -> ServiceApp:
    """Return the service as an ASGI app; `pipeline` is one that the caller runs over the same store."""
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        opened: Broker = broker if broker is not None else await asyncio.to_thread(open_broker, settings)
        service = Service(settings, opened, metrics)
        app.state.service = service
        watch = PipelineWatch(settings, metrics) if settings.pipeline == "spark" and pipeline is None else None
        app.state.pipeline = watch or pipeline
        service.start()
        daemon = await start_daemon(service)
        if watch is not None:
            watch.start()
        app.state.overlaps = Overlaps(opened)
        app.state.history = history = History(service, app.state.pipeline)
        history.start()
        try:
            yield
        finally:
            await history.close()
            if daemon is not None:
                await daemon.stop()
            await service.close()
            if watch is not None:
                await watch.close()
            if broker is None:
                await asyncio.to_thread(opened.close)

    routes = [*API_ROUTES, *page_routes()]
    routing.check_complete(routes, RULES)
    edge = Middleware(Edge, settings=settings, metrics=metrics)
    handlers = {**problems.HANDLERS, HTTPException: not_found}
    app = ServiceApp(routes=routes, lifespan=lifespan, middleware=[edge], exception_handlers=handlers)
    app.router.redirect_slashes = False
    return app


# Running the service.


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
                    scheme = "https" if self.config.is_ssl else "http"
                    self._tell(f"Tocsin serves {scheme}://{f'[{host}]' if ':' in host else host}:{port}")

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
        "forwarded_allow_ips": settings.proxies, "ssl_certfile": settings.tls_certificate,
        "ssl_keyfile": settings.tls_key,
    }  # fmt: skip
    config = uvicorn.Config(app, **{**given, **more})
    if (tls := settings.tls()) is not None:
        config.ssl_context_factory = lambda *_: tls  # at least TLS 1.2, on both ports
    return config


def run(settings: ServiceSettings, *, tell: Tell, warn: Tell) -> None:
    """Serve until told to stop."""
    if settings.xml_port is not None:
        import tocsin.xml  # noqa: F401  says what to install before anything is begun
    configure_logs(settings.log_level)
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
