"""TOML: a writer for the schema's document and nothing else; Python's tomllib reads it back.

Small because the document is: see document.py for its shape, files.py for who calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tocsin.schema.document import Document, key, quoted

_WIDTH = 110


def to_toml(document: Document) -> str:
    """Return the document as TOML."""
    parts = [f"version = {document['version']}"]
    for name, domain in document["domains"].items():
        parts.append(_domain(f"domains.{key(name)}", domain))
    for section, table in (("attributes", document["attributes"]), *_types(document)):
        if table or section != "attributes":
            parts.append("\n".join([f"[{section}]", *(_line(name, value) for name, value in table.items())]))
    return "\n\n".join(parts) + "\n"


def _types(document: Document) -> Iterator[tuple[str, Mapping[str, object]]]:
    for name, table in document["event_types"].items():
        yield f"event_types.{key(name)}", table
    for name, table in document.get("unions", {}).items():
        yield f"unions.{key(name)}", table


def _domain(header: str, domain: Mapping[str, Any]) -> str:
    lines = [f"[{header}]"]
    lines += [_line(name, value) for name, value in domain.items() if not isinstance(value, Mapping)]
    if isinstance(tree := domain.get("tree"), Mapping):
        # Dotted keys, not a table for each value: these keep the order of the values.
        lines += ["", f"[{header}.tree]", *(f"{path} = {_value(below)}" for path, below in _branches(tree, ""))]
    return "\n".join(lines)


def _branches(tree: Mapping[str, Any], above: str) -> Iterator[tuple[str, list[str]]]:
    """Yield dotted key, values below it, for each place of a hierarchy where nothing lies deeper."""
    for value, below in tree.items():
        if isinstance(below, Mapping):
            yield from _branches(below, f"{above}{key(value)}.")
        else:
            yield above + key(value), below


def _line(name: str, value: object) -> str:
    line = f"{key(name)} = {_value(value)}"
    if len(line) <= _WIDTH or not isinstance(value, list | tuple):
        return line
    return f"{key(name)} = [\n" + "".join(f"    {_value(item)},\n" for item in value) + "]"


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return quoted(value) if isinstance(value, str) else repr(value)
