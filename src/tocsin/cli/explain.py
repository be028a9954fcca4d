"""`tocsin explain`: why an event does, or does not, satisfy a subscription."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from tocsin.cli.console import JSON_OPTION, SCHEMA_OPTION, print_json, required_schema
from tocsin.errors import FileError, LanguageError

if TYPE_CHECKING:
    from tocsin.language import Subscription
    from tocsin.schema import Schema
    from tocsin.symmetric import Offer
    from tocsin.symmetric.two_sided import TwoSided


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

    A subscription of a union is explained with its own properties; the event may be an offer with rules.

    Exit code 1: the event does not match.
    """
    import msgspec

    from tocsin.language import bind, parse
    from tocsin.operators.registries import open_registry
    from tocsin.symmetric.two_sided import is_offer

    loaded = required_schema(schema)
    try:
        raw = msgspec.json.decode(sys.stdin.read() if event == "-" else event)
    except msgspec.DecodeError as error:
        raise FileError("the event", f"not JSON: {error}") from None
    subscription = parse(expression)
    both = _two_sided(expression, subscription, loaded)
    if both is not None and (both.speaks_of_itself or is_offer(raw)):
        given = _offer(raw, both) if is_offer(raw) else loaded.admit(raw)
        told = both.explain(given)
        _show(told, {**both.explain_as_one(given).as_json(), "meeting": told.as_json()}, json=json)
        return
    bound = bind(subscription, loaded, text=expression)
    registry = open_registry(operators if bound.operators else None)
    explanation = registry.explain(registry.bind(expression, loaded), loaded.admit(raw))
    _show(explanation, explanation.as_json(), json=json)


def _two_sided(text: str, subscription: Subscription, schema: Schema) -> TwoSided | None:
    """Return a subscription of a union; None for others, among them those that call operators."""
    from tocsin.language import bind
    from tocsin.symmetric.two_sided import TwoSided

    try:
        return TwoSided.of(subscription, schema)
    except LanguageError as error:
        with suppress(LanguageError):
            if bind(subscription, schema).operators:
                return None
        if error.span is not None:
            error.text = text
        raise


def _offer(raw: object, both: TwoSided) -> Offer:
    from tocsin.symmetric.offer import bind_offer

    assert isinstance(raw, dict)
    return bind_offer({name: value for name, value in raw.items() if name != "ttl_seconds"}, both.meeting)


def _show(explanation: object, document: dict[str, object], *, json: bool) -> None:
    if json:
        print_json(document)
    else:
        print(explanation)
    if not document["matched"]:
        raise typer.Exit(1)
