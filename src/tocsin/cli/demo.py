"""`tocsin demo`: the auction house, in this process."""

from __future__ import annotations

import typer

from tocsin.cli.console import JSON_OPTION, print_json


def demo(
    subscriptions: int = typer.Option(5_000, min=1, help="How many subscriptions."),
    events: int = typer.Option(10_000, min=1, help="How many events."),
    engine: str = typer.Option("columnar", help="The engine: columnar, naive."),
    seed: int = typer.Option(2026, help="The same seed gives the same world."),
    json: bool = JSON_OPTION,
) -> None:
    """Match the events of an auction house against its members' subscriptions, and show what comes of it."""
    from dataclasses import asdict

    from rich.console import Console

    from tocsin.demo.run import run

    console = Console(stderr=json, quiet=json)
    summary = run(subscriptions=subscriptions, events=events, engine=engine, seed=seed, console=console)
    if json:
        print_json({**asdict(summary), "events_per_second": summary.events_per_second})
