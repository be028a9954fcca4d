"""The store's log as a streaming source of matches: workers read their ranges of it and match in the same process.

Reading and matching as two steps would be two Python processes for each task, with every event sent through the JVM
between them. Used by log_query.py, for the store as a sink; other sinks want a row an event (stored_matching.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from tocsin.pipeline.store_source import StoreEventReader, StoreEventSource
from tocsin.pipeline.stored_matching import BLOCKS, BlocksStored

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "tocsin_store_matches"


class StoreMatchSource(StoreEventSource):
    """The matches of the log, as BlocksStored gives them. Options as the log's, and those of BlocksStored."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:  # type: ignore[override]  # Spark takes a schema as text too
        return BLOCKS

    def streamReader(self, schema: object) -> StoreMatchReader:  # noqa: N802
        del schema
        return StoreMatchReader(self.options)


class StoreMatchReader(StoreEventReader):
    """Reads the log range by range, and matches what it reads."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._match = BlocksStored(
            self._store,
            options.get("engine", "columnar"),
            options.get("index"),
            options.get("operators"),
            options.get("programs"),
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._match(super().read(partition))
