"""Names: what a segment stores besides integers for kernels: ids, constants of columns, attributes and checks.

Written by index/build.py; read when a segment is opened, so that a worker can encode events with it. Domains are not
stored: they come from the schema, by attribute.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tocsin.compile.ids import TextIds
from tocsin.compile.table import Check, CheckKind, Column
from tocsin.index.layout import Scalar, Section
from tocsin.index.properties import encode_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tocsin.compile.ids import Ids
    from tocsin.compile.table import ConjunctionTable
    from tocsin.schema import Domain

_NARROW = (np.int8, np.int16, np.int32, np.int64)


def names_sections(
    sections: dict[Section, npt.NDArray[Any]], scalars: dict[Scalar, int], table: ConjunctionTable
) -> None:
    """Add IDS, ID_OFFSET, CONSTANTS, NAMES and PROPERTIES."""
    parts: list[bytes] = []
    columns = []
    for column in table.columns:
        kind, data = _encode_constants(column.constants)
        parts.append(data + bytes(-len(data) % 8))
        columns.append({
            "attribute": column.attribute, "multiple": bool(column.multiple), "derivation": column.derivation,
            "kind": kind, "count": len(column.constants), "bytes": len(data),
        })  # fmt: skip
    checks = [
        [int(check.kind), check.expression, check.attribute, check.own, *([True] if check.whole else [])]
        for check in table.checks
    ]
    sections[Section.CONSTANTS] = np.frombuffer(b"".join(parts), np.uint8)
    properties, sections[Section.PROPERTIES] = encode_properties(table.properties)
    names = json.dumps({"columns": columns, "checks": checks, "properties": properties}, sort_keys=True)
    sections[Section.NAMES] = np.frombuffer(names.encode(), np.uint8)
    ids = table.ids
    if isinstance(ids, TextIds):
        sections[Section.IDS], sections[Section.ID_OFFSET] = ids.data, ids.offset
    else:
        sections[Section.IDS] = ids.astype(np.int64).view(np.uint8)
    scalars[Scalar.IDS_ARE_TEXT] = int(isinstance(ids, TextIds))


@dataclass(frozen=True, slots=True)
class Names:
    """The columns, checks and properties of a segment."""

    columns: Sequence[Column]
    checks: Sequence[Check]
    properties: Sequence[Mapping[str, Any]]  # described as index/properties.py does


def read_names(
    names: npt.NDArray[np.uint8], constants: npt.NDArray[np.uint8], domain_of: Callable[[str], Domain]
) -> Names:
    """Return the columns, with their constants and the domains of their attributes, and the checks."""
    document = json.loads(names.tobytes())
    columns = []
    position = 0
    for column in document["columns"]:
        data = constants[position : position + column["bytes"]]
        position += column["bytes"] + -column["bytes"] % 8
        decoded = _decode_constants(column["kind"], column["count"], data)
        attribute = column["attribute"]
        columns.append(Column(attribute, domain_of(attribute), column["multiple"], column["derivation"], decoded))
    checks = [Check(CheckKind(kind), *rest) for kind, *rest in document["checks"]]
    return Names(columns, checks, document["properties"])


def read_ids(ids: npt.NDArray[np.uint8], offset: npt.NDArray[np.int64], are_text: bool) -> Ids:
    """Return the identity of each subscription, where it lies."""
    return TextIds(ids, offset) if are_text else ids.view(np.int64)


def _encode_constants(constants: npt.NDArray[Any]) -> tuple[str, bytes]:
    if constants.dtype.kind in "iu":
        narrow = next(t for t in _NARROW if not len(constants) or _fits(constants, t))
        return np.dtype(narrow).name, constants.astype(narrow).tobytes()
    if constants.dtype.kind == "f":
        return "float64", constants.astype(np.float64).tobytes()
    if all(isinstance(constant, str) for constant in constants):
        texts, offset = _encode_texts(constants)
        return "text", offset.tobytes() + texts.tobytes()
    return "numbers", json.dumps([_tag_number(number) for number in constants]).encode()


def _fits(constants: npt.NDArray[Any], narrow: type[np.signedinteger[Any]]) -> bool:
    limits = np.iinfo(narrow)
    return bool(limits.min <= constants[0] and constants[-1] <= limits.max)


def _decode_constants(kind: str, count: int, data: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    if kind == "text":
        return _decode_texts(data[8 * (count + 1) :], data[: 8 * (count + 1)].view(np.int64))
    if kind == "numbers":
        numbers = np.empty(count, object)
        numbers[:] = [_untag_number(text) for text in json.loads(data.tobytes())]
        return numbers
    values = data.view(np.dtype(kind))
    return values if kind == "float64" else values.astype(np.int64)


def _encode_texts(texts: npt.NDArray[Any]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    offset = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(data) for data in encoded], out=offset[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), offset


def _decode_texts(data: npt.NDArray[np.uint8], offset: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    joined = data.tobytes()
    texts = np.empty(len(offset) - 1, object)
    texts[:] = [joined[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(offset.tolist())]
    return texts


def _tag_number(number: Any) -> str:
    if isinstance(number, float):
        return f"f{float(number).hex()}"
    return f"d{number}" if isinstance(number, Decimal) else f"i{int(number)}"


def _untag_number(text: str) -> int | float | Decimal:
    if text[0] == "f":
        return float.fromhex(text[1:])
    return Decimal(text[1:]) if text[0] == "d" else int(text[1:])
