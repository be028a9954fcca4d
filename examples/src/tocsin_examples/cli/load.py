"""`tocsin load`: the thesis's random client, against a running service."""

from __future__ import annotations

import typer

from tocsin.cli.console import JSON_OPTION, print_json


def load(
    url: str = typer.Argument("http://127.0.0.1:8080", help="Where the service is."),
    token: str = typer.Option(..., envvar="TOCSIN_TOKEN", help="An API token."),
    seconds: float = typer.Option(10.0, min=0.1, help="How long."),
    clients: int = typer.Option(8, min=1, help="Requests under way at a time."),
    rate: float = typer.Option(0.0, min=0, help="Requests a second in all; 0: as many as there can be."),
    publish: float = typer.Option(0.8, min=0, max=1, help="The share of requests that publish."),
    subscribe: float = typer.Option(0.1, min=0, max=1, help="The share that subscribe; the rest unsubscribe and read."),
    batch: int = typer.Option(1, min=1, help="Events in one publish."),
    seed: int = typer.Option(2026, help="The same seed asks the same."),
    json: bool = JSON_OPTION,
) -> None:
    """Subscribe, publish, unsubscribe and read at random; print rates and latencies. Exit code 1: some requests failed."""
    import asyncio

    from tocsin_examples.load import Mix, run_load

    mix = Mix(publish, subscribe, batch)
    found = asyncio.run(run_load(url, token, seconds=seconds, clients=clients, rate=rate, mix=mix, seed=seed))
    if json:
        print_json(found)
    else:
        print(found)
    if found.failed:
        raise typer.Exit(1)
