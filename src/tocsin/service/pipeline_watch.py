"""The watch over the pipeline: starts `tocsin pipeline run` beside the service, and again whenever it ends.

The two share the store and nothing else. The pipeline keeps its figures in a status file, which is read for /readyz and
/metrics. While it is down, events are acknowledged and stored; it works them off when it is back.

A `tocsin` command that ends when whoever started it is gone, however that happened.

The service starts its pipeline so. Standard input is a pipe from the service, and nothing is ever written to it; it ends
when the service does, also by kill -9, when nobody is left to send a signal. Without this a pipeline would go on beside
the one that the next service starts, both over one checkpoint.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Protocol

import msgspec
import structlog

from tocsin.service.edge import Metrics
from tocsin.service.settings import ServiceSettings

COMMAND = (
    sys.executable,
    "-c",
    "from tocsin.service.pipeline_watch import follow; follow(); from tocsin.cli import main; main()",
)
_PATIENCE_SECONDS = 10.0


def follow() -> None:
    """Let this process end when its standard input does."""
    threading.Thread(target=_follow, name="tocsin-attached", daemon=True).start()


def _follow() -> None:
    """Wait for the end of standard input, then ask this process to end, and make it."""
    while os.read(0, 1024):  # not by sys.stdin, whose lock would be held when the interpreter ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(_PATIENCE_SECONDS)
    os._exit(1)


# The watch over the pipeline.


log = structlog.get_logger("tocsin.pipeline")
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 30.0
_STEADY_SECONDS = 60.0  # after which a failure is the first again
_STOP_SECONDS = 20.0


class Watch(Protocol):
    """Whoever knows how the pipeline is doing."""

    @property
    def is_up(self) -> bool: ...

    @property
    def starts(self) -> int: ...

    def figures(self) -> dict[str, Any]: ...


class PipelineWatch:
    """One pipeline process, kept running."""

    def __init__(self, settings: ServiceSettings, metrics: Metrics) -> None:
        self._settings, self._metrics = settings, metrics
        beside = Path(settings.store) if "://" not in settings.store else Path("tocsin")
        self._folder = Path(settings.pipeline_checkpoint or f"{beside}.checkpoint")
        self._status_file = Path(f"{self._folder}.status.json")
        self._process: asyncio.subprocess.Process | None = None
        self._running: asyncio.Task[None] | None = None
        self.starts = 0

    def start(self) -> None:
        """Keep it running in the background."""
        self._running = asyncio.create_task(self._run(), name="tocsin-pipeline-watch")

    @property
    def is_up(self) -> bool:
        """Whether the process runs, and says that its queries do."""
        return (
            self._process is not None and self._process.returncode is None and self.figures().get("state") == "running"
        )

    def figures(self) -> dict[str, Any]:
        """Return what the pipeline last said of itself; nothing, where it has not."""
        try:
            found: dict[str, Any] = msgspec.json.decode(self._status_file.read_bytes())
        except (OSError, msgspec.DecodeError):
            return {}
        return found

    async def close(self) -> None:
        """Stop it: it ends when the batches under way are done."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _run(self) -> None:
        wait = _FIRST_WAIT
        while True:
            started = asyncio.get_running_loop().time()
            self._status_file.unlink(missing_ok=True)
            self._process = await asyncio.create_subprocess_exec(
                *self._command(), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
                env=self._environment(),
            )  # fmt: skip
            self.starts += 1
            self._metrics.pipeline_starts.inc()
            log.info("the pipeline was started", pid=self._process.pid, starts=self.starts)
            code = await self._process.wait()
            log.warning("the pipeline ended", code=code, again_in_seconds=wait)
            steady = asyncio.get_running_loop().time() - started > _STEADY_SECONDS
            await asyncio.sleep(wait)
            wait = _FIRST_WAIT if steady else min(2 * wait, _LONGEST_WAIT)

    def _environment(self) -> dict[str, str]:
        """Return the environment, with the store in it: its address may hold a password, and commands can be seen."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_ADMIN_TOKEN")}
        given = {"TOCSIN_OPERATORS": self._settings.operators, "TOCSIN_PROGRAMS": self._settings.programs}
        named = {name: value for name, value in given.items() if value is not None}
        return inherited | {"TOCSIN_STORE": self._settings.store} | named

    def _command(self) -> list[str]:
        return [
            *COMMAND, "pipeline", "run",
            "--checkpoint", str(self._folder), "--master", self._settings.pipeline_master,
            "--status-file", str(self._status_file), "--json",
        ]  # fmt: skip
