"""`tocsin parse`: what an expression means to Tocsin."""

from __future__ import annotations

import sys

import typer

from tocsin.cli.console import JSON_OPTION, SCHEMA_OPTION, load_schema, print_json, warn


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
