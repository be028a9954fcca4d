"""A schema for the terminal: as a table of its event types, or in one of its other forms."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from tocsin.errors import BadDefinition, did_you_mean, nearest
from tocsin.schema import Domain, EnumeratedDomain, HierarchicalDomain, NumericDomain, Schema, files

FORMATS = ("table", "toml", "json", "xml", "arrow", "json-schema", "dtd:KIND")


def render_schema(schema: Schema, format: str, event_types: Sequence[str]) -> str:
    """Return the schema, or the view over these event types, as text."""
    if format == "table":
        return _table(schema, event_types)
    if format.startswith("dtd:"):
        from tocsin.xml.dtd import dtd

        return dtd(schema, format.removeprefix("dtd:"))
    if format not in _WRITERS:
        hint = did_you_mean(nearest(format, FORMATS))
        raise BadDefinition(f"there is no format {format!r}{hint}; there are: {', '.join(FORMATS)}")
    return _WRITERS[format](schema, event_types)


def _file(format: files.Format) -> Callable[[Schema, Sequence[str]], str]:
    def write(schema: Schema, _: Sequence[str]) -> str:
        return files.dumps(schema, format).rstrip("\n") + "\n"

    return write


def _arrow(schema: Schema, event_types: Sequence[str]) -> str:
    from tocsin.schema.arrow import to_arrow

    return f"{to_arrow(schema, event_types).to_string(show_schema_metadata=False)}\n"


def _json_schema(schema: Schema, event_types: Sequence[str]) -> str:
    from tocsin.schema.json_schema import json_schema

    return json.dumps(json_schema(schema, event_types), indent=2, ensure_ascii=False) + "\n"


_WRITERS: dict[str, Callable[[Schema, Sequence[str]], str]] = {
    "toml": _file("toml"),
    "json": _file("json"),
    "xml": _file("xml"),
    "arrow": _arrow,
    "json-schema": _json_schema,
}


def _table(schema: Schema, event_types: Sequence[str]) -> str:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    with console.capture() as capture:
        for name in event_types or schema.event_types:
            table = Table(title=f"event type {name}", title_justify="left", show_edge=False, pad_edge=False)
            for heading in ("attribute", "annotations", "domain", "values", "operators"):
                table.add_column(heading, no_wrap=heading == "attribute", overflow="fold")
            for entry in schema.event_type(name).attributes:
                domain = schema.domain_of(entry.attribute)
                table.add_row(
                    entry.attribute,
                    str(entry),
                    f"{domain.name} ({domain.kind})",
                    _values(domain),
                    " ".join(sorted(domain.offered)),
                )
            console.print(table)
            console.print()
    return capture.get()


def _values(domain: Domain) -> str:
    """Return which values a domain has, in a few words."""
    match domain:
        case EnumeratedDomain(values=values) | HierarchicalDomain(values=values):
            return ", ".join(values[:5]) + (f", … ({len(values)})" if len(values) > 5 else "")
        case NumericDomain():
            low = "" if domain.minimum is None else f"{domain.minimum} ≤ "
            high = "" if domain.maximum is None else f" ≤ {domain.maximum}"
            return f"{low}{domain.type}{high}"
    return ""
