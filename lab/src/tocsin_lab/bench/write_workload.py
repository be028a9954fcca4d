"""Workloads as files: subscriptions.jsonl and events.jsonl in a folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tocsin.errors import NotSupported, did_you_mean, nearest
from tocsin_lab.bench import news, paper_workloads, rules, workloads

FLAT = workloads.WORKLOADS
NAMES = (*FLAT, "thesis", "debs", "rules", "news")


def write_workload(name: str, subscriptions: int, events: int, folder: Path, seed: int = 0) -> None:
    """Write the workload of that name."""
    if name not in NAMES:
        hint = did_you_mean(nearest(name, NAMES))
        raise NotSupported(f"there is no workload {name!r}{hint}; there are: {', '.join(NAMES)}")
    folder.mkdir(parents=True, exist_ok=True)
    to_subscriptions, to_events = folder / "subscriptions.jsonl", folder / "events.jsonl"
    if name in FLAT:
        made = FLAT[name](subscriptions, events, seed)
        made.write_subscriptions(to_subscriptions)
        made.write_events(to_events)
    elif name == "rules":
        _write(to_subscriptions, rules.rules(subscriptions, seed))
        _write(to_events, rules.log_events(events, seed + 1))
    elif name == "news":
        _write(to_subscriptions, news.news_queries(subscriptions, seed))
        _write(to_events, news.news_texts(events, seed + 1))
    elif name == "thesis":
        _write(to_subscriptions, paper_workloads.thesis_subscriptions(subscriptions, seed))
        _write(to_events, paper_workloads.thesis_events(events, seed + 1))
    else:
        _write(to_subscriptions, paper_workloads.debs_subscriptions(subscriptions, seed))
        _write(to_events, paper_workloads.debs_events(events, seed + 1, subscriptions=subscriptions))


def _write(path: Path, documents: Iterable[dict[str, Any]]) -> None:
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        file.writelines(encoder.encode(document) + b"\n" for document in documents)
