"""Schema files: JSON, TOML and the thesis's XML, told apart by their suffix.

    schema = load("auction.toml")
    save(schema, "auction.xml")

JSON and TOML hold the document of document.py; XML is that of xml/schema_form.py, which is an extra. What is written
reads back as an equal schema. A file that cannot be read raises FileError, one that does not describe a schema
BadDefinition; both name the place.

TOML: a writer for the schema's document and nothing else; Python's tomllib reads it back.
"""

from __future__ import annotations

import importlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tocsin.errors import BadDefinition, FileError, SchemaError, did_you_mean, nearest, repeated
from tocsin.schema.document import Document, from_document, key, quoted, to_document
from tocsin.schema.schema import Schema

_WIDTH = 110


def to_toml(document: Document) -> str:
    """Return the document as TOML."""
    parts = [f"version = {document['version']}"]
    parts += [_line(name, document[name]) for name in ("open", "kept", "dynamic") if name in document]
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
    for section in ("aliases", "deprecated"):
        if section in document:
            yield section, document[section]


def _domain(header: str, domain: Mapping[str, Any]) -> str:
    lines = [f"[{header}]"]
    lines += [_line(name, value) for name, value in domain.items() if not isinstance(value, Mapping)]
    if isinstance(tree := domain.get("tree"), Mapping):
        # Dotted keys, not a table for each value: these keep the order of the values.
        lines += ["", f"[{header}.tree]", *(f"{path} = {toml_value(below)}" for path, below in _branches(tree, ""))]
    return "\n".join(lines)


def _branches(tree: Mapping[str, Any], above: str) -> Iterator[tuple[str, list[str]]]:
    """Yield dotted key, values below it, for each place of a hierarchy where nothing lies deeper."""
    for value, below in tree.items():
        if isinstance(below, Mapping):
            yield from _branches(below, f"{above}{key(value)}.")
        else:
            yield above + key(value), below


def _line(name: str, value: object) -> str:
    line = f"{key(name)} = {toml_value(value)}"
    if len(line) <= _WIDTH or not isinstance(value, list | tuple):
        return line
    return f"{key(name)} = [\n" + "".join(f"    {toml_value(item)},\n" for item in value) + "]"


def toml_value(value: object) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key(name)} = {toml_value(each)}' for name, each in value.items())} }}"
    if isinstance(value, bool):
        return str(value).lower()
    return quoted(value) if isinstance(value, str) else repr(value)


# Schema files.


Format = Literal["json", "toml", "xml"]
FORMATS: tuple[Format, ...] = ("json", "toml", "xml")
_TOML_LINE = re.compile(r" \(at line (\d+), column \d+\)")


def load(path: str | Path) -> Schema:
    """Return the schema in a file."""
    path = Path(path)
    format = _format_of(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileError(str(path), (error.strerror or str(error)).lower()) from None
    try:
        return loads(content, format)
    except FileError as error:
        raise FileError(str(path), error.message, line=error.line) from None
    except SchemaError as error:
        raise BadDefinition(f"{path}: {error}") from None


def save(schema: Schema, path: str | Path) -> None:
    """Write the schema to a file."""
    path = Path(path)
    text = dumps(schema, _format_of(path))
    try:
        path.write_bytes(text.encode())  # bytes, so that line ends are the same everywhere
    except OSError as error:
        raise FileError(str(path), (error.strerror or str(error)).lower()) from None


def loads(text: str | bytes, format: Format) -> Schema:
    """Return the schema that a text describes."""
    if _checked(format) == "xml":
        schema: Schema = _xml().from_xml(text)
        return schema
    try:
        return from_document(_parse(_decoded(text, format), format))
    except RecursionError:
        raise FileError(f"<{format}>", "it is nested too deeply") from None


def dumps(schema: Schema, format: Format) -> str:
    """Return the schema as a text."""
    if _checked(format) == "xml":
        xml: str = _xml().to_xml(schema)
        return xml
    document = to_document(schema)
    if format == "toml":
        return to_toml(document)
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _xml() -> Any:
    """Return the module of the XML form, by its name, since it lies in a higher layer; raises NotInstalled."""
    return importlib.import_module("tocsin.xml.schema_form")


def _decoded(text: str | bytes, format: Format) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise FileError(f"<{format}>", "it is not UTF-8", line=line) from None


def _parse(text: str, format: Format) -> object:
    try:
        if format == "toml":
            return tomllib.loads(text)
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except tomllib.TOMLDecodeError as error:
        found = _TOML_LINE.search(str(error))
        line = int(found.group(1)) if found else None
        raise FileError("<toml>", _TOML_LINE.sub("", str(error)), line=line) from None
    except json.JSONDecodeError as error:
        raise FileError("<json>", error.msg, line=error.lineno) from None
    except ValueError as error:  # integers of thousands of digits
        raise FileError(f"<{format}>", str(error)) from None


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; a key given twice would silently lose the first."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BadDefinition(f"{repeated(name for name, _ in pairs)[0]!r} is defined twice")
    return found


def _refuse_constant(name: str) -> object:
    raise BadDefinition(f"{name} is not a number that a schema can hold")


def _format_of(path: Path) -> Format:
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        hint = did_you_mean(f"{path.stem}.{near}" for near in nearest(suffix, FORMATS))
        raise FileError(str(path), f"a schema file ends in .json, .toml or .xml{hint}")
    return suffix


def _checked(format: str) -> str:
    if format not in FORMATS:
        raise BadDefinition(f"{format!r} is not a format of schemas; there are {', '.join(FORMATS)}")
    return format
