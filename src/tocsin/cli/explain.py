"""`tocsin explain`: why an event does, or does not, satisfy a subscription."""

from __future__ import annotations

import sys

import typer

from tocsin.cli.console import JSON_OPTION, SCHEMA_OPTION, print_json, required_schema
from tocsin.errors import FileError


def explain(
    expression: str = typer.Argument(help="A subscription, such as: car where price < 1300."),
    event: str = typer.Argument(help="An event as JSON; - for standard input."),
    schema: str | None = SCHEMA_OPTION,
    operators: str = typer.Option(
        "installed",
        envvar="TOCSIN_OPERATORS",
        help="Operators that it may call: installed, a TOML file, module:function.",
    ),
    json: bool = JSON_OPTION,
) -> None:
    """Say for each predicate whether it held, with the actual value, and for each call of an operator what it found.

    Exit code 1: the event does not match.
    """
    import msgspec

    from tocsin.language import bind, parse
    from tocsin.operators.registries import open_registry

    loaded = required_schema(schema)
    bound = bind(parse(expression), loaded, text=expression)
    registry = open_registry(operators if bound.operators else None)
    bound = registry.bind(expression, loaded)
    try:
        raw = msgspec.json.decode(sys.stdin.read() if event == "-" else event)
    except msgspec.DecodeError as error:
        raise FileError("the event", f"not JSON: {error}") from None
    explanation = registry.explain(bound, loaded.admit(raw))
    if json:
        print_json(explanation.as_json())
    else:
        print(explanation)
    if not explanation.matched:
        raise typer.Exit(1)
