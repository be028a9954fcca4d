"""The control: a store that acknowledges before it commits, as if fsync were put off. Torture must notice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from tocsin.store import Store, database

_TURNS = 10  # transactions that are committed together, after all of them were acknowledged


def commit_late() -> None:
    """Let this process's stores acknowledge up to ten transactions before they are committed."""
    begin = Store._begin
    held: dict[int, tuple[Connection, int]] = {}

    @contextmanager
    def late(self: Store, *, write: bool) -> Iterator[Connection]:
        if not write:
            with begin(self, write=False) as connection:
                yield connection
            return
        if id(self) not in held:
            fresh = self.engine.connect().execution_options(**{database.WRITE: True})
            fresh.begin()
            held[id(self)] = (fresh, 0)
        connection, turns = held.pop(id(self))
        yield connection
        if turns + 1 < _TURNS:
            held[id(self)] = (connection, turns + 1)
            return
        connection.commit()
        connection.close()

    Store._begin = late  # type: ignore[method-assign]
