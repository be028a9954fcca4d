"""The service: everything that handlers share, made when the app starts and let go of when it ends.

Handlers get it from the request (`service_of`). It opens the broker, wires push to it, and knows in what order to stop.

Readiness: the store has taken a write a moment ago, and nobody who publishes would wait for a compiler. A disk that is full, or
read-only, can still be read. Kernels that are not in the cache take a minute or two; meanwhile the definition answers for
few subscriptions (matching/young.py), and where there are more the service is not ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import structlog

from tocsin.broker import Broker, BrokerSettings
from tocsin.errors import TocsinError
from tocsin.index.jit import kernels_compiled
from tocsin.matching.young import compiling_beside, kernels_kept
from tocsin.schema import Schema
from tocsin.service.courier import Courier
from tocsin.service.drafts import Backfills, Samples
from tocsin.service.edge import Buckets, Metrics, OperatorFigures
from tocsin.service.identities import Identities
from tocsin.service.settings import ServiceSettings
from tocsin.service.streams import Hub
from tocsin.store import Store, accounts
from tocsin.store.store import SECOND

_TOLD_SECONDS = 15.0
_GOOD_SECONDS = 2.0  # whoever asks more often is told what was found: everybody may ask, and a write costs an fsync

log = structlog.get_logger("tocsin.service")


class Readiness:
    """Writes the time into the store, now and then. Used within one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._at = float("-inf")
        self._error: TocsinError | None = None

    async def check(self) -> None:
        """Raise what the store raised when it was last written to."""
        async with self._lock:
            if time.monotonic() - self._at > _GOOD_SECONDS:
                try:
                    await asyncio.to_thread(self._write)
                    self._error = None
                except TocsinError as error:
                    self._error = error
                self._at = time.monotonic()
        if self._error is not None:
            raise self._error

    def _write(self) -> None:
        with self._store.write() as turn:
            turn.keep_time()


class KernelsWarmed:
    """Compiles the kernels, or loads them from the cache, beside the service, which answers by the definition meanwhile."""

    def __init__(self) -> None:
        self._kept = kernels_kept()  # they are only loaded then, which nobody needs to wait for
        self.state: Literal["compiling", "ready", "failed"] = "ready" if self._kept else "compiling"
        self._ended = threading.Event()

    def start(self) -> None:
        if not self._kept:
            compiling_beside.set()
        threading.Thread(target=self._warm, name="tocsin-warm", daemon=True).start()
        threading.Thread(target=self._tell, name="tocsin-warm-told", daemon=True).start()

    @property
    def compiled(self) -> int:
        """How many kernels this process has compiled so far; those of the cache are not among them."""
        return kernels_compiled()

    def _warm(self) -> None:
        from tocsin.matching.warm import warm

        started = time.monotonic()
        try:
            warm(everything=False)
            self.state = "ready"
            log.info("kernels are ready", compiled=self.compiled, seconds=round(time.monotonic() - started, 1))
        except Exception:  # whatever a compiler raises: the service stays up to say so
            log.exception("the kernels cannot be compiled")
            self.state = "failed"
        finally:
            compiling_beside.clear()
            self._ended.set()

    def _tell(self) -> None:
        """Say now and then how far it is."""
        while not self._ended.wait(_TOLD_SECONDS):
            log.info("compiling kernels, once after an install: a minute or two", compiled=self.compiled)


# The service.


_HOUSEKEEPING_SECONDS = 60.0


class Service:
    """A running service over an open broker."""

    def __init__(self, settings: ServiceSettings, broker: Broker, metrics: Metrics) -> None:
        self.settings, self.broker, self.metrics = settings, broker, metrics
        metrics.registry.register(OperatorFigures(broker.operators.runner))
        self.identities = Identities(broker.store, settings)
        self.readiness = Readiness(broker.store)
        self.requests = Buckets()
        self.events = Buckets()
        self.samples = Samples(broker)
        self.backfills = Backfills(broker)
        self.hub = Hub(broker, metrics, settings.poll_seconds)
        self.courier = Courier(broker, settings, metrics)
        self.hub.on_stored(self.courier.wake)
        self.stopping = False
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Start what runs in the background."""
        self._threads = ThreadPoolExecutor(self.settings.threads, thread_name_prefix="tocsin-request")
        asyncio.get_running_loop().set_default_executor(self._threads)
        if self.broker.store.meta().matching == "pipeline":
            self.hub.start_polling()
        self.courier.start()
        self._housekeeping = asyncio.create_task(self._keep_house(), name="tocsin-housekeeping")

    def stop_streams(self) -> None:
        """Let streams end: a server that stops waits for its connections. Readers come back and resume."""
        self.stopping = True
        self.hub.close()

    def stop_soon(self) -> None:
        """Let streams end; may be called from a signal's handler."""
        self._loop.call_soon_threadsafe(self.stop_streams)

    async def _keep_house(self) -> None:
        """Store now and then what need not be stored at once, and remove what is too old."""
        while True:
            await asyncio.sleep(_HOUSEKEEPING_SECONDS)
            try:
                await asyncio.to_thread(self.identities.keep_uses)
                await asyncio.to_thread(self._trim_audit)
            except TocsinError as error:  # the store may be back the next time
                log.warning("housekeeping waits", error=str(error))

    def _trim_audit(self) -> None:
        with self.broker.store.write() as turn:
            accounts.remove_audit_before(turn, turn.now_us - round(self.settings.audit_days * 86400 * SECOND))

    async def close(self) -> None:
        """Stop what runs in the background; the broker is the caller's to close."""
        self.stop_streams()
        self._housekeeping.cancel()
        with contextlib.suppress(TocsinError):
            await asyncio.to_thread(self.identities.keep_uses)
        await self.courier.close()
        await self.backfills.close()
        self.identities.close()

    async def settle(self, subscriptions: Iterable[int]) -> None:
        """Make sure that nothing more is sent for subscriptions that have ended."""
        ended = list(subscriptions)
        self.hub.settle(ended)
        await self.courier.settle(ended)


def open_broker(settings: ServiceSettings) -> Broker:
    """Return a broker over the store of the settings; a new store gets the schema of the settings."""
    from tocsin.store import Store

    with_schema = Store.open(settings.store)
    try:
        is_new = with_schema.meta().schema_version == 0
    finally:
        with_schema.close()
    return Broker.open(
        settings.store,
        schema=load_schema(settings.schema) if is_new else None,
        settings=BrokerSettings(
            subscriptions_per_owner=settings.subscriptions_per_account,
            processor_seconds_per_owner=settings.processor_seconds_per_account,
            subscription_bytes_per_owner=settings.subscription_bytes_per_account,
            reveal_subscribers=settings.reveal_subscribers,
            reveal_rules=settings.reveal_rules,
        ),
        matching="pipeline" if settings.pipeline == "spark" else "inline",
        engine=settings.engine,
        operators=settings.operators,
        programs=settings.programs,
    )


def load_schema(name: str) -> Schema:
    """Return the schema of a file, or the packaged example of that name."""
    from pathlib import Path

    from tocsin.schema import examples, files

    if not Path(name).exists() and name in examples.example_names():
        return examples.load_example(name)
    return files.load(Path(name))
