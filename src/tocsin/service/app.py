"""The app: routes, the edge around them, and the service inside, from start to end.

app = create_app(read_settings())                          # opens the broker itself
app = create_app(ServiceSettings(), broker=broker)         # over one that is open: for tests, and for embedding
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from tocsin import __version__
from tocsin.broker import Broker
from tocsin.service import access, problems
from tocsin.service.edge import Edge
from tocsin.service.metrics import Metrics
from tocsin.service.openapi import describe
from tocsin.service.pipeline_watch import PipelineWatch, Watch
from tocsin.service.routes import ROUTERS
from tocsin.service.service import Service, open_broker
from tocsin.service.settings import ServiceSettings
from tocsin.service.shortcut import Shortcut
from tocsin.service.web.history import History
from tocsin.service.web.overlaps import Overlaps
from tocsin.service.web.routes import RULES, page_routes
from tocsin.service.xml_side import start_daemon


def create_app(settings: ServiceSettings, *, broker: Broker | None = None, pipeline: Watch | None = None) -> FastAPI:
    """Return the service as an ASGI app; `pipeline` is one that the caller runs over the same store."""
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
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

    app = FastAPI(
        title="Tocsin",
        version=__version__,
        summary="Who wants to know about this event?",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    for router in ROUTERS:  # flat, so that every route is in one list, which is checked against the table
        app.router.routes.extend(router.routes)
    app.router.routes.extend(page_routes())
    access.check_complete(app.routes, RULES)
    problems.install(app)
    describe(app)
    app.add_middleware(Shortcut, routes=app.routes)
    app.add_middleware(Edge, settings=settings, metrics=metrics)
    return app
