"""Thrift's compact protocol, as far as Parquet's footers and page headers use it: structs, lists, numbers, bytes.

A struct is a dict from a field's number to its kind and value. A list's value is the kind of its elements, and these.
Whatever is read is written again as it was, also fields that this program knows nothing of. Used by match_file.py.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any

from tocsin.errors import NotSupported


class Kind(IntEnum):
    """What a field or an element is; a truth value is its own kind."""

    TRUE = 1
    FALSE = 2
    BYTE = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    MAP = 11
    STRUCT = 12


Struct = dict[int, tuple[Kind, Any]]
_WHOLE = (Kind.I16, Kind.I32, Kind.I64)


def i32(number: int) -> tuple[Kind, int]:
    return Kind.I32, number


def i64(number: int) -> tuple[Kind, int]:
    return Kind.I64, number


def binary(content: bytes) -> tuple[Kind, bytes]:
    return Kind.BINARY, content


def structure(fields: Struct) -> tuple[Kind, Struct]:
    return Kind.STRUCT, fields


def list_of(kind: Kind, elements: list[Any]) -> tuple[Kind, tuple[Kind, list[Any]]]:
    return Kind.LIST, (kind, elements)


def dumps(fields: Struct) -> bytes:
    """Return a struct as bytes."""
    out = bytearray()
    _put_struct(out, fields)
    return bytes(out)


def loads(content: bytes) -> Struct:
    """Return the struct that the bytes begin with."""
    return _Reader(content).struct()


# --- writing ----------------------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    """Return a number that is not negative in groups of seven bits, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _zigzag(number: int) -> bytes:
    return varint(2 * number if number >= 0 else -2 * number - 1)


def _put_struct(out: bytearray, fields: Struct) -> None:
    last = 0
    for field in sorted(fields):
        kind, value = fields[field]
        if field - last <= 15:
            out.append((field - last) << 4 | kind)
        else:
            out.append(kind)
            out += _zigzag(field)
        if kind not in (Kind.TRUE, Kind.FALSE):
            _put(out, kind, value)
        last = field
    out.append(0)


def _put(out: bytearray, kind: Kind, value: Any) -> None:
    if kind in _WHOLE:
        out += _zigzag(value)
    elif kind in (Kind.BYTE, Kind.TRUE, Kind.FALSE):
        out.append(value & 0xFF)
    elif kind == Kind.DOUBLE:
        out += struct.pack("<d", value)
    elif kind == Kind.BINARY:
        out += varint(len(value))
        out += value
    elif kind == Kind.STRUCT:
        _put_struct(out, value)
    elif kind in (Kind.LIST, Kind.SET):
        of, elements = value
        out += bytes([len(elements) << 4 | of]) if len(elements) < 15 else bytes([0xF0 | of]) + varint(len(elements))
        for element in elements:
            _put(out, of, element)
    else:
        raise NotSupported(f"a Thrift value of kind {kind.name}, which Parquet does not use")


# --- reading ----------------------------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def struct(self) -> Struct:
        fields: Struct = {}
        last = 0
        while head := self._byte():
            kind = Kind(head & 0xF)
            last = last + (head >> 4) if head >> 4 else self._zigzag()
            fields[last] = (kind, kind == Kind.TRUE if kind in (Kind.TRUE, Kind.FALSE) else self._value(kind))
        return fields

    def _value(self, kind: Kind) -> Any:
        if kind in _WHOLE:
            return self._zigzag()
        if kind in (Kind.BYTE, Kind.TRUE, Kind.FALSE):
            return self._byte()
        if kind == Kind.DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == Kind.BINARY:
            return self._bytes(self._varint())
        if kind == Kind.STRUCT:
            return self.struct()
        if kind in (Kind.LIST, Kind.SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            of = Kind(head & 0xF)
            return of, [self._value(of) for _ in range(count)]
        raise NotSupported(f"a Thrift value of kind {kind.name}, which Parquet does not use")

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _bytes(self, count: int) -> bytes:
        self._at += count
        return self._content[self._at - count : self._at]

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def _zigzag(self) -> int:
        number = self._varint()
        return number >> 1 if not number & 1 else -(number >> 1) - 1
