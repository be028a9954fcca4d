"""Backfills: a draft held against the whole log, in the background, while its author goes on writing.

A job looks at a stretch of the log at a time (drafts.py) and counts; the first matches are kept as examples. Jobs belong
to the account that started them, live in this process, and are forgotten with it: starting one again costs nothing but
time. For logs that are too long for one process there is pipeline/backfill.py, on Spark.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Any, Literal

import structlog

from tocsin.broker import Broker
from tocsin.broker.expressions import Expression
from tocsin.errors import TocsinError
from tocsin.service import drafts
from tocsin.service.principal import Principal
from tocsin.service.refusals import NotFound, Throttled

log = structlog.get_logger("tocsin.service")
_RUNNING = 2  # of one account at a time
_KEPT = 20  # of one account
_EXAMPLES = 100
_STRETCH = 1000  # matches taken from the log at a time


@dataclass
class Backfill:
    """One job, as far as it has come."""

    id: int
    state: Literal["running", "done", "failed"] = "running"
    looked_at: int = 0
    matched: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)
    reason: str | None = None
    task: asyncio.Task[None] | None = None

    def document(self) -> dict[str, Any]:
        """Return the job as JSON has it."""
        return {
            "id": self.id,
            "state": self.state,
            "looked_at": self.looked_at,
            "matched": self.matched,
            "examples": self.examples,
            "reason": self.reason,
        }


class Backfills:
    """The jobs of a service."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._ids = itertools.count(1)
        self._jobs: dict[int, dict[int, Backfill]] = {}  # by account

    async def start(self, principal: Principal, expression: Expression) -> Backfill:
        """Begin a job; raises a LanguageError, or Throttled where the account has enough under way."""
        await asyncio.to_thread(self._broker.prepare, expression)
        jobs = self._jobs.setdefault(principal.number, {})
        if sum(job.state == "running" for job in jobs.values()) >= _RUNNING:
            raise Throttled(f"{_RUNNING} backfills at a time are the most", 5.0)
        while len(jobs) >= _KEPT:
            del jobs[next(id for id, job in jobs.items() if job.state != "running")]
        job = Backfill(next(self._ids))
        jobs[job.id] = job
        job.task = asyncio.create_task(self._run(job, expression), name=f"tocsin-backfill-{job.id}")
        return job

    def find(self, principal: Principal, id: int) -> Backfill:
        """Return a job of the asker; raises NotFound, also where it is another's."""
        found = self._jobs.get(principal.number, {}).get(id)
        if found is None:
            raise NotFound(f"there is no backfill {id}")
        return found

    async def settle(self) -> None:
        """Wait for what is under way."""
        await asyncio.gather(*self._tasks(), return_exceptions=True)

    async def close(self) -> None:
        """Break off what is under way."""
        for task in self._tasks():
            task.cancel()
        await self.settle()

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [job.task for jobs in self._jobs.values() for job in jobs.values() if job.task is not None]

    async def _run(self, job: Backfill, expression: Expression) -> None:
        after: str | None = "0"
        try:
            while after is not None:
                found = await asyncio.to_thread(drafts.backfill, self._broker, expression, int(after), _STRETCH)
                job.looked_at += found["looked_at"]
                job.matched += len(found["items"])
                job.examples += found["items"][: _EXAMPLES - len(job.examples)]
                after = found["after"]
        except TocsinError as error:
            job.state, job.reason = "failed", str(error)[:1000]
            log.warning("a backfill failed", error=type(error).__name__)
        else:
            job.state = "done"
