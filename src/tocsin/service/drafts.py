"""Drafts: what a subscription would do, before it is one. Plans, volume estimates, a look back over the log.

Backfills: a draft held against the whole log, in the background, while its author goes on writing.

A job looks at a stretch of the log at a time and counts; the first matches are kept as examples. Jobs belong
to the account that started them, live in this process, and are forgotten with it: starting one again costs nothing but
time. For logs that are too long for one process there is pipeline/backfill.py, on Spark.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Sequence

import msgspec
import structlog

from tocsin.broker import Broker
from tocsin.broker.admission import OfferAdmission, admit_stored, read_stored
from tocsin.broker.expressions import Expression
from tocsin.broker.inquiries import EventSample, Trial
from tocsin.compile.analysis import conjunction_text, warnings_of
from tocsin.documents.subscriptions import BackfilledEvent, BackfillJob, BackfillPage, Estimate, Plan
from tocsin.errors import TocsinError
from tocsin.language import from_json
from tocsin.language.documents import decode
from tocsin.schema import Event, arrived
from tocsin.service.problems import BadRequest, NotFound, Throttled
from tocsin.service.routing import Principal
from tocsin.store.events import StoredEvent, documents_between, id_text, read_events

_LOOKED_AT = 20_000  # events of the log that one request looks at
_FRESH_SECONDS = 5.0


def plan(broker: Broker, expression: Expression) -> Plan:
    """Return how an expression is understood: its text, its conjunctions, and what its author should know."""
    found = broker.prepare(expression)
    texts = [conjunction_text(one) for one in found.form.conjunctions]
    return Plan(found.text, list(warnings_of(found.form)), texts)


class LogStretch:
    """Events of the log, in order, and what each was: an offer has its rules and what it computes."""

    def __init__(self, broker: Broker, after_seq: int, limit: int) -> None:
        with broker.store.read() as connection:
            self.stored: Sequence[StoredEvent] = read_events(connection, after_seq, limit)
            ends = (self.stored[0].seq, self.stored[-1].seq) if self.stored else (0, 0)
            self._documents = documents_between(connection, *ends)
        self._schema = broker.schema
        self._offers = OfferAdmission(broker.held_offers.programs, broker.operators)

    def read(self, one: StoredEvent) -> Event:
        """Return an event of the stretch; of an offer whose program is gone, its own attributes."""
        found = admit_stored(self._schema, one.body, self._documents.get(one.seq), self._offers)
        return arrived(found, one.arrival_us)


def backfill(broker: Broker, expression: Expression, after_seq: int, limit: int) -> BackfillPage:
    """Return the stored events that an expression matches, in order, after a seq; looks at a bounded stretch of the log.

    `after` of the answer goes on from there; None where the end of the log was reached.
    """
    stretch = LogStretch(broker, after_seq, _LOOKED_AT)
    items: list[BackfilledEvent] = []
    looked, after = 0, after_seq
    trial = Trial(broker.prepare(expression), broker.operators)
    for one in stretch.stored:
        if trial.spent:
            break
        looked, after = looked + 1, one.seq
        if trial.holds(stretch.read(one)):
            items.append(BackfilledEvent(one.seq, id_text(one.event_id), read_stored(one.body)))
            if len(items) >= limit:
                break
    at_end = looked == len(stretch.stored) < _LOOKED_AT
    return BackfillPage(items, looked, None if at_end else str(after))


def read_after(after: str | None) -> int:
    """Return the seq that an answer's `after` stands for; raises BadRequest."""
    if after is None:
        return 0
    if not (after.isascii() and after.isdigit() and len(after) < 19):
        raise BadRequest("after: use the one of the last answer")
    return int(after)


class Samples:
    """Samples of the newest events, by size, kept for a moment: estimates come in bursts while somebody types."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._guard = threading.Lock()
        self._kept: dict[int, tuple[float, int, EventSample]] = {}

    def estimate(self, expression: Expression, size: int) -> Estimate:
        """Return how many events a day an expression would match; raises a LanguageError."""
        found = self._broker.prepare(expression)
        with self._guard:
            sample = self._sample(size)
            return sample.estimate(from_json(decode(found.tree)), self._broker.operators)

    def _sample(self, size: int) -> EventSample:
        now, version = time.monotonic(), self._broker.schema.version
        kept = self._kept.get(size)
        if kept is None or now - kept[0] > _FRESH_SECONDS or kept[1] != version:
            self._kept.clear()
            sample = EventSample.of_store(
                self._broker.store, size, programs=self._broker.held_offers.programs, operators=self._broker.operators
            )
            self._kept[size] = (now, version, sample)
        return self._kept[size][2]


# Backfills.


log = structlog.get_logger("tocsin.service")
_RUNNING = 2  # of one account at a time
_KEPT = 20  # of one account
_EXAMPLES = 100
_STRETCH = 1000  # matches taken from the log at a time


class Backfills:
    """The jobs of a service."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._ids = itertools.count(1)
        self._jobs: dict[int, dict[int, BackfillJob]] = {}  # by account
        self._tasks: dict[int, asyncio.Task[None]] = {}  # by job

    async def start(self, principal: Principal, expression: Expression) -> BackfillJob:
        """Begin a job; raises a LanguageError, or Throttled where the account has enough under way."""
        await asyncio.to_thread(self._broker.prepare, expression)
        jobs = self._jobs.setdefault(principal.number, {})
        if sum(job.state == "running" for job in jobs.values()) >= _RUNNING:
            raise Throttled(f"{_RUNNING} backfills at a time are the most", 5.0)
        while len(jobs) >= _KEPT:
            del jobs[next(id for id, job in jobs.items() if job.state != "running")]
        id = next(self._ids)
        job = jobs[id] = BackfillJob(id, "running", 0, 0, [], None)
        task = asyncio.create_task(self._run(jobs, job, expression), name=f"tocsin-backfill-{id}")
        self._tasks[id] = task
        task.add_done_callback(lambda _: self._tasks.pop(id))
        return job

    def find(self, principal: Principal, id: int) -> BackfillJob:
        """Return a job of the asker, as far as it has come; raises NotFound, also where it is another's."""
        found = self._jobs.get(principal.number, {}).get(id)
        if found is None:
            raise NotFound(f"there is no backfill {id}")
        return found

    async def settle(self) -> None:
        """Wait for what is under way."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def close(self) -> None:
        """Break off what is under way."""
        for task in self._tasks.values():
            task.cancel()
        await self.settle()

    async def _run(self, jobs: dict[int, BackfillJob], job: BackfillJob, expression: Expression) -> None:
        after: str | None = "0"
        try:
            while after is not None:
                found = await asyncio.to_thread(backfill, self._broker, expression, int(after), _STRETCH)
                job = jobs[job.id] = msgspec.structs.replace(
                    job,
                    looked_at=job.looked_at + found.looked_at,
                    matched=job.matched + len(found.items),
                    examples=[*job.examples, *found.items[: _EXAMPLES - len(job.examples)]],
                )
                after = found.after
        except TocsinError as error:
            jobs[job.id] = msgspec.structs.replace(job, state="failed", reason=str(error)[:1000])
            log.warning("a backfill failed", error=type(error).__name__)
        else:
            jobs[job.id] = msgspec.structs.replace(job, state="done")
