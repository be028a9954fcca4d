"""The store: where everything acknowledged is. One seq orders what happens in it.

    store = Store.open("tocsin.db")
    with store.write() as transaction:
        seq = transaction.draw()
        ...
    with store.read() as connection:
        ...

What is written and read is in the modules beside this one, a module a table: functions that take the transaction or
the connection. broker/ decides what to write; this package decides nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, insert, select

from tocsin.store import database
from tocsin.store.tables import meta
from tocsin.store.transaction import (
    MachineClock,
    Mark,
    Meta,
    StoreClock,
    SystemClock,
    Transaction,
    reach,
    read_meta,
)

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
