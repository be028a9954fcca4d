"""`tocsin symmetric`: offers and subscribers of a matchmaking union, from files."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

import typer

from tocsin.cli.console import (
    JSON_OPTION,
    SCHEMA_OPTION,
    print_json,
    read_json_lines,
    read_lines,
    required_schema,
    warn,
)
from tocsin.errors import EventRejected, FileError

if TYPE_CHECKING:
    from tocsin.symmetric import Matched, Matchmaker

app = typer.Typer(help="Both sides choose: offers with rules meet subscribers with properties.", no_args_is_help=True)

SUBSCRIBERS = typer.Option(..., help="Subscribers, a line each: JSON, or text with `with age = 42, …`; - for stdin.")
OFFERS = typer.Option(..., help="Offers, JSONL: event, rules, dynamic; - for standard input.")
PROGRAMS = typer.Option(None, help="Programs, JSONL: name, version, parameters, returns, expression.")
TOGETHER = 256  # offers that are read before they are matched
UNION = typer.Option(None, help="The matchmaking union; the schema's only one by default.")


@app.command("match")
def match(
    subscribers: str = SUBSCRIBERS,
    offers: str = OFFERS,
    schema: str | None = SCHEMA_OPTION,
    union: str | None = UNION,
    programs: str | None = PROGRAMS,
    json: bool = JSON_OPTION,
) -> None:
    """Print one line per offer: whom it matches, and what was computed for each.

    Exit code 1: some lines were bad, or some pairs failed; the rest was matched.
    """
    matchmaker, bad = _matchmaker(schema, union, programs, subscribers)
    lines = read_json_lines(offers)
    while batch := list(islice(lines, TOGETHER)):
        analysed = []
        for number, document in batch:
            try:
                analysed.append((number, matchmaker.analyse(document)))
            except EventRejected as error:
                warn(f"offer line {number}: {error}")
                bad += 1
        answers = matchmaker.match_all((offer for _, offer in analysed), threads=os.cpu_count() or 1)
        for (number, _), found in zip(analysed, answers, strict=True):
            bad += _print_matched(number, found, json=json)
    if bad:
        raise typer.Exit(1)


def _print_matched(number: int, found: Matched, *, json: bool) -> int:
    """Print whom the offer of a line met; return how many pairs failed."""
    for failure in found.failures:
        warn(f"offer line {number}, subscriber {failure.id}: {failure.reason}")
    matches = [{"id": one.id, "values": dict(one.values)} for one in found.notifications()]
    if json:
        print_json({"line": number, "matches": matches, "failures": len(found.failures), "plan": found.plan.why})
    else:
        print(" ".join(f"{one.id}{_values(dict(one.values))}" for one in found.notifications()))
    return len(found.failures)


@app.command("explain")
def explain(
    subscriber: str = typer.Argument(help="A subscription: insurance where price <= 700 with age = 42."),
    offer: str = typer.Argument(help="An offer as JSON."),
    schema: str | None = SCHEMA_OPTION,
    union: str | None = UNION,
    programs: str | None = PROGRAMS,
    json: bool = JSON_OPTION,
) -> None:
    """Say for each condition of both sides whether it held. Exit code 1: they do not match."""
    import msgspec

    from tocsin.symmetric import explain as explain_pair

    matchmaker, _ = _matchmaker(schema, union, programs, None)
    try:
        document = msgspec.json.decode(offer)
    except msgspec.DecodeError as error:
        raise FileError("the offer", f"not JSON: {error}") from None
    bound = matchmaker.bind_subscriber("subscriber", subscriber)
    explanation = explain_pair(matchmaker.analyse(document), bound, matchmaker.meeting)
    if json:
        print_json(explanation.as_json())
    else:
        print(explanation)
    if not explanation.verdict.matched:
        raise typer.Exit(1)


@app.command("query")
def query(
    subscriber: str = typer.Argument(help="A subscription: insurance where price <= 700 with age = 42."),
    offers: str = OFFERS,
    schema: str | None = SCHEMA_OPTION,
    union: str | None = UNION,
    programs: str | None = PROGRAMS,
    json: bool = JSON_OPTION,
) -> None:
    """Print the offers that a subscription meets, by line number, with what is computed. Exit code 1: a bad offer."""
    matchmaker, bad = _matchmaker(schema, union, programs, None)
    for number, document in read_json_lines(offers):
        try:
            matchmaker.advertise(number, document)
        except EventRejected as error:
            warn(f"offer line {number}: {error}")
            bad += 1
    for line, verdict in matchmaker.query(subscriber):
        if json:
            print_json({"line": line, "values": dict(verdict.values)})
        else:
            print(f"{line}{_values(dict(verdict.values))}")
    if bad:
        raise typer.Exit(1)


def _matchmaker(
    schema: str | None, union: str | None, programs: str | None, subscribers: str | None
) -> tuple[Matchmaker, int]:
    """Return a matchmaker with the programs and subscribers of the files, and how many lines were bad."""
    from tocsin.cli.match import documents
    from tocsin.symmetric import Matchmaker, load_subscribers
    from tocsin.symmetric.load import program_from

    matchmaker = Matchmaker(required_schema(schema), union)
    for _, document in read_json_lines(programs) if programs else ():
        matchmaker.programs.register(program_from(document, matchmaker))
    errors = load_subscribers(matchmaker, documents(read_lines(subscribers))) if subscribers else []
    for error in errors:
        warn(f"{subscribers}: {error}")
    return matchmaker, len(errors)


def _values(values: dict[str, object]) -> str:
    return "(" + ", ".join(f"{name}={value}" for name, value in values.items()) + ")" if values else ""
