"""Segment files: one file per segment, mapped by every process that uses it.

    bytes 0..7      magic "TOCSINSG"
    8..11, 12..15   format version, length of the header up to its checksum
    ..              directory (int64), CRC-32 of each section (uint32), CRC-32 of the header before this field
    4096..          the buffer, as in index/layout.py

The same segment gives the same bytes: no time, no path, no hash order is in the file. A file that is cut short or
altered anywhere is refused with CorruptSegment.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np

from tocsin.errors import FileError
from tocsin.index.layout import DIRECTORY_LENGTH, Section
from tocsin.index.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tocsin.schema import Domain

MAGIC = b"TOCSINSG"
VERSION = 5
DATA_START = 4096
_HEADER = 16 + 8 * DIRECTORY_LENGTH + 4 * len(Section)


class CorruptSegment(FileError):
    """The file is not a segment of this version, or its bytes are not those that were written."""


def write_segment(segment: Segment, path: Path) -> None:
    """Write the segment to a new file, complete or not at all; rows that were killed since it was built stay alive.

    The caller makes the name known (in a manifest) only after this returns.
    """
    if segment.dead:
        raise ValueError("a segment with dead rows is not written: write it before, or merge it")
    header = bytearray(MAGIC + struct.pack("<II", VERSION, _HEADER))
    header += segment.directory.astype("<i8").tobytes()
    header += np.array([_checksum(segment, section) for section in Section], "<u4").tobytes()
    header += struct.pack("<I", zlib.crc32(header))
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(header.ljust(DATA_START, b"\0"))
        file.write(segment.buffer.data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def open_segment(path: Path, domain_of: Callable[[str], Domain], *, verify: bool = True) -> Segment:
    """Return the segment in a file, mapped; domain_of gives the domain of an attribute.

    Pages are shared with all processes until one kills a row on them. `verify` reads the whole file once; without
    it only the header is checked.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < DATA_START:
            raise CorruptSegment(str(path), f"the file is cut short: {size} bytes")
        mapped = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)
    directory, checksums = _read_header(path, mapped[:DATA_START].tobytes())
    expected = DATA_START + int(directory[2 * len(Section) - 2]) + _padded(int(directory[2 * len(Section) - 1]))
    if size != expected:
        raise CorruptSegment(str(path), f"the file has {size} bytes and should have {expected}")
    segment = Segment(mapped[DATA_START:], directory)
    segment.domain_of = domain_of
    if verify:
        for section in Section:
            if _checksum(segment, section) != checksums[section]:
                raise CorruptSegment(str(path), f"the checksum of {section.name} is wrong")
    return segment


def _read_header(path: Path, header: bytes) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], list[int]]:
    if header[:8] != MAGIC:
        raise CorruptSegment(str(path), "this is not a segment")
    version, length = struct.unpack_from("<II", header, 8)
    if version != VERSION or length != _HEADER:
        raise CorruptSegment(str(path), f"format version {version}; this program reads version {VERSION}")
    if struct.unpack_from("<I", header, _HEADER)[0] != zlib.crc32(header[:_HEADER]) or any(header[_HEADER + 4 :]):
        raise CorruptSegment(str(path), "the checksum of the header is wrong")
    directory = np.frombuffer(header, "<i8", DIRECTORY_LENGTH, 16).astype(np.int64)
    checksums = np.frombuffer(header, "<u4", len(Section), 16 + 8 * DIRECTORY_LENGTH)
    return directory, [int(checksum) for checksum in checksums]


def _checksum(segment: Segment, section: Section) -> int:
    """Return the CRC-32 of a section with the padding behind it."""
    start, size = int(segment.directory[2 * section]), int(segment.directory[2 * section + 1])
    return zlib.crc32(segment.buffer[start : start + _padded(size)].data)


def _padded(size: int) -> int:
    return -(-size // 64) * 64
