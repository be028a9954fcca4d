"""`tocsin schema`: check, show, extend, infer."""

from __future__ import annotations

from pathlib import Path

import typer

from tocsin.cli.console import JSON_OPTION, load_schema, print_json, read_json_lines, warn
from tocsin.errors import BadDefinition

app = typer.Typer(help="Look at a schema, extend it, or propose one from sample events.", no_args_is_help=True)
_FILE = typer.Argument(help="A .json, .toml or .xml schema file, or an example's name (auction, thesis).")


@app.command()
def check(file: str = _FILE, json: bool = JSON_OPTION) -> None:
    """Load a schema and report what is redundant in it. Exit code 1: it loads, but there are findings."""
    from tocsin.schema.consolidate import consolidation_report

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
    from tocsin.cli.schema_view import render_schema

    event_types = [name.strip() for name in types.split(",") if name.strip()]
    print(render_schema(load_schema(file), "json" if json else format, event_types), end="")


@app.command()
def extend(
    file: str = _FILE,
    domain: str | None = typer.Option(None, help='A new domain, as JSON: {"name": "money", "kind": "numeric"}.'),
    attribute: str | None = typer.Option(None, help="A new attribute: NAME=DOMAIN."),
    event_type: str | None = typer.Option(None, help="A new event type: NAME=ATTRIBUTE[:optional][:multiple],…"),
    add: str | None = typer.Option(None, help="One more optional attribute of a type: TYPE=ATTRIBUTE[:multiple]."),
    request: Path | None = typer.Option(
        None, help="An XML request (ADD_DOMAIN, ADD_ATTRIBUTE, EXTENT_SCHEMA, ADD_EVENT)."
    ),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Write the new schema here instead of printing it."
    ),
) -> None:
    """Apply extension rules, in the order domain, attribute, event type, extension, request: all of them or none."""
    from tocsin.cli.schema_extension import Extension, apply_extension
    from tocsin.schema import files

    old = load_schema(file)
    new = apply_extension(old, Extension(domain, attribute, event_type, add, request))
    if new.version == old.version:
        raise BadDefinition("nothing to extend: give --domain, --attribute, --event-type, --add or --request")
    if output is None:
        print(files.dumps(new, "toml"), end="")
    else:
        files.save(new, output)
        warn(f"{output}: version {new.version}")


@app.command()
def infer(
    events: str = typer.Argument(help="Sample events, JSONL; - for standard input."),
    output: Path | None = typer.Option(None, "--output", "-o", help="Write the schema here instead of printing it."),
    enumerate_up_to: int = typer.Option(0, help="Make texts with at most so many distinct values enumerated."),
) -> None:
    """Propose a schema that all the sample events fit."""
    from tocsin.schema import files
    from tocsin.schema.infer import infer as infer_schema

    proposal = infer_schema((event for _, event in read_json_lines(events)), enumerate_up_to=enumerate_up_to)
    if output is None:
        print(files.dumps(proposal, "toml"), end="")
    else:
        files.save(proposal, output)
        warn(f"{output}: {len(proposal.attributes)} attributes, {len(proposal.event_types)} event types")
