"""`tocsin match`: events and offers against subscriptions, from files or standard input.

`tocsin explain`: why an event, or offer, does, or does not, satisfy a subscription.

`tocsin parse`: what an expression means to Tocsin.

`tocsin import`: rules of other systems as subscriptions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tocsin.cli.console import (
    JSON_OPTION,
    OPERATORS_OPTION,
    PROGRAMS_OPTION,
    SCHEMA_OPTION,
    load_schema,
    print_json,
    read_json_lines,
    read_lines,
    required_schema,
    warn,
)
from tocsin.cli.mapping import read_documents, read_mapping
from tocsin.errors import EventRejected, FileError, LanguageError, TocsinError

if TYPE_CHECKING:
    from tocsin.language.imports import Imported
    from tocsin.language.mapping import SiteMapping
    from tocsin.matching import Engine
    from tocsin.matching.engine import Failure, Match
    from tocsin.offers import Analysis, Programs
    from tocsin.operators.registry import Registry
    from tocsin.schema import Event, Schema


EVENTS_AT_ONCE = 1_000
MAPPING_OPTION = typer.Option(None, help="A mapping, .toml or .json: the events are a site's documents (.jsonl, .csv).")


def match(
    subscriptions: str = typer.Option(..., help="Subscriptions, a line each: JSON (any form) or text; - for stdin."),
    events: str = typer.Option(..., help="Events, and offers with rules, JSONL; - for standard input."),
    schema: str | None = SCHEMA_OPTION,
    mapping: Path | None = MAPPING_OPTION,
    engine: str = typer.Option("columnar", help="The engine: columnar, naive, or one of the papers' (docs/lab.md)."),
    operators: str = OPERATORS_OPTION,
    programs: str | None = PROGRAMS_OPTION,
    json: bool = JSON_OPTION,
) -> None:
    """Print one line per event: the ids of the subscriptions that it satisfies.

    Beside an id stand the values of its variables, and what an offer computes for it. Without --schema, attributes
    have the types of what they are compared with. Exit code 1: some lines were bad, or something failed; the rest was matched.
    """
    from tocsin.offers import Analysis, open_programs
    from tocsin.operators.registry import open_registry

    if subscriptions == "-" and events == "-":
        raise FileError("-", "only one of --subscriptions and --events can come from standard input")
    loaded = required_schema(schema) if mapping is not None else _schema(schema, subscriptions, events)
    site = None if mapping is None else mapping_of(mapping, loaded)
    registry, known = open_registry(operators), open_programs(programs, loaded)
    matcher, bad_subscriptions = _matcher(loaded, engine, subscriptions, registry, known)
    analysis = Analysis(loaded, known, registry)
    bad_events = failures = 0
    numbered = enumerate(read_documents(events), 1) if site is not None else read_json_lines(events)
    while batch := list(islice(numbered, EVENTS_AT_ONCE)):
        bad, failed = _match_batch(analysis, matcher, batch, site, json=json)
        bad_events, failures = bad_events + bad, failures + failed
    if bad_subscriptions or bad_events or failures:
        warn(f"{bad_subscriptions} bad subscriptions, {bad_events} bad events, {failures} failures")
        raise typer.Exit(1)


def _schema(name: str | None, subscriptions: str, events: str) -> Schema:
    """Return the schema of that name; without one, a dynamic one of the types that the files name."""
    if name is not None:
        return load_schema(name)
    from contextlib import suppress

    import msgspec

    from tocsin.language.documents import from_document
    from tocsin.schema import EVENT_TYPE, Schema

    types: dict[str, None] = {}
    for line in documents(read_lines(subscriptions)) if subscriptions != "-" else ():
        with suppress(LanguageError, msgspec.DecodeError):  # told when they are loaded
            types.update(dict.fromkeys(from_document(msgspec.json.decode(line))[1].event_types))
    for _, event in read_json_lines(events) if events != "-" else ():
        named = event.get(EVENT_TYPE, ()) if isinstance(event, dict) else ()
        types.update(
            dict.fromkeys(each for each in ([named] if isinstance(named, str) else named) if isinstance(each, str))
        )
    return Schema.dynamic(types)


def _matcher(schema: Schema, engine: str, path: str, operators: Registry, programs: Programs) -> tuple[Engine, int]:
    """Return the engine with the subscriptions of the file, and how many of its lines were bad."""
    from tocsin.matching import engine_of

    found = engine_of(engine)
    more: dict[str, Any] = {"operators": operators, "programs": programs} if found.capabilities.decided_leaves else {}
    matcher = found(schema, **more)
    errors = matcher.load(documents(read_lines(path)))
    for error in errors:
        warn(f"{path}: {error}")
    return matcher, len(errors)


def documents(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each line as a JSON document: a line that is not an object is an expression, its number its id."""
    import msgspec

    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith((b"{", b"[")):
            yield msgspec.json.encode({"id": str(number), "text": text.decode("utf-8", "replace")})
        else:
            yield line


def mapping_of(path: Path, schema: Schema) -> SiteMapping:
    """Return the mapping of a file, over a schema."""
    from tocsin.language.mapping import SiteMapping

    return SiteMapping(read_mapping(path), schema)


def _match_batch(
    analysis: Analysis, matcher: Engine, batch: list[tuple[int, Any]], site: SiteMapping | None, *, json: bool
) -> tuple[int, int]:
    """Print the matches of each event of the batch; return how many events were bad, and how many pairs failed."""
    from tocsin.language.mapping_columns import translate_batch
    from tocsin.language.offer import is_offer

    admitted: list[Event] = []
    rejected: dict[int, EventRejected] = {}
    given = [each for _, each in batch] if site is None else translate_batch(site, [each for _, each in batch])
    for (number, _), raw in zip(batch, given, strict=True):
        try:
            if isinstance(raw, EventRejected):
                raise raw
            admitted.append(analysis.analyse(raw) if is_offer(raw) else analysis.schema.admit(raw))
        except EventRejected as error:
            rejected[number] = error
    answers = iter(matcher.find_batch(admitted))
    failed = 0
    for number, _ in batch:
        if number in rejected:
            _print_rejection(number, rejected[number], json=json)
        else:
            matches, failures = next(answers)
            failed += len(failures)
            _print_matches(number, matches, failures, json=json)
    return len(rejected), failed


def _print_matches(number: int, matches: list[Match], failures: list[Failure], *, json: bool) -> None:
    from tocsin.language.explain import plain_values

    for one in failures:
        warn(f"event line {number}, subscription {one.id}: {one.reason}")
    ordered = sorted(matches, key=lambda one: (isinstance(one.id, str), one.id))
    if not json:
        sys.stdout.write(" ".join(map(_told, ordered)) + "\n")
        return
    computed = {str(one.id): plain_values(one.computed) for one in ordered if one.computed}
    bindings = {str(one.id): [plain_values(each) for each in one.bindings] for one in ordered if one.bindings}
    more = {"computed": computed, "bindings": bindings, "failures": {str(one.id): one.reason for one in failures}}
    told = {name: values for name, values in more.items() if values}
    print_json({"line": number, "matches": [one.id for one in ordered], **told})


def _told(match: Match) -> str:
    """Return an id with what is told beside it: 17(price=900, ?people=60)."""
    values = {name: value for name, value in match.computed.items() if value is not None}
    values |= {f"?{name}": value for each in match.bindings[:1] for name, value in each.items()}
    return f"{match.id}({', '.join(f'{name}={value}' for name, value in values.items())})" if values else str(match.id)


def _print_rejection(number: int, error: EventRejected, *, json: bool) -> None:
    warn(f"event line {number}: {error}")
    if json:
        print_json({"line": number, "violations": [str(violation) for violation in error.violations]})
    else:
        sys.stdout.write("\n")


# `tocsin explain`.


def explain(
    expression: str = typer.Argument(help="A subscription: car where price < 1300; insurance where … with age = 42."),
    event: str = typer.Argument(help="An event, or an offer with rules, as JSON; - for standard input."),
    schema: str | None = SCHEMA_OPTION,
    mapping: Path | None = MAPPING_OPTION,
    operators: str = OPERATORS_OPTION,
    programs: str | None = PROGRAMS_OPTION,
    json: bool = JSON_OPTION,
) -> None:
    """Say for each condition whether it held, with the actual values, and for each call of an operator what it found.

    Of an offer, its rules are told too, and what it computes for the one who asks. Without --schema, attributes have the
    types of what they are compared with.

    Exit code 1: the event does not match.
    """
    import msgspec

    from tocsin.language import bind
    from tocsin.language import explain as explain_pair
    from tocsin.language import parse as parse_text
    from tocsin.language.offer import is_offer
    from tocsin.language.syntax import names_of
    from tocsin.offers import Analysis, open_programs
    from tocsin.operators.registry import open_registry
    from tocsin.schema import Schema

    if schema is None and mapping is None:
        loaded = Schema.dynamic(parse_text(expression).event_types)
    else:
        loaded = required_schema(schema)
    try:
        raw = msgspec.json.decode(sys.stdin.read() if event == "-" else event)
    except msgspec.DecodeError as error:
        raise FileError("the event", f"not JSON: {error}") from None
    site = None if mapping is None else mapping_of(mapping, loaded)
    if site is not None:
        raw = site.translate(raw)
    registry = open_registry(operators)
    bound = bind(expression, loaded, operators=registry)
    analysis = Analysis(loaded, open_programs(programs, loaded), registry)
    found = explain_pair(bound, analysis.analyse(raw) if is_offer(raw) else loaded.admit(raw), registry)
    names = [] if site is None else names_of(bound.subscription.where)
    origins = {name: site.origins[name] for name in names if name in site.origins} if site is not None else {}
    if json:
        print_json({**found.as_json(), **({"origins": origins} if origins else {})})
    else:
        print(found)
        for name, fields in origins.items():
            print(f"{name} is from {', '.join(fields)}")
    if not found.matched:
        raise typer.Exit(1)


# `tocsin parse`.


def parse(
    expression: str = typer.Argument(help="A subscription, such as: car where price < 1300; - for standard input."),
    schema: str | None = SCHEMA_OPTION,
    json: bool = JSON_OPTION,
) -> None:
    """Show an expression's tree and, given a schema, its normal form and warnings. Exit code 1: there are warnings."""
    from tocsin.language import parse as parse_text
    from tocsin.language import render, to_json

    text = sys.stdin.read() if expression == "-" else expression
    tree = parse_text(text)
    result: dict[str, object] = {"text": render(tree), "tree": to_json(tree)}
    warnings: list[str] = []
    if schema is not None:
        from tocsin.compile import conjunction_text, normalise, warnings_of
        from tocsin.language import bind

        form = normalise(bind(tree, load_schema(schema), text=text))
        warnings = warnings_of(form)
        result["conjunctions"] = [conjunction_text(conjunction) for conjunction in form.conjunctions]
        result["warnings"] = warnings
    if json:
        print_json(result)
    else:
        _print_for_people(result, warnings)
    if warnings:
        raise typer.Exit(1)


def _print_for_people(result: dict[str, object], warnings: list[str]) -> None:
    from rich.console import Console
    from rich.json import JSON

    console = Console(highlight=False)
    console.print(result["text"], markup=False)
    console.print(JSON.from_data(result["tree"]))
    conjunctions = result.get("conjunctions")
    if isinstance(conjunctions, list):
        console.print(f"normal form: {len(conjunctions)} conjunction{'s' if len(conjunctions) != 1 else ''}")
        for conjunction in conjunctions:
            console.print(f"  {conjunction or 'every event'}", markup=False)
    for warning in warnings:
        warn(f"warning: {warning}")


def import_rules(
    kind: str = typer.Argument(help="The language of the rules: sigma, eventbridge or percolator."),
    files: list[Path] = typer.Argument(help="Files of rules, or folders of them."),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Where the subscriptions go, JSONL; else standard output."
    ),
    schema: str | None = SCHEMA_OPTION,
    report: Path | None = typer.Option(None, help="Where to say what became of each rule, JSONL."),
) -> None:
    """Print rules of other systems as subscriptions, a line each, with the ids that they have there.

    With --schema each is bound, too. Exit code 1: some rules could not be said in Tocsin; --report says why.
    """
    import json

    loaded = None if schema is None else load_schema(schema)
    lines, told, refused = [], [], 0
    for path in files:
        for file in sorted(path.rglob("*.*")) if path.is_dir() else [path]:
            if path.is_dir() and file.suffix not in (".yml", ".yaml", ".json", ".jsonl", ".sql", ".cesql", ".jms"):
                continue
            for rule, line in _imported(kind, file, loaded):
                refused += not line
                told.append(
                    {"file": str(file), "id": rule.id, "name": rule.name, "taken": bool(line), "reason": rule.reason}
                )
                lines += [line] if line else []
    text = "".join(f"{line}\n" for line in lines)
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")
    if report is not None:
        report.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in told), encoding="utf-8")
    warn(f"{len(lines):,} of {len(told):,} rules taken")
    if refused:
        raise typer.Exit(1)


def _imported(kind: str, file: Path, schema: Schema | None) -> Iterator[tuple[Imported, str]]:
    """Yield the rules of one file, each with its line; an empty one, and the reason, where there is none."""
    import json
    from dataclasses import replace

    from tocsin.language import bind, imports, render

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise FileError(str(file), str(error)) from None
    try:
        for rule in imports.import_rules(kind, text, source=file.name, schema=schema):
            if rule.subscription is None:
                yield rule, ""
                continue
            try:
                if schema is not None:
                    bind(rule.subscription, schema)
            except TocsinError as error:
                yield replace(rule, reason=str(error)), ""
            else:
                yield rule, json.dumps({"id": rule.id, "text": render(rule.subscription)}, ensure_ascii=False)
    except LanguageError as error:
        yield imports.Imported(file.name, file.name, reason=str(error)), ""
