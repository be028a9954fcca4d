"""`tocsin capacity`: what a load takes on a cluster, and what breaks first (pipeline/capacity.py, docs/scale.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tocsin.cli.console import JSON_OPTION, SCHEMA_OPTION, print_json, read_lines, required_schema

if TYPE_CHECKING:
    from tocsin.pipeline.capacity import CapacityPlan, Load, MachineFigures


def capacity(
    subscriptions: float = typer.Option(..., min=1, help="How many there will be, such as 1e9."),
    events_per_second: float = typer.Option(..., min=0, help="At the peak, such as 1e6."),
    matches_per_event: float = typer.Option(..., min=0, help="How many subscriptions an event reaches, on average."),
    measure: bool = typer.Option(
        False, "--measure", help="Measure this machine at length, with five times the sample."
    ),
    sample_subscriptions: str | None = typer.Option(None, help="Subscriptions of yours, a JSON document a line."),
    sample_events: str | None = typer.Option(None, help="Events of yours, a JSON object a line; give both."),
    schema: str | None = SCHEMA_OPTION,
    cores_per_executor: int = typer.Option(4, min=1, help="Of an executor."),
    executor_gigabytes: float = typer.Option(32.0, min=1, help="Memory of an executor."),
    network_gigabits: float = typer.Option(10.0, min=0.1, help="Of a host."),
    busy: float = typer.Option(0.6, min=0.05, max=1.0, help="The share of time that cores may be busy."),
    sink: str = typer.Option("files", help="files, which workers write themselves; or store, through one driver."),
    json: bool = JSON_OPTION,
) -> None:
    """Say how many shards, executors and cores a load takes, how much memory and network, and what breaks first."""
    import msgspec

    from tocsin.pipeline.capacity import QUICK, THOROUGH, Load, plan_capacity

    made = THOROUGH if measure else QUICK
    figures = _measured(sample_subscriptions, sample_events, schema, matches_per_event, made)
    load = Load(
        subscriptions=subscriptions, events_per_second=events_per_second, matches_per_event=matches_per_event,
        cores_per_executor=cores_per_executor, executor_memory_bytes=executor_gigabytes * 1e9,
        network_bytes_per_second=network_gigabits * 1.25e8, busy=busy, sink=sink,
    )  # fmt: skip
    plan = plan_capacity(load, figures)
    if json:
        print_json({name: msgspec.to_builtins(each) for name, each in
                    (("plan", plan), ("load", load), ("figures", figures))})  # fmt: skip
    else:
        print(_told(load, figures, plan))


def _measured(
    subscriptions: str | None, events: str | None, schema: str | None, matches_per_event: float, made: int
) -> MachineFigures:
    import msgspec

    from tocsin.pipeline.capacity import made_sample, measure_figures

    if subscriptions is None and events is None:
        return measure_figures(*made_sample(made, matches_per_event))
    if subscriptions is None or events is None:
        raise typer.BadParameter("give both: --sample-subscriptions and --sample-events")
    given = [msgspec.json.decode(line) for line in read_lines(events)]
    return measure_figures(required_schema(schema), [_text(line) for line in read_lines(subscriptions)], given)


def _text(line: bytes | str) -> str:
    return line.decode() if isinstance(line, bytes) else line


def _told(load: Load, figures: MachineFigures, plan: CapacityPlan) -> str:
    what, share = plan.limits[0]
    breaks = f"{what} ({share:.0%} of what there is)"
    if share > 1:
        breaks += ": this does not hold"
    lines = [
        (
            f"{load.subscriptions:,.0f} subscriptions, {load.events_per_second:,.0f} events/s, "
            f"{load.matches_per_event:g} matches an event, into {'a store' if load.sink == 'store' else 'files'}:"
        ),
        f"  shards          {plan.shards:,} of {plan.subscriptions_per_shard:,} subscriptions; every event goes to each",
        f"  executors       {plan.executors:,} of {load.cores_per_executor} cores and {load.executor_memory_bytes / 1e9:g} GB",
        f"  cores           {plan.cores:,} at {load.busy:.0%}; an event takes {plan.event_us:.1f} us of one in a shard",
        f"  memory          {plan.memory_bytes / 1e9:,.0f} GB; the index has {plan.index_bytes / 1e9:,.1f} GB",
        f"  network         {plan.network_in / 1e6:,.0f} MB/s of events in, {plan.network_out / 1e6:,.0f} MB/s of matches out",
        f"  compiling       {plan.compile_core_hours:,.1f} hours of one core, once",
        f"  breaks first    {breaks}",
        (
            f"from {figures.search_us:.2f} us to search {figures.subscriptions:,} subscriptions, growing as their number to the "
            f"{figures.growth:.2f}; {figures.bytes_per_subscription:.0f} bytes each"
        ),
    ]
    return "\n".join(lines)
