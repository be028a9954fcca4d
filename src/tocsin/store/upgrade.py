"""Upgrading: making the tables, or bringing them to this code's version, by the migrations in migrations/.

A store without tables is made by whoever opens it; an older one is upgraded only on request (`tocsin db upgrade`), so
that a rolling restart does not pull the tables from under the processes that still run.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from tocsin.errors import NeedsUpgrade
from tocsin.store import database, digests
from tocsin.store.tables import HEAD


def upgrade(place: str | Path) -> tuple[str | None, str]:
    """Bring the store's tables to this code's version; return the versions before and after."""
    engine = database.connect(place)
    path = database.sqlite_path(engine)
    is_backup = path is not None and path.exists() and digests.is_digested(path)
    if path is not None and is_backup:
        digests.verify(path)
    try:
        with database.failures():
            return upgrade_engine(engine)
    finally:
        engine.dispose()
        if path is not None and is_backup:
            digests.write(path)


def upgrade_engine(engine: Engine, version: str = HEAD) -> tuple[str | None, str]:
    """Upgrade in one transaction: a crash in the middle leaves the tables as they were."""
    from alembic import command
    from alembic.config import Config

    with engine.connect().execution_options(**{database.WRITE: True}) as connection, connection.begin():
        take_turns(connection)
        before = current_version(connection)
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        command.upgrade(config, version)
        return before, version


def take_turns(connection: Connection) -> None:
    """Wait for another process that upgrades; SQLite's writers take turns anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('tocsin upgrade'))"))


def current_version(connection: Connection) -> str | None:
    """Return the version of the tables, None where there are none."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def ensure_tables(engine: Engine) -> None:
    """Make the tables where there are none; raises NeedsUpgrade where they are of another version."""
    with engine.connect() as connection:
        found = current_version(connection)
    if found is None:
        upgrade_engine(engine)
    elif found != HEAD:
        raise NeedsUpgrade(found, HEAD)
