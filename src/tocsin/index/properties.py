"""Property columns of a segment: numbers as they are, everything else as codes beside the list of its values.

Written by index/build.py as the section PROPERTIES, with a description in NAMES; mapped, and opened when somebody first
asks for a property. Domains come from the schema, by attribute, as those of columns do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.compile.properties import Property
from tocsin.language.formula_columns import ValueColumn
from tocsin.schema import Domain

ALIGNED = 8
_AS_IS = ("text", "enumerated", "hierarchical")  # kinds of domains whose values JSON has as they are


def encode_properties(properties: Mapping[str, Property]) -> tuple[list[dict[str, Any]], npt.NDArray[np.uint8]]:
    """Return the description of each property, and the bytes of all: values, which are absent (if any), members."""
    described, parts = [], []
    for name, each in properties.items():
        column = each.column
        members = b"" if column.members is None else _encode_members(column)
        absent = column.absent if column.absent.any() else np.zeros(0, np.bool_)
        pieces = [np.ascontiguousarray(column.values).tobytes(), absent.tobytes(), members]
        described.append({
            "name": name, "attribute": each.attribute, "type": column.values.dtype.name,
            "coded": column.members is not None, "bytes": [len(piece) for piece in pieces],
        })  # fmt: skip
        parts += [piece + bytes(-len(piece) % ALIGNED) for piece in pieces]
    return described, np.frombuffer(b"".join(parts), np.uint8)


def _encode_members(column: ValueColumn) -> bytes:
    members: tuple[Any, ...] = column.members or ()
    dump = column.domain.dump
    return json.dumps([None if member is None else dump(member) for member in members]).encode()


def _decode_members(domain: Domain, data: npt.NDArray[np.uint8]) -> tuple[Any, ...]:
    listed: Sequence[Any] = json.loads(data.tobytes())
    if domain.kind in _AS_IS:
        return tuple(listed)
    return tuple(None if member is None else domain.admit(member) for member in listed)


class StoredProperties(Mapping[str, Property]):
    """The properties of a segment, each opened when it is first asked for."""

    def __init__(
        self,
        described: Sequence[Mapping[str, Any]],
        data: npt.NDArray[np.uint8],
        domain_of: Callable[[str], Domain],
        size: int,
    ) -> None:
        self._data, self._domain_of, self._size = data, domain_of, size
        self._places: dict[str, tuple[Mapping[str, Any], int]] = {}
        self._opened: dict[str, Property] = {}
        position = 0
        for each in described:
            self._places[each["name"]] = each, position
            position += sum(length + -length % ALIGNED for length in each["bytes"])

    def __getitem__(self, name: str) -> Property:
        if name not in self._opened:
            self._opened[name] = self._open(*self._places[name])
        return self._opened[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _open(self, described: Mapping[str, Any], position: int) -> Property:
        pieces = []
        for length in described["bytes"]:
            pieces.append(self._data[position : position + length])
            position += length + -length % ALIGNED
        values, absent, members = pieces
        domain = self._domain_of(described["attribute"])
        column = ValueColumn(
            domain,
            values.view(np.dtype(described["type"])),
            absent.view(np.bool_) if len(absent) else np.zeros(self._size, np.bool_),
            _decode_members(domain, members) if described["coded"] else None,
        )
        return Property(described["attribute"], column)
