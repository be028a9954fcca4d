"""`tocsin demo`: the auction house, on local Spark, or in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from tocsin.cli.console import JSON_OPTION, print_json
from tocsin.errors import NotSupported

if TYPE_CHECKING:
    from rich.console import Console

ON_SPARK = (100_000, 20_000)  # subscriptions, events
IN_PROCESS = (5_000, 10_000)


def demo(
    subscriptions: int | None = typer.Option(None, min=1, help="How many; 5,000 in this process, 100,000 on Spark."),
    events: int | None = typer.Option(None, min=1, help="How many; 10,000 in this process, 20,000 on Spark."),
    engine: str = typer.Option(
        "spark", help="The pipeline on local Spark, or an engine in this process (columnar, naive, …)."
    ),
    rate: int = typer.Option(500, min=1, help="Events published a second, on Spark."),
    seed: int = typer.Option(2026, help="The same seed gives the same world."),
    json: bool = JSON_OPTION,
) -> None:
    """Match the events of an auction house against its members' subscriptions, and show what comes of it."""
    from dataclasses import asdict

    from rich.console import Console

    console = Console(stderr=json, quiet=json)
    summary: Any = None
    if engine == "spark":
        summary = _on_spark(subscriptions, events, rate, seed, console)
    if summary is None:
        from tocsin.demo.run import run

        summary = run(
            subscriptions=subscriptions or IN_PROCESS[0],
            events=events or IN_PROCESS[1],
            engine="columnar" if engine == "spark" else engine,
            seed=seed,
            console=console,
        )
    if json:
        print_json({**asdict(summary), "events_per_second": summary.events_per_second})


def _on_spark(subscriptions: int | None, events: int | None, rate: int, seed: int, console: Console) -> Any:
    """Return the summary of the demo on Spark; None, with a note, where Spark cannot run."""
    from tocsin.pipeline.session import require_spark

    try:
        require_spark()
    except NotSupported as error:
        console.print(f"Note: {error}\nSo this is the demo without Spark, in this process.\n", markup=False)
        return None
    from tocsin.demo.on_spark import run_on_spark

    return run_on_spark(
        subscriptions=subscriptions or ON_SPARK[0],
        events=events or ON_SPARK[1],
        rate=rate,
        seed=seed,
        console=console,
    )
