"""`tocsin bench`: measure an engine on files, and make the files of the papers' workloads."""

from __future__ import annotations

from pathlib import Path

import typer

from tocsin.cli.console import JSON_OPTION, SCHEMA_OPTION, load_schema, print_json, warn

app = typer.Typer(help="Measure matching, on your own files or on seeded workloads.", no_args_is_help=True)


@app.command()
def match(
    subscriptions: Path = typer.Option(..., help="Subscriptions in the bulk form, JSONL."),
    events: Path = typer.Option(..., help="Events, JSONL."),
    schema: str | None = SCHEMA_OPTION,
    engine: str = typer.Option("columnar", help="The engine."),
    batch: int = typer.Option(1_000, min=1, help="Events matched at once."),
    json: bool = JSON_OPTION,
) -> None:
    """Check a sample of an engine's answers against the definition, then time it."""
    from tocsin_lab.bench.measure import measure

    loaded = None if schema is None else load_schema(schema)
    figures = measure(subscriptions, events, schema=loaded, engine=engine, batch=batch)
    if json:
        print_json(figures.as_json())
        return
    size = figures.bytes_per_subscription
    print(f"engine                  {figures.engine}")
    print(f"subscriptions           {figures.subscriptions:,}")
    print(f"events                  {figures.events:,}")
    print(f"matches                 {figures.matches:,}")
    print(f"pairs checked           {figures.checked_pairs:,}")
    print(f"load                    {figures.load_seconds:.2f} s")
    print(f"build                   {figures.build_seconds:.2f} s")
    print(f"bytes per subscription  {'-' if size is None else f'{size:.1f}'}")
    print(f"events/s, best of 5     {figures.events_per_second_best:,.0f}")
    print(f"events/s, median        {figures.events_per_second_median:,.0f}")
    print(f"single event, p50       {figures.single_p50_us:.0f} µs")
    print(f"single event, p99       {figures.single_p99_us:.0f} µs")
    print(f"peak memory             {figures.peak_megabytes:,.0f} MB")


@app.command()
def workload(
    name: str = typer.Argument(
        help="topss, fabret, market, cents, rein, rein-attributes, rein-values, thesis, debs, rules or news."
    ),
    subscriptions: int = typer.Option(100_000, min=1),
    events: int = typer.Option(10_000, min=1),
    out: Path = typer.Option(..., help="The folder for subscriptions.jsonl and events.jsonl."),
    seed: int = typer.Option(0),
) -> None:
    """Write a seeded workload: the same seed gives the same files."""
    from tocsin_lab.bench.write_workload import write_workload

    write_workload(name, subscriptions, events, out, seed)
    warn(f"{out}: {subscriptions:,} subscriptions, {events:,} events")
