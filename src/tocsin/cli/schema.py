"""`tocsin schema`: check, show, extend, infer.

The extension rules as options of `tocsin schema extend`.

A schema for the terminal: as a table of its event types, or in one of its other forms.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer

from tocsin.cli.console import JSON_OPTION, load_schema, print_json, read_json_lines, warn
from tocsin.errors import BadDefinition, FileError, did_you_mean, nearest

if TYPE_CHECKING:
    from tocsin.schema import Domain, Schema, TypeAttribute, files

app = typer.Typer(help="Look at a schema, extend it, or propose one from sample events.", no_args_is_help=True)
_FILE = typer.Argument(help="A .json, .toml or .xml schema file, or an example's name (auction, thesis).")


@app.command()
def check(file: str = _FILE, json: bool = JSON_OPTION) -> None:
    """Load a schema and report what is redundant in it. Exit code 1: it loads, but there are findings."""
    from tocsin.schema.growth import consolidation_report

    schema = load_schema(file)
    report = consolidation_report(schema)
    if json:
        print_json({"version": schema.version, "findings": [str(finding) for finding in report.findings]})
    else:
        counts = (
            f"{len(schema.domains)} domains, {len(schema.attributes)} attributes, {len(schema.event_types)} event types"
        )
        print(f"{file}: version {schema.version}, {counts}")
        for finding in report.findings:
            print(f"  {finding}")
    if report.findings:
        raise typer.Exit(1)


@app.command()
def show(
    file: str = _FILE,
    format: str = typer.Option(
        "table", "--format", "-f", help="table, toml, json, xml, arrow, json-schema, or dtd:KIND."
    ),
    types: str = typer.Option("", "--types", help="Event types of the view to show, comma-separated; all by default."),
    json: bool = JSON_OPTION,
) -> None:
    """Show a schema as a table, or in one of its other forms."""
    # merged

    event_types = [name.strip() for name in types.split(",") if name.strip()]
    print(render_schema(load_schema(file), "json" if json else format, event_types), end="")


@app.command()
def extend(
    file: str = _FILE,
    domain: str | None = typer.Option(None, help='A new domain, as JSON: {"name": "money", "kind": "numeric"}.'),
    attribute: str | None = typer.Option(None, help="A new attribute: NAME=DOMAIN."),
    event_type: str | None = typer.Option(None, help="A new event type: NAME=ATTRIBUTE[:optional][:multiple],…"),
    add: str | None = typer.Option(None, help="One more optional attribute of a type: TYPE=ATTRIBUTE[:multiple]."),
    values: list[str] = typer.Option([], help="More values of a domain: DOMAIN=VALUE,… or DOMAIN/PARENT=VALUE,…"),
    alias: list[str] = typer.Option([], help="Another name: NAME=ATTRIBUTE, or DOMAIN/NAME=VALUE."),
    deprecate: list[str] = typer.Option([], help="What should no longer be used: NAME=WORDS."),
    request: Path | None = typer.Option(
        None, help="An XML request (ADD_DOMAIN, ADD_ATTRIBUTE, EXTENT_SCHEMA, ADD_EVENT)."
    ),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Write the new schema here instead of printing it."
    ),
) -> None:
    """Apply extension rules, in the order of the options: all of them or none."""
    # merged
    from tocsin.schema import files

    old = load_schema(file)
    new = apply_extension(old, ExtensionOptions(domain, attribute, event_type, add, values, alias, deprecate, request))
    if new.version == old.version:
        options = "--domain, --attribute, --event-type, --add, --values, --alias, --deprecate or --request"
        raise BadDefinition(f"nothing to extend: give {options}")
    if output is None:
        print(files.dumps(new, "toml"), end="")
    else:
        files.save(new, output)
        warn(f"{output}: version {new.version}")


@app.command()
def consolidate(
    file: str = _FILE,
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Write the new schema here instead of printing it."
    ),
) -> None:
    """Make one what is said twice: attributes with nearly the same name and the same domain, by aliases."""
    from tocsin.schema import files
    from tocsin.schema.growth import consolidated

    old = load_schema(file)
    new = consolidated(old)
    for name, meant in new.aliases.items():
        if name not in old.aliases:
            warn(f"{name} means {meant}")
    if output is None:
        print(files.dumps(new, "toml"), end="")
    else:
        files.save(new, output)


@app.command()
def infer(
    events: str = typer.Argument(help="Sample events, JSONL; - for standard input."),
    output: Path | None = typer.Option(None, "--output", "-o", help="Write the schema here instead of printing it."),
    enumerate_up_to: int = typer.Option(0, help="Make texts with at most so many distinct values enumerated."),
    mandatory: bool = typer.Option(False, help="Make attributes mandatory that all samples of a type have."),
    fold_case: bool = typer.Option(False, help="Compare texts without regard to case."),
    is_open: bool = typer.Option(False, "--open", help="Let events have other attributes, which are passed over."),
    keep: bool = typer.Option(False, help="Let events have other attributes, to be asked about with their type."),
) -> None:
    """Propose a schema that all the sample events fit."""
    from tocsin.schema import Schema, files

    samples = (event for _, event in read_json_lines(events))
    proposal = Schema.infer(
        samples, enumerate_up_to=enumerate_up_to, mandatory=mandatory, fold_case=fold_case,
        unknown="kept" if keep else "ignored" if is_open else "refused",
    )  # fmt: skip
    if output is None:
        print(files.dumps(proposal, "toml"), end="")
    else:
        files.save(proposal, output)
        warn(f"{output}: {len(proposal.attributes)} attributes, {len(proposal.event_types)} event types")


# The extension rules as options of `tocsin schema extend`.


@dataclass(frozen=True, slots=True)
class ExtensionOptions:
    """What was asked for; None where an option was not given."""

    domain: str | None
    attribute: str | None
    event_type: str | None
    add: str | None
    values: list[str]
    alias: list[str]
    deprecate: list[str]
    request: Path | None


def apply_extension(schema: Schema, extension: ExtensionOptions) -> Schema:
    """Return the schema with the extension; raises a SchemaError and changes nothing where a part of it is wrong."""
    if extension.domain is not None:
        schema = schema.add_domain(_domain(extension.domain))
    if extension.attribute is not None:
        name, domain = _pair(extension.attribute, "--attribute NAME=DOMAIN")
        schema = schema.add_attribute(name, domain)
    if extension.event_type is not None:
        name, entries = _pair(extension.event_type, "--event-type NAME=ATTRIBUTE[:optional][:multiple],…")
        schema = schema.add_event_type(name, [_entry(entry) for entry in entries.split(",") if entry])
    if extension.add is not None:
        event_type, text = _pair(extension.add, "--add TYPE=ATTRIBUTE[:multiple]")
        entry = _entry(text)
        schema = schema.extend_event_type(event_type, entry.attribute, multiple=entry.multiple)
    for text in extension.values:
        place, listed = _pair(text, "--values DOMAIN=VALUE,… or DOMAIN/PARENT=VALUE,…")
        domain, _, below = place.partition("/")
        schema = schema.add_values(domain, [value.strip() for value in listed.split(",")], below=below or None)
    for text in extension.alias:
        name, meant = _pair(text, "--alias NAME=ATTRIBUTE or DOMAIN/NAME=VALUE")
        domain, slash, value = name.partition("/")
        schema = schema.add_value_alias(domain, value, meant) if slash else schema.add_alias(name, meant)
    for text in extension.deprecate:
        schema = schema.deprecate(*_pair(text, "--deprecate NAME=WORDS"))
    if extension.request is not None:
        schema = _apply_request(schema, extension.request)
    return schema


def _domain(text: str) -> Domain:
    from tocsin.schema.document import domain_from

    try:
        spec = msgspec.json.decode(text, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise BadDefinition(f"--domain: {error}") from None
    name = spec.pop("name", None)
    if not isinstance(name, str):
        raise BadDefinition('--domain: give it a name: {"name": "money", "kind": "numeric"}')
    return domain_from(name, spec, "--domain")


def _pair(text: str, usage: str) -> tuple[str, str]:
    left, equals, right = text.partition("=")
    if not equals or not left or not right:
        raise BadDefinition(f"{text!r}: expected {usage}")
    return left.strip(), right.strip()


def _entry(text: str) -> TypeAttribute:
    from tocsin.schema import TypeAttribute

    name, *words = text.strip().split(":")
    if unknown := set(words) - {"mandatory", "optional", "unique", "multiple"}:
        raise BadDefinition(f"{text!r}: {min(unknown)!r} is none of mandatory, optional, unique, multiple")
    return TypeAttribute(name, mandatory="optional" not in words, multiple="multiple" in words)


def _apply_request(schema: Schema, path: Path) -> Schema:
    from tocsin.xml.requests import read_request  # an extra: raises NotInstalled

    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileError(str(path), error.strerror or str(error)) from None
    request = read_request(content, schema)
    apply = getattr(request, "apply", None)
    if apply is None:
        raise BadDefinition(f"{path}: this request does not extend the schema")
    extended: Schema = apply(schema)
    return extended


# A schema for the terminal.


FORMATS = ("table", "toml", "json", "xml", "arrow", "json-schema", "dtd:KIND")


def render_schema(schema: Schema, format: str, event_types: Sequence[str]) -> str:
    """Return the schema, or the view over these event types, as text."""
    if format == "table":
        return _table(schema, event_types)
    if format.startswith("dtd:"):
        from tocsin.xml.requests import dtd

        return dtd(schema, format.removeprefix("dtd:"))
    if format not in _WRITERS:
        hint = did_you_mean(nearest(format, FORMATS))
        raise BadDefinition(f"there is no format {format!r}{hint}; there are: {', '.join(FORMATS)}")
    return _WRITERS[format](schema, event_types)


def _file(format: files.Format) -> Callable[[Schema, Sequence[str]], str]:
    def write(schema: Schema, _: Sequence[str]) -> str:
        from tocsin.schema import files

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
    from tocsin.schema import EnumeratedDomain, HierarchicalDomain, NumericDomain

    match domain:
        case EnumeratedDomain(values=values) | HierarchicalDomain(values=values):
            return ", ".join(values[:5]) + (f", … ({len(values)})" if len(values) > 5 else "")
        case NumericDomain():
            low = "" if domain.minimum is None else f"{domain.minimum} ≤ "
            high = "" if domain.maximum is None else f" ≤ {domain.maximum}"
            return f"{low}{domain.type}{high}"
    return ""
