"""`tocsin mapping`: propose a mapping from samples, check one, try it, and see what it covers."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tocsin.cli.console import JSON_OPTION, load_schema, print_json, read_json_lines, warn
from tocsin.errors import EventRejected, FileError

if TYPE_CHECKING:
    from tocsin.language.mapping import MappingDocument, SiteMapping

app = typer.Typer(help="Translate a site's documents into events of a schema.", no_args_is_help=True)
_MAPPING = typer.Argument(help="A mapping, .toml or .json.")
_SAMPLES = typer.Argument(help="The site's documents: .jsonl, .csv, or - for JSONL from standard input.")
_SCHEMA = typer.Option(..., "--schema", "-s", help="The schema in force: a file, or an example's name.")
_SITE = typer.Option("site", help="The name of the site.")
_TYPE = typer.Option(None, "--type", help="The event type that its documents become.")
_OUTPUT = typer.Option(None, "--output", "-o", help="Write the mapping here instead of printing it.")


@app.command()
def infer(
    samples: str = _SAMPLES,
    schema: str = _SCHEMA,
    site: str = _SITE,
    event_type: str | None = _TYPE,
    output: Path | None = _OUTPUT,
) -> None:
    """Propose a mapping by names, types, values and units; what goes nowhere is said."""
    from tocsin.language.mapping_infer import infer_mapping

    proposal = infer_mapping(site, list(islice(read_documents(samples), 10_000)), load_schema(schema), event_type)
    for note in proposal.notes:
        warn(note)
    text = mapping_toml(proposal.document)
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, encoding="utf-8")


@app.command()
def check(mapping: Path = _MAPPING, schema: str = _SCHEMA, json: bool = JSON_OPTION) -> None:
    """Say whether a mapping fits a schema, which of its rules can be undone, and what it leaves open."""
    loaded = open_mapping(mapping, schema)
    view = loaded.schema.view(loaded.types)
    given = {name for rule in loaded.rules for name in rule.targets}
    open_ends = [name for name in view.mandatory if name not in given and name != "event_type"]
    one_way = [name for rule in loaded.rules if not rule.reversible for name in rule.targets]
    if json:
        print_json({"reversible": loaded.reversible, "one_way": one_way, "mandatory_without_rule": open_ends})
    else:
        print(f"{mapping}: version {loaded.document.version}, {len(loaded.rules)} rules")
        print(f"reversible: {'yes' if loaded.reversible else 'all but ' + ', '.join(one_way)}")
        for name in open_ends:
            print(f"mandatory, and no rule gives it: {name}")
    if open_ends:
        raise typer.Exit(1)


@app.command("try")
def try_out(
    mapping: Path = _MAPPING,
    samples: str = _SAMPLES,
    schema: str = _SCHEMA,
    limit: int = typer.Option(10, help="Documents to show."),
    json: bool = JSON_OPTION,
) -> None:
    """Show documents beside the events that they become, what is lost, and what is refused and why."""
    loaded = open_mapping(mapping, schema)
    refused = 0
    for document in islice(read_documents(samples), limit):
        told: dict[str, Any] = {"document": document, "lost": loaded.lost(document)}
        try:
            told["event"] = loaded.schema.admit(loaded.translate(document)).values
        except EventRejected as error:
            refused += 1
            told["refused"] = [str(each) for each in error.violations]
        if json:
            print_json(told)
            continue
        for name, value in told.items():
            print(f"{name}: {value}")
        print()
    if refused:
        raise typer.Exit(1)


@app.command()
def coverage(
    mapping: Path = _MAPPING, samples: str = _SAMPLES, schema: str = _SCHEMA, json: bool = JSON_OPTION
) -> None:
    """Count what becomes of all documents. Exit code 1: some are refused."""
    from tocsin.language.mapping_infer import coverage as count

    found = count(open_mapping(mapping, schema), list(read_documents(samples)))
    if json:
        print_json({"samples": found.samples, "admitted": found.admitted, "bound": found.bound, "lost": found.lost, "refused": found.refused})  # fmt: skip
    else:
        print("\n".join(found.lines()))
    if found.admitted < found.samples:
        raise typer.Exit(1)


def open_mapping(path: Path, schema: str) -> SiteMapping:
    """Return the mapping of a file over a schema."""
    from tocsin.language.mapping import SiteMapping

    return SiteMapping(read_mapping(path), load_schema(schema))


def read_mapping(path: Path) -> MappingDocument:
    """Return the mapping of a file."""
    from tocsin.language.mapping import load_mapping

    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileError(str(path), error.strerror or str(error)) from None
    return load_mapping(content, "json" if path.suffix == ".json" else "toml")


def read_documents(path: str) -> Iterator[dict[str, Any]]:
    """Yield the documents of a file of lines of JSON, or of comma-separated values, whose values are texts."""
    if not path.endswith(".csv"):
        yield from (document for _, document in read_json_lines(path))
        return
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            yield from csv.DictReader(file)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FileError(path, str(error)) from None


def mapping_toml(document: MappingDocument) -> str:
    """Return a mapping as TOML."""
    import msgspec

    from tocsin.schema.document import key
    from tocsin.schema.files import toml_value

    fields: dict[str, Any] = msgspec.to_builtins(document)
    rules, source = fields.pop("rules"), fields.pop("source", {})
    parts = ["\n".join(f"{key(name)} = {toml_value(value)}" for name, value in fields.items())]
    if source:
        parts.append("\n".join(["[source]", *(f"{key(name)} = {toml_value(each)}" for name, each in source.items())]))
    for rule in rules:
        parts.append("\n".join(["[[rules]]", *(f"{key(name)} = {toml_value(value)}" for name, value in rule.items())]))
    return "\n\n".join(parts) + "\n"
