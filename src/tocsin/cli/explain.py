"""`tocsin explain`: why an event, or offer, does, or does not, satisfy a subscription."""

from __future__ import annotations

import sys

import typer

from tocsin.cli.console import (
    JSON_OPTION,
    OPERATORS_OPTION,
    PROGRAMS_OPTION,
    SCHEMA_OPTION,
    print_json,
    required_schema,
)
from tocsin.errors import FileError


def explain(
    expression: str = typer.Argument(help="A subscription: car where price < 1300; insurance where … with age = 42."),
    event: str = typer.Argument(help="An event, or an offer with rules, as JSON; - for standard input."),
    schema: str | None = SCHEMA_OPTION,
    operators: str = OPERATORS_OPTION,
    programs: str | None = PROGRAMS_OPTION,
    json: bool = JSON_OPTION,
) -> None:
    """Say for each condition whether it held, with the actual values, and for each call of an operator what it found.

    Of an offer, its rules are told too, and what it computes for the one who asks.

    Exit code 1: the event does not match.
    """
    import msgspec

    from tocsin.language import bind
    from tocsin.language import explain as explain_pair
    from tocsin.language.offer import is_offer
    from tocsin.offers import Analysis, open_programs
    from tocsin.operators.registries import open_registry

    loaded = required_schema(schema)
    try:
        raw = msgspec.json.decode(sys.stdin.read() if event == "-" else event)
    except msgspec.DecodeError as error:
        raise FileError("the event", f"not JSON: {error}") from None
    registry = open_registry(operators)
    bound = bind(expression, loaded, operators=registry)
    analysis = Analysis(loaded, open_programs(programs, loaded), registry)
    found = explain_pair(bound, analysis.analyse(raw) if is_offer(raw) else loaded.admit(raw), registry)
    if json:
        print_json(found.as_json())
    else:
        print(found)
    if not found.matched:
        raise typer.Exit(1)
