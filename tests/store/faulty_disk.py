"""A disk that fails, or loses power: a layer between SQLite and the operating system, made with ctypes.

SQLite does its I/O through a table of functions (a VFS). `FaultyDisk` registers a copy of the usual one, whose files
write, sync and truncate through us. We can let the Nth such call fail (no space, I/O error), and we remember what was
written but not yet synced, so that `cut_power` gives the files as they would be after a power cut: kill -9 cannot show
a missing fsync, because the operating system still has what the process wrote.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import ctypes.util
import subprocess
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any

FULL, IOERR_WRITE, IOERR_FSYNC, IOERR_TRUNCATE = 13, 778, 1034, 1546
_OK = 0


class _Methods(Structure):
    """sqlite3_io_methods; the functions that we leave alone are plain addresses."""


_Methods._fields_ = [
    ("version", c_int),
    ("close", c_void_p),
    ("read", c_void_p),
    ("write", c_void_p),
    ("truncate", c_void_p),
    ("sync", c_void_p),
    *((f"other{number}", c_void_p) for number in range(13)),
]


class _File(Structure):
    _fields_ = (("methods", POINTER(_Methods)),)


class _Vfs(Structure):
    """sqlite3_vfs, up to version 3."""


_Vfs._fields_ = [
    ("version", c_int),
    ("file_size", c_int),
    ("max_path", c_int),
    ("next", c_void_p),
    ("name", c_char_p),
    ("app_data", c_void_p),
    ("open", c_void_p),
    *((f"other{number}", c_void_p) for number in range(14)),
]

_OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(_File), c_int, c_void_p)
_WRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_TRUNCATE = CFUNCTYPE(c_int, c_void_p, c_int64)
_SYNC = CFUNCTYPE(c_int, c_void_p, c_int)


def library() -> ctypes.CDLL | None:
    """Return the SQLite library that Python's own module uses, None where it cannot be reached."""
    linked = subprocess.run(["ldd", _sqlite3.__file__], capture_output=True, text=True, check=False)
    for line in linked.stdout.splitlines():
        if "libsqlite3" in line and "=>" in line:
            found = ctypes.CDLL(line.split("=>")[1].split()[0])
            found.sqlite3_vfs_find.restype = POINTER(_Vfs)
            return found
    return None


class FaultyDisk:
    """The disk under all SQLite connections that are opened while it is in use."""

    def __init__(self, sqlite: ctypes.CDLL) -> None:
        self._sqlite = sqlite
        self._real = sqlite.sqlite3_vfs_find(None)
        self._real_open = _OPEN(self._real.contents.open)
        self._shim = _Vfs.from_buffer_copy(self._real.contents)
        self._shim.name = b"tocsin-faulty"
        self._keep: list[Any] = []  # what SQLite has addresses of
        self._tables: dict[int, Any] = {}
        self._names: dict[int, str] = {}
        self._durable: dict[str, bytearray] = {}
        self._waiting: dict[str, list[tuple[int, bytes | None]]] = {}  # (place, bytes), or (length, None) for truncate
        self.calls = 0
        self._fail_from: int | None = None
        self._fail_until = 0
        self._code: int | None = None
        self._open = _OPEN(self._on_open)
        self._shim.open = ctypes.cast(self._open, c_void_p).value

    def __enter__(self) -> FaultyDisk:
        self._sqlite.sqlite3_vfs_register(ctypes.byref(self._shim), 1)
        return self

    def __exit__(self, *_: object) -> None:
        self._sqlite.sqlite3_vfs_unregister(ctypes.byref(self._shim))

    # --- faults -------------------------------------------------------------------------------------------------------

    def fail_at(self, call: int, code: int | None = None, *, times: int = 1) -> None:
        """Let the call of that number, counted from now, fail, and so many after it."""
        self.calls, self._fail_from, self._fail_until, self._code = 0, call, call + times, code

    def heal(self) -> None:
        self._fail_from = None

    def _fault(self, usual: int) -> int:
        self.calls += 1
        if self._fail_from is not None and self._fail_from <= self.calls < self._fail_until:
            return self._code or usual
        return _OK

    def cut_power(self, folder: Path) -> None:
        """Write the files as a power cut would leave them, into another folder."""
        for name, content in self._durable.items():
            if not Path(name).exists():  # deleted, with the folder synced after it
                continue
            (folder / Path(name).name).write_bytes(bytes(content))

    # --- what SQLite calls --------------------------------------------------------------------------------------------

    def _on_open(self, _vfs: int, name: int | None, file: Any, flags: int, out_flags: int) -> int:
        real_address = ctypes.addressof(self._real.contents)
        code = int(self._real_open(real_address, name, file, flags, out_flags))
        if code == _OK and name is not None and file.contents.methods:
            # The address is passed on as it came: SQLite keeps using it as long as the file is open.
            path = ctypes.string_at(name).decode()
            self._names[ctypes.addressof(file.contents)] = path
            if path not in self._durable:
                self._durable[path] = bytearray(Path(path).read_bytes()) if Path(path).exists() else bytearray()
                self._waiting[path] = []
            file.contents.methods = self._methods(file.contents.methods)
        return code

    def _methods(self, real: Any) -> Any:
        address = ctypes.addressof(real.contents)
        if address not in self._tables:
            table = _Methods.from_buffer_copy(real.contents)
            callbacks: list[Callable[..., int]] = [
                _WRITE(self._writer(_WRITE(table.write))),
                _TRUNCATE(self._truncater(_TRUNCATE(table.truncate))),
                _SYNC(self._syncer(_SYNC(table.sync))),
            ]
            table.write, table.truncate, table.sync = (ctypes.cast(each, c_void_p).value for each in callbacks)  # type: ignore[arg-type]
            self._keep += [table, *callbacks]
            self._tables[address] = ctypes.pointer(table)
        return self._tables[address]

    def _writer(self, real: Callable[..., int]) -> Callable[..., int]:
        def write(file: int, data: int, size: int, place: int) -> int:
            if code := self._fault(IOERR_WRITE):
                return code
            self._waiting[self._names[file]].append((place, ctypes.string_at(data, size)))
            return real(file, data, size, place)

        return write

    def _truncater(self, real: Callable[..., int]) -> Callable[..., int]:
        def truncate(file: int, size: int) -> int:
            if code := self._fault(IOERR_TRUNCATE):
                return code
            self._waiting[self._names[file]].append((size, None))
            return real(file, size)

        return truncate

    def _syncer(self, real: Callable[..., int]) -> Callable[..., int]:
        def sync(file: int, flags: int) -> int:
            if code := self._fault(IOERR_FSYNC):
                return code
            name = self._names[file]
            for place, data in self._waiting[name]:
                _apply(self._durable[name], place, data)
            self._waiting[name].clear()
            return real(file, flags)

        return sync


def _apply(content: bytearray, place: int, data: bytes | None) -> None:
    if data is None:
        del content[place:]
        return
    if len(content) < place:
        content.extend(bytes(place - len(content)))
    content[place : place + len(data)] = data
