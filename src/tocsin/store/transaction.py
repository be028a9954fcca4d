"""Write transactions: they take their turn, draw from the one seq, and commit in the order of it.

Whoever writes holds the row `meta` from the first statement to the end of the commit (SQLite: the write lock;
PostgreSQL: FOR UPDATE). So transactions commit one after the other, in the order of the seqs that they draw, and a
reader that sees seq n sees everything up to n: no gap, no late commit. See docs/decisions/0010-one-seq.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, Row, Table, select, update

from tocsin.store.clock import Mark
from tocsin.store.crash_points import reach
from tocsin.store.tables import meta


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
