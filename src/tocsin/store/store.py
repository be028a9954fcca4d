"""The store: where everything acknowledged is. One seq orders what happens in it.

    store = Store.open("tocsin.db")
    with store.write() as transaction:
        seq = transaction.draw()
        ...
    with store.read() as connection:
        ...

What is written and read is in the modules beside this one: functions that take the transaction or
the connection. broker/ decides what to write; this package decides nothing.

Write transactions: they take their turn, draw from the one seq, and commit in the order of it.

Whoever writes holds the row `meta` from the first statement to the end of the commit (SQLite: the write lock;
PostgreSQL: FOR UPDATE). So transactions commit one after the other, in the order of the seqs that they draw, and a
reader that sees seq n sees everything up to n: no gap, no late commit. See docs/decisions/0010-one-seq.md.

The store's clock: microseconds since 1970 that never go back, whatever the machine's clock does.

Leases are judged on it. The rules:
  - While a process has the store open, the clock advances with the machine's boot-time clock, which nobody can set; a
    step of the wall clock, either way, changes nothing.
  - The last time used is kept in the store with each commit. Whoever opens the store goes on from there: on the same
    boot by the boot-time clock alone, otherwise from the wall clock, and never from before the last time used.
  - A wall clock more than `limit_seconds` ahead of the last time used is refused (ClockJumped) unless it is accepted:
    it would end every lease at once, and there would be no way back.

Crash points: named places at which a test can have the process killed, as a power cut or an operator would.

`TOCSIN_CRASH_POINT=store.before-commit:3` kills the process (SIGKILL: no clean-up runs) the third time it comes by that
place. Without the variable a crash point does nothing. The names are in POINTS; tests/torture goes through them.
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, Row, Table, insert, select, update

from tocsin.errors import ClockJumped
from tocsin.store import database
from tocsin.store.tables import meta

SECOND = 1_000_000  # microseconds
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class MachineClock(Protocol):
    """What the machine says about time."""

    @property
    def boot(self) -> str:
        """Names this boot of this machine."""

    def wall_us(self) -> int:
        """Return the wall clock, which may be set at any time."""

    def boottime_us(self) -> int:
        """Return the time since boot, sleep included, which only goes forward."""


class SystemClock:
    """The real machine."""

    @cached_property
    def boot(self) -> str:
        try:
            return _BOOT_ID.read_text().strip()
        except OSError:  # not Linux: no other process can share our boot-time clock, so none shares the name
            return uuid.uuid4().hex

    def wall_us(self) -> int:
        return time.time_ns() // 1000

    def boottime_us(self) -> int:
        if hasattr(time, "CLOCK_BOOTTIME"):
            return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
        return time.monotonic_ns() // 1000


@dataclass(frozen=True, slots=True)
class Mark:
    """A time on the store's clock, and the boot and boot time at which it was taken."""

    now_us: int
    boot: str
    boottime_us: int


class StoreClock:
    """The store's clock in this process, going on from a mark in the store."""

    def __init__(
        self, machine: MachineClock, mark: Mark | None, *, limit_seconds: float, accept_jump: bool = False
    ) -> None:
        self._machine = machine
        self._boottime_us = machine.boottime_us()
        self._base_us = self._start(mark, limit_seconds, accept_jump)

    def _start(self, mark: Mark | None, limit_seconds: float, accept_jump: bool) -> int:
        if mark is None:
            return self._machine.wall_us()
        if mark.boot == self._machine.boot and mark.boottime_us <= self._boottime_us:
            return mark.now_us + self._boottime_us - mark.boottime_us
        wall = self._machine.wall_us()
        if wall - mark.now_us > limit_seconds * SECOND and not accept_jump:
            raise ClockJumped((wall - mark.now_us) / SECOND, limit_seconds)
        return max(mark.now_us, wall)

    def mark(self, not_before_us: int = 0) -> Mark:
        """Return the present; another process may have used a later time already, `not_before_us`."""
        boottime = self._machine.boottime_us()
        now = self._base_us + boottime - self._boottime_us
        return Mark(max(now, not_before_us), self._machine.boot, boottime)


# Crash points.


POINTS = (
    "store.after-begin",  # the write lock is held, nothing is written
    "store.before-commit",  # everything is written, nothing is committed
    "store.after-commit",  # committed, not acknowledged
    "broker.after-apply",  # acknowledged to memory, not to the caller
    "broker.mid-publish",  # events are written, their notifications are not
    "broker.mid-sweep",  # the leases that ended are chosen, not marked
    "index.before-manifest",  # segments are on disk, no manifest names them
    "index.after-manifest",  # the new manifest is in place, old files are still there
    "migration.mid-upgrade",  # some tables are made
)


class _Target:
    """The place at which this process is to die, and how often it may still come by."""

    def __init__(self) -> None:
        name, _, count = os.environ.get("TOCSIN_CRASH_POINT", "").partition(":")
        self.name: str | None = name or None
        self.count = int(count or 1)


_target = _Target()


def kill_at(name: str, count: int = 1) -> None:
    """Have this process killed the `count`th time it comes by a crash point from now on."""
    _target.name, _target.count = name, count


def reach(name: str) -> None:
    """Kill this process if it was asked for here; otherwise do nothing."""
    if _target.name is None or _target.name != name:
        return
    _target.count -= 1
    if _target.count <= 0:
        os.kill(os.getpid(), signal.SIGKILL)


# Write transactions.


@dataclass(frozen=True, slots=True)
class Meta:
    """The row `meta`: where the store stands."""

    incarnation: str
    seq: int
    mark: Mark
    schema_version: int
    matching: str
    matched_through: int
    horizon: int


def read_meta(connection: Connection, *, lock: bool = False) -> Meta:
    """Return where the store stands; with `lock`, nobody else moves it until the transaction ends."""
    query = select(meta)
    if lock and connection.dialect.name == "postgresql":
        query = query.with_for_update()
    row: Row[Any] = connection.execute(query).one()
    return Meta(
        incarnation=row.incarnation,
        seq=row.seq,
        mark=Mark(row.now_us, row.boot, row.boottime_us),
        schema_version=row.schema_version,
        matching=row.matching,
        matched_through=row.matched_through,
        horizon=row.horizon,
    )


class Transaction:
    """One turn at writing. All of it happens at one instant, `now_us`, and is committed together or not at all."""

    def __init__(self, connection: Connection, start: Meta, mark: Mark) -> None:
        self.connection = connection
        self.start = start
        self.seq = start.seq
        self._mark = mark
        self._changes: dict[str, Any] = {}

    @property
    def now_us(self) -> int:
        return self._mark.now_us

    @property
    def matched_through(self) -> int:
        """The seq up to which all events have their notifications, as of what this transaction did."""
        return int(self._changes.get("matched_through", self.start.matched_through))

    def draw(self, count: int = 1) -> int:
        """Return the first of `count` new seqs."""
        first = self.seq + 1
        self.seq += count
        return first

    def set_meta(self, **changes: Any) -> None:
        """Change where the store stands, when the transaction commits."""
        self._changes |= changes

    def insert_rows(self, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert rows that give all columns in the table's order, as one statement run many times."""
        if rows:
            self.connection.exec_driver_sql(_insert_text(table, self.connection.dialect.paramstyle), list(rows))

    @cached_property
    def is_postgres(self) -> bool:
        return self.connection.dialect.name == "postgresql"

    def keep_time(self) -> None:
        """Commit the time even where nothing else is: somebody was told what held at it."""
        self._changes.setdefault("now_us", self._mark.now_us)

    def finish(self) -> None:
        """Write where the store stands now, unless nothing moved; the commit follows."""
        if self.seq == self.start.seq and not self._changes:
            return
        mark = self._mark
        self._changes |= {"seq": self.seq, "now_us": mark.now_us, "boot": mark.boot, "boottime_us": mark.boottime_us}
        self.connection.execute(update(meta).values(**self._changes))
        reach("store.before-commit")


def _insert_text(table: Table, paramstyle: str) -> str:
    """Return the INSERT as the driver has it; SQLAlchemy's own would spend more on each row than the database does."""
    place = "?" if paramstyle == "qmark" else "%s"
    names = ", ".join(column.name for column in table.columns)
    return f"INSERT INTO {table.name} ({names}) VALUES ({', '.join([place] * len(table.columns))})"  # noqa: S608 - names of our own tables


# --- The store --------------------------------------------------------------------------------------------------------


LONGEST_JUMP_SECONDS = 366 * 86400.0  # as long as the longest lease: a longer jump would end them all


class Store:
    """An open store. Safe to use from many threads, and by many processes at a time."""

    def __init__(self, engine: Engine, clock: StoreClock, incarnation: str) -> None:
        self.engine = engine
        self.clock = clock
        self.incarnation = incarnation

    @classmethod
    def open(
        cls,
        place: str | Path,
        *,
        machine: MachineClock | None = None,
        longest_jump_seconds: float = LONGEST_JUMP_SECONDS,
        accept_clock: bool = False,
    ) -> Store:
        """Return the store at a path (SQLite) or PostgreSQL URL, made new where there is none.

        Raises WeakDurability, NeedsUpgrade, ClockJumped, StoreFailed.
        """
        machine = machine or SystemClock()
        engine = database.connect(place)
        try:
            with database.failures():
                database.ensure_tables(engine)
                mark, incarnation = _first_row(engine, machine)
            clock = StoreClock(machine, mark, limit_seconds=longest_jump_seconds, accept_jump=accept_clock)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine, clock, incarnation)

    @property
    def is_postgres(self) -> bool:
        return self.engine.dialect.name == "postgresql"

    @property
    def path(self) -> Path | None:
        """The file, where the store is one."""
        return database.sqlite_path(self.engine)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Give a turn at writing; committed, and on disk, when the block ends without an error."""
        with database.failures(), self._begin(write=True) as connection:
            start = read_meta(connection, lock=True)
            transaction = Transaction(connection, start, self.clock.mark(start.mark.now_us))
            reach("store.after-begin")
            yield transaction
            transaction.finish()
        reach("store.after-commit")

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection that sees one moment of the store throughout."""
        with database.failures(), self._begin(write=False) as connection:
            yield connection

    @contextmanager
    def _begin(self, *, write: bool) -> Iterator[Connection]:
        options: dict[str, object] = {database.WRITE: write}
        if self.is_postgres:
            # A writer must see what was committed while it waited for its turn; a reader must not.
            options["isolation_level"] = "READ COMMITTED" if write else "REPEATABLE READ"
        with self.engine.connect().execution_options(**options) as connection, connection.begin():
            yield connection

    def meta(self) -> Meta:
        """Return where the store stands."""
        with self.read() as connection:
            return read_meta(connection)

    def now_us(self) -> int:
        """Return the time on the store's clock; reads the store, since another process may be ahead."""
        return self.clock.mark(self.meta().mark.now_us).now_us

    def close(self) -> None:
        """Let go of the database."""
        self.engine.dispose()


def _first_row(engine: Engine, machine: MachineClock) -> tuple[Mark, str]:
    """Return the clock's mark and the incarnation; writes the row where the store is new."""
    with engine.connect().execution_options(**{database.WRITE: True}) as connection, connection.begin():
        database.take_turns(connection)
        if connection.execute(select(meta.c.id)).first() is None:
            now = Mark(machine.wall_us(), machine.boot, machine.boottime_us())
            connection.execute(
                insert(meta).values(
                    id=1,
                    incarnation=uuid.uuid4().hex,
                    seq=0,
                    now_us=now.now_us,
                    boot=now.boot,
                    boottime_us=now.boottime_us,
                    schema_version=0,
                    matching="inline",
                    matched_through=0,
                    horizon=0,
                    created_us=now.now_us,
                )
            )
        found = read_meta(connection)
    return found.mark, found.incarnation


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


LATEST_US = 253_402_300_799_999_999  # the end of the year 9999


def instant(us: int) -> datetime:
    """Return a time on the store's clock as a datetime."""
    return _EPOCH + timedelta(microseconds=min(us, LATEST_US))
