"""`tocsin demo`: the auction house or flights, with pages, on local Spark, or in this process; or cameras."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from tocsin.cli.console import JSON_OPTION, print_json
from tocsin.errors import NotSupported, TocsinError

if TYPE_CHECKING:
    from rich.console import Console

ON_SPARK = (100_000, 12_000)  # subscriptions, events
INLINE = (20_000, 10_000)
IN_PROCESS = (5_000, 10_000)
SNAPSHOTS = 200


def demo(
    subscriptions: int | None = typer.Option(None, min=1, help="How many; 100,000 on Spark, fewer without."),
    events: int | None = typer.Option(None, min=1, help="How many; 12,000 on Spark, 10,000 without."),
    engine: str = typer.Option(
        "spark", help="Who matches: spark (local, with pages), inline (the service itself, with pages), or an engine "
        "alone, without pages (columnar, naive, …).",
    ),
    world: str = typer.Option(
        "auction", help="What it is about: auction, flights (real ones, of 2013), or cameras (operators over snapshots; "
        "a map, no pages).",
    ),
    schedule: str = typer.Option(
        "adaptive", help="In which order cameras evaluate operators: adaptive, naive; with tocsin-lab sub-order, sequential."
    ),
    rate: int = typer.Option(500, min=1, help="Events published a second, where there are pages."),
    port: int | None = typer.Option(None, min=0, max=65535, help="Of the pages; 0: any free one.  [8080, or a free one]"),
    serve: bool = typer.Option(False, "--serve", help="Go on until Ctrl-C."),
    browser: bool = typer.Option(True, help="Open the dashboard in a browser, where there is a desktop."),
    sites: bool = typer.Option(False, "--sites", help="Only show how the two sites' events are translated."),
    seed: int = typer.Option(2026, help="The same seed gives the same world."),
    json: bool = JSON_OPTION,
) -> None:  # fmt: skip
    """Match the events of an auction market against its members' subscriptions, and show what comes of it.

    Two sites publish into one schema; the pages show it live. It ends by itself, with a summary.
    """
    from dataclasses import asdict

    from rich.console import Console

    console = Console(stderr=json, quiet=json)
    if sites:
        from tocsin_examples.show_sites import show_sites

        show_sites(seed, console)
        return
    if world == "cameras":
        from tocsin_examples.run_cameras import run as run_cameras

        seen = run_cameras(events=events or SNAPSHOTS, schedule=schedule, seed=seed, console=console)
        if json:
            print_json(asdict(seen))
        return
    summary: Any
    if engine in ("spark", "inline"):
        summary = _with_pages(
            subscriptions, events, engine, world, rate, seed, console, port, serve=serve, browser=browser
        )
    else:
        from tocsin_examples.run import run

        summary = run(
            subscriptions=subscriptions or IN_PROCESS[0],
            events=events or IN_PROCESS[1],
            engine=engine,
            seed=seed,
            console=console,
        )
    if json:
        print_json({**asdict(summary), "events_per_second": summary.events_per_second})


def _with_pages(
    subscriptions: int | None, events: int | None, engine: str, world: str, rate: int, seed: int, console: Console,
    port: int | None, *, serve: bool, browser: bool,
) -> Any:  # fmt: skip
    import signal

    from tocsin.pipeline.session import require_spark
    from tocsin_examples.house import ENDLESS
    from tocsin_examples.welcome import opener
    from tocsin_examples.worlds import WORLDS

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends it as Ctrl-C does, also where nobody can press it
    if world not in WORLDS:
        raise TocsinError(f"there is no world {world!r}; there are: {', '.join(WORLDS)}, cameras")
    if engine == "spark":
        try:
            require_spark()
        except NotSupported as error:
            engine = "inline"
            console.print(
                f"Note: {error}\nSo this is the demo without Spark: the service matches inline.\n", markup=False
            )
    sizes = ON_SPARK if engine == "spark" else INLINE
    asked: dict[str, Any] = {
        "subscriptions": subscriptions or sizes[0],
        "events": ENDLESS if serve else events or sizes[1],
        "rate": rate,
        "seed": seed,
        "console": console,
        "open_house": opener(
            console, world, port, "pipeline" if engine == "spark" else "inline", serve=serve, browser=browser
        ),
    }
    if engine == "spark":
        from tocsin_examples.on_spark import run_on_spark

        return run_on_spark(**asked)
    from tocsin_examples.inline import run_inline

    return run_inline(**asked)
