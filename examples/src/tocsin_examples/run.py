"""The demo: subscriptions and events of an auction house, matched in this process, with a summary at the end."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tocsin.language import BoundSubscription, bind, explain, parse
from tocsin.matching import Engine, SubscriptionId, engine_of
from tocsin.schema import Event
from tocsin_examples.auction import Auction

BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Summary:
    """What the demo did."""

    subscriptions: int
    events: int
    matches: int
    seconds: float
    engine: str

    @property
    def events_per_second(self) -> float:
        return self.events / self.seconds


def run(*, subscriptions: int, events: int, engine: str, seed: int, console: Console) -> Summary:
    """Run the demo and print it; return its figures."""
    auction = Auction(seed)
    console.print(
        f"An auction house: {subscriptions:,} subscriptions of its members, {events:,} events, engine {engine}.\n"
    )
    bound = _subscribe(auction, subscriptions, console)
    matcher = engine_of(engine)(auction.schema)
    matcher.add_all(bound.items())
    stream = [
        auction.schema.admit(raw)
        for raw in track(auction.events(events), "admitting", events, console=console, transient=True)
    ]
    matcher.match_batch(stream[:1])  # kernels compile, or load, here
    started = time.perf_counter()
    found = _match(matcher, stream, console)
    seconds = time.perf_counter() - started
    summary = Summary(len(bound), len(stream), sum(map(len, found)), seconds, engine)
    _print_matches(console, bound, stream, found)
    _print_near_miss(console, bound, stream, found)
    _print_summary(console, summary)
    return summary


def _subscribe(auction: Auction, count: int, console: Console) -> dict[SubscriptionId, BoundSubscription]:
    texts = track(auction.subscriptions(count), "subscribing", count, console=console, transient=True)
    return {id: bind(parse(text), auction.schema, text=text) for id, text in texts}


def _match(matcher: Engine, stream: list[Event], console: Console) -> list[list[SubscriptionId]]:
    found: list[list[SubscriptionId]] = []
    for start in track(range(0, len(stream), BATCH), "matching", console=console, transient=True):
        found += matcher.match_batch(stream[start : start + BATCH])
    return found


def _print_matches(
    console: Console,
    bound: dict[SubscriptionId, BoundSubscription],
    stream: list[Event],
    found: list[list[SubscriptionId]],
) -> None:
    """Print one match of each of the first events of different kinds, with its reasons."""
    shown: set[str] = set()
    for event, ids in zip(stream, found, strict=True):
        if ids and event.types[0] not in shown and len(shown) < 3:
            shown.add(event.types[0])
            console.print(
                f"[bold]{event.values['title'][0]}[/bold] ({event.types[0]}) interests {len(ids)}; {ids[0]}, for one:"
            )
            console.print(f"{explain(bound[ids[0]], event)}\n", markup=False, highlight=False, soft_wrap=True)


def _print_near_miss(
    console: Console,
    bound: dict[SubscriptionId, BoundSubscription],
    stream: list[Event],
    found: list[list[SubscriptionId]],
) -> None:
    """Print one subscription that the first item failed by a single predicate."""
    event, ids = next(
        ((event, ids) for event, ids in zip(stream, found, strict=True) if "item" in event.types), (None, [])
    )
    if event is None:
        return
    for id, subscription in bound.items():
        if id not in ids and len((explanation := explain(subscription, event)).changes) == 1:
            console.print(f"[bold]{event.values['title'][0]}[/bold] just missed {id}:")
            console.print(f"{explanation}\n", markup=False, highlight=False, soft_wrap=True)
            return


def _print_summary(console: Console, summary: Summary) -> None:
    table = Table(title="Summary", title_justify="left", show_header=False)
    table.add_row("subscriptions", f"{summary.subscriptions:,}")
    table.add_row("events", f"{summary.events:,}")
    table.add_row("matches", f"{summary.matches:,}")
    table.add_row("matching", f"{summary.seconds:.3f} s")
    table.add_row("rate", f"{summary.events_per_second:,.0f} events/s")
    console.print(table)
