"""Index folders that are not on this host's disk: on a file system that is reached by name, or shipped by Spark.

    SubscriptionTable("s3://bucket/wishes"), "hdfs://namenode/wishes", "gs://…", "abfss://…", any scheme of fsspec

RemoteFolder keeps a copy on the host, which all its processes map: a file is fetched once, by whoever needs it first.
What a manifest names never changes under its name, so only manifest.json is read again. Whoever writes does so in the copy,
and then brings new files, the version's manifest, and manifest.json, each whole or not at all, in that order.

ShippedFolder is a version of a table on the driver's disk, sent to the executors as Spark's files (`ship`): the way of
match(events, dataframe), which has no place that all hosts see. Used by subscription_table.py and match.py.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tocsin.errors import FileError
from tocsin.index.index_folder import MANIFEST, IndexFolder, Manifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHIPPED = "sparkfiles:"
CACHE_VARIABLE = "TOCSIN_CACHE"
KEPT_SECONDS = 3600  # what no version of the last hour names leaves a host's copy
_ARROW = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "hdfs": "hdfs", "viewfs": "viewfs", "abfs": "abfs",
          "abfss": "abfss"}  # fmt: skip
_NOT_FILES = ("sqlite", "postgresql", "file")


def is_remote(place: str) -> bool:
    """Return whether a place is on a file system that is reached by name."""
    scheme, found, _ = place.partition("://")
    return bool(found) and scheme.partition("+")[0] not in _NOT_FILES


def file_system_of(place: str) -> tuple[Any, str]:
    """Return the Arrow file system of a place, and the path there: Arrow's own, else fsspec's."""
    from pyarrow import fs

    scheme, _, rest = place.partition("://")
    try:
        if scheme in _ARROW:
            found = fs.FileSystem.from_uri(f"{_ARROW[scheme]}://{rest}")
        else:
            import fsspec

            system, path = fsspec.core.url_to_fs(place)
            found = fs.PyFileSystem(fs.FSSpecHandler(system)), path
    except (ImportError, ValueError, OSError) as error:
        raise FileError(place, f"this file system cannot be reached: {error}") from None
    return found[0], found[1].rstrip("/")


def cache_folder() -> Path:
    """Return where this host keeps copies: TOCSIN_CACHE, else a folder of the user among the temporary ones."""
    given = os.environ.get(CACHE_VARIABLE)
    folder = Path(given) if given else Path(tempfile.gettempdir()) / f"tocsin-cache-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise FileError(str(folder), f"it belongs to another user; name a folder of your own: {CACHE_VARIABLE}=…")
    return folder


class RemoteFolder(IndexFolder):
    """The files of an index at a place that is reached by name, through a copy on this host.

    Two who write at once are noticed as long as one has ended before the other brings its version; else the later one
    wins, and the earlier change is lost: let one process write.
    """

    def __init__(self, place: str, *, keep_versions: int = 0) -> None:
        self.place = place
        self._files, self._root = file_system_of(place)
        digest = hashlib.blake2b(place.rstrip("/").encode(), digest_size=10).hexdigest()
        super().__init__(cache_folder() / digest, keep_versions=keep_versions)

    # --- reading ------------------------------------------------------------------------------------------------------

    def file(self, name: str) -> Path:
        path = self.path / name
        if not path.exists():
            with self._fetching():
                if not path.exists() and not self._fetch(name):
                    raise FileNotFoundError(f"{self.place}/{name}")
        return path

    def _read(self, path: Path) -> Manifest | None:
        if path.name != MANIFEST:
            try:
                return super()._read(self.file(path.name))
            except FileNotFoundError:
                return None
        data = self._bytes_of(MANIFEST)
        if data is None:  # also for a moment where a rename cannot replace it: then the newest version is the one
            versions = [name for name in self._listed_there() if name.endswith(".manifest")]
            data = self._bytes_of(max(versions)) if versions else None
        if data is None:
            return None
        found = self.decoded(Path(self.place) / MANIFEST, data)
        held = super()._read(path) if path.exists() else None
        if held is None or (held.table, held.version) != (found.table, found.version):
            with self._fetching():
                self._take_up(found, data, anew=held is not None and held.table != found.table)
        return found

    def _take_up(self, found: Manifest, data: bytes, *, anew: bool) -> None:
        """Let the copy be of a version; of a table that was made anew, nothing of the old one stays."""
        now = time.time()
        old = [path for path in self.path.iterdir() if path.suffix not in ("", ".unfinished") and path.name != MANIFEST]
        stale = {path for path in old if anew or path.stat().st_mtime < now - KEPT_SECONDS}
        named = found.files() | {MANIFEST}
        for path in old:
            if path.suffix == ".manifest" and path not in stale and (kept := super()._read(path)) is not None:
                named |= kept.files()
        for path in stale:
            if anew or path.name not in named:
                path.unlink(missing_ok=True)
        self._write(MANIFEST, data)

    def _bytes_of(self, name: str) -> bytes | None:
        try:
            with self._files.open_input_stream(f"{self._root}/{name}") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FileError(f"{self.place}/{name}", f"it cannot be read: {error}") from None

    def _fetch(self, name: str) -> bool:
        """Return whether a file is there, and copied."""
        unfinished = self.path / f"{name}.{os.getpid()}.unfinished"
        try:
            stream = self._files.open_input_stream(f"{self._root}/{name}")
        except FileNotFoundError:
            return False
        except OSError as error:
            raise FileError(f"{self.place}/{name}", f"it cannot be read: {error}") from None
        with stream, unfinished.open("wb") as file:
            shutil.copyfileobj(stream, file, 1 << 20)
        unfinished.replace(self.path / name)
        return True

    def _write(self, name: str, data: bytes) -> None:
        unfinished = self.path / f"{name}.{os.getpid()}.unfinished"
        unfinished.write_bytes(data)
        unfinished.replace(self.path / name)

    @contextmanager
    def _fetching(self) -> Iterator[None]:
        """Keep other processes of this host from fetching the same meanwhile."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "fetching").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    # --- writing ------------------------------------------------------------------------------------------------------

    def _bring(self, manifest: Manifest) -> None:
        self._files.create_dir(self._root, recursive=True)
        there = set(self._listed_there())
        for name in sorted(manifest.files() - there - {""}):
            self._put(name, (self.path / name).read_bytes())

    def _swap(self, manifest: Manifest) -> None:
        name = self._place_of(manifest.version).name
        if self._bytes_of(name) is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            raise FileError(self.place, f"another has written version {manifest.version} meanwhile; try again")
        super()._swap(manifest)
        for each in (name, MANIFEST):
            self._put(each, (self.path / each).read_bytes())

    def _put(self, name: str, data: bytes) -> None:
        """Write a file there, whole or not at all: object stores do so; elsewhere a rename does."""
        path = f"{self._root}/{name}"
        whole = self.place.partition("://")[0] in ("s3", "s3a", "gs", "gcs", "memory")
        target = path if whole else f"{path}.{os.getpid()}.unfinished"
        try:
            with self._files.open_output_stream(target) as stream:
                stream.write(data)
            if not whole:
                if name == MANIFEST and self._bytes_of(name) is not None and not self._replaces:
                    self._files.delete_file(path)
                self._files.move(target, path)
        except OSError as error:
            raise FileError(f"{self.place}/{name}", f"it cannot be written: {error}") from None

    @property
    def _replaces(self) -> bool:
        """Whether a rename takes the place of what is there; HDFS refuses that."""
        return self.place.partition("://")[0] not in ("hdfs", "viewfs")

    def _listed_there(self) -> list[str]:
        from pyarrow import fs

        found = self._files.get_file_info(fs.FileSelector(self._root, allow_not_found=True))
        return [each.base_name for each in found if each.is_file]

    def _listed(self) -> list[str]:
        return sorted({*super()._listed(), *self._listed_there()})

    def _remove(self, name: str) -> None:
        super()._remove(name)
        if name in self._listed_there():
            self._files.delete_file(f"{self._root}/{name}")


class ShippedFolder(IndexFolder):
    """One version of a table, as Spark has brought it to an executor: read only."""

    def __init__(self, place: str) -> None:
        from pyspark.core.files import SparkFiles

        self._table = place.removeprefix(SHIPPED)
        super().__init__(Path(SparkFiles.getRootDirectory()))

    def file(self, name: str) -> Path:
        return self.path / shipped_name(self._table, name)

    def _read(self, path: Path) -> Manifest | None:
        return super()._read(self.file(path.name))


def shipped_name(table: str, name: str) -> str:
    """Return under which name a file of a table goes to the executors, which have one folder for all."""
    return f"tocsin-{table}-{name}"


_sent: dict[str, set[str]] = {}  # by application or session


def ship(spark: SparkSession, place: str, manifest: Manifest) -> str:
    """Send a version of a table to the executors, what they have not got; return the place where they find it."""
    connect = is_connect(spark)
    sent = _sent.setdefault(spark.session_id if connect else spark.sparkContext.applicationId, set())  # type: ignore[attr-defined]
    needed = {f"{manifest.version:08d}.manifest", *manifest.files()} - {"", manifest.quarantine}
    for name in sorted(needed if manifest.with_documents else needed - {*manifest.contents}):
        shipped = (
            Path(place) / "shipped" / shipped_name(manifest.table, name)
        )  # it stays: Spark reads it when it is asked
        if shipped.name in sent:
            continue
        shipped.parent.mkdir(exist_ok=True)
        if not shipped.exists():
            os.link(Path(place) / name, shipped)
        if connect:
            spark.addArtifacts(str(shipped), file=True)
        else:
            spark.sparkContext.addFile(str(shipped))
        sent.add(shipped.name)
    return f"{SHIPPED}{manifest.table}"


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_on_this_host(spark: SparkSession) -> bool:
    """Return whether all workers of a session see this host's disk."""
    return not is_connect(spark) and str(spark.sparkContext.master).partition("[")[0] == "local"
