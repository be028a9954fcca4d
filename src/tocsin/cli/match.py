"""`tocsin match`: events against subscriptions, from files or standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer

from tocsin.cli.console import JSON_OPTION, SCHEMA_OPTION, load_schema, print_json, read_json_lines, read_lines, warn
from tocsin.errors import EventRejected, FileError

if TYPE_CHECKING:
    from tocsin.matching import Engine
    from tocsin.schema import Event, Schema

EVENTS_AT_ONCE = 1_000


def match(
    subscriptions: str = typer.Option(..., help="Subscriptions, a line each: JSON (any form) or text; - for stdin."),
    events: str = typer.Option(..., help="Events, JSONL; - for standard input."),
    schema: str | None = SCHEMA_OPTION,
    engine: str = typer.Option("columnar", help="The engine: columnar, naive, or one of the papers' (docs/lab.md)."),
    json: bool = JSON_OPTION,
) -> None:
    """Print one line per event: the ids of the subscriptions that it satisfies.

    Without --schema, one is proposed from the events. Exit code 1: some lines were bad; the rest was matched.
    """
    if subscriptions == "-" and events == "-":
        raise FileError("-", "only one of --subscriptions and --events can come from standard input")
    loaded = _schema(schema, events)
    matcher, bad_subscriptions = _matcher(loaded, engine, subscriptions)
    bad_events = 0
    numbered = read_json_lines(events)
    while batch := list(islice(numbered, EVENTS_AT_ONCE)):
        bad_events += _match_batch(loaded, matcher, batch, json=json)
    if bad_subscriptions or bad_events:
        warn(f"{bad_subscriptions} bad subscriptions, {bad_events} bad events")
        raise typer.Exit(1)


def _schema(name: str | None, events: str) -> Schema:
    if name is not None:
        return load_schema(name)
    if events == "-":
        raise FileError("-", "events from standard input need --schema FILE")
    from tocsin.schema.infer import infer

    return infer(event for _, event in read_json_lines(events))


def _matcher(schema: Schema, engine: str, path: str) -> tuple[Engine, int]:
    """Return the engine with the subscriptions of the file, and how many of its lines were bad."""
    from tocsin.matching import engine_of

    matcher = engine_of(engine)(schema)
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


def _match_batch(schema: Schema, matcher: Engine, batch: list[tuple[int, Any]], *, json: bool) -> int:
    """Print the matches of each event of the batch; return how many events were bad."""
    admitted: list[Event] = []
    rejected: dict[int, EventRejected] = {}
    for number, raw in batch:
        try:
            admitted.append(schema.admit(raw))
        except EventRejected as error:
            rejected[number] = error
    matches = iter(matcher.match_batch(admitted))
    for number, _ in batch:
        if number in rejected:
            _print_rejection(number, rejected[number], json=json)
        else:
            _print_matches(number, next(matches), json=json)
    return len(rejected)


def _print_matches(number: int, ids: list[Any], *, json: bool) -> None:
    ordered = sorted(ids, key=lambda id: (isinstance(id, str), id))
    if json:
        print_json({"line": number, "matches": ordered})
    else:
        sys.stdout.write(" ".join(map(str, ordered)) + "\n")


def _print_rejection(number: int, error: EventRejected, *, json: bool) -> None:
    warn(f"event line {number}: {error}")
    if json:
        print_json({"line": number, "violations": [str(violation) for violation in error.violations]})
    else:
        sys.stdout.write("\n")
