"""Load on a whole service: publishes a second, events a second in batches, publish-to-SSE latency, idle SSE readers.

    python -m benchmarks.service                                  all parts, matching in the process
    python -m benchmarks.service --pipeline spark --only latency  the Spark pipeline
    python -m benchmarks.service --subscriptions 2000 --readers 100 --seconds 2     a quick look

The service is a process of its own; this one is the clients (raw_http.py). Both share the machine, so the figures are of
the two. Subscriptions are the market's narrow ones (benchmarks/broker.py), of a thousand owners. Every answer is checked,
and what was published is counted in the store at the end. Raw results go to benchmarks/results/service.jsonl.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from sqlalchemy import text

from benchmarks import results
from benchmarks.broker import Market, notifications_of
from benchmarks.raw_http import Connection, load, request_of
from tocsin.broker import Broker, BrokerSettings
from tocsin.schema import EventType, Schema, TypeAttribute
from tocsin.schema.files import dumps

TOKEN = "toc_the-token-of-the-benchmark-0123456789abcdef"  # noqa: S105 - of a service that lives as long as this
SERVE = "from tocsin.cli import main; main()"
NDJSON = "application/x-ndjson"
PARTS = ("single", "batches", "latency", "readers")
OWNERS = 1000
Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--readers", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--connections", type=int, default=256, help="that publish single events")
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--pipeline", choices=["inline", "spark"], default="inline")
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--folder", type=Path, help="keep the filled store there, or use the one that is there")
    parser.add_argument("--no-store", action="store_true", help="only print")
    options = parser.parse_args()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    market = Market(4 * options.subscriptions, 20_000)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        place, schema = str(folder / "store.db"), folder / "schema.json"
        if not schema.exists():
            fill(place, schema, market, options.subscriptions)
        with serving(place, schema, options.pipeline) as (url, pid):
            found = uvloop.run(measure(url, pid, market, options))
        found |= show(counted(place))
    if not options.no_store:
        results.store("service", found)


def fill(place: str, schema: Path, market: Market, count: int) -> None:
    """Make a store with subscriptions of many owners, and a type of events that only this benchmark looks for."""
    probe = EventType("probe", (TypeAttribute("probe"),))
    types = {**market.schema.event_types, "probe": probe}
    whole = Schema(market.schema.domains, {**market.schema.attributes, "probe": "number"}, types)
    schema.write_text(dumps(whole, "json"))
    documents = list(itertools.islice(market.documents(narrow=True), count))
    if len(documents) < count:
        raise AssertionError(f"only {len(documents)} narrow subscriptions")
    with Broker.open(place, schema=whole, settings=BrokerSettings(subscriptions_per_owner=10**7)) as broker:
        size = max(1, count // OWNERS)
        for number, start in enumerate(range(0, count, 1000)):
            for owner, at in enumerate(range(start, min(count, start + 1000), size)):
                lot = documents[at : min(at + size, start + 1000)]
                broker.subscribe_all(lot, owner=f"owner{number * 1000 // size + owner}", lease=86_400)
        broker.publish(next(iter(market.events())))  # kernels are compiled before anything is timed


@contextmanager
def serving(place: str, schema: Path, pipeline: str, sources: str = "") -> Iterator[tuple[str, int]]:
    """Give a service's address and process until the block ends; of the sources there, where they are given."""
    environment = {
        **os.environ, "TOCSIN_STORE": place, "TOCSIN_SCHEMA": str(schema), "TOCSIN_PORT": "0",
        "TOCSIN_ADMIN_TOKEN": TOKEN, "TOCSIN_PIPELINE": pipeline, "TOCSIN_LOG_LEVEL": "warning",
        "TOCSIN_REQUESTS_PER_MINUTE": "100000000", "TOCSIN_EVENTS_PER_MINUTE": "1000000000",
    }  # fmt: skip
    if sources:
        environment["PYTHONPATH"] = sources
    server = subprocess.Popen(
        [sys.executable, "-c", SERVE, "serve"], stdout=subprocess.PIPE, env=environment, text=True
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        if "Tocsin serves" not in line:
            raise AssertionError(f"the service does not start: {line!r}")
        yield line.rsplit(" ", 1)[1].strip(), server.pid
    finally:
        server.terminate()
        server.wait(60)


async def measure(url: str, pid: int, market: Market, options: argparse.Namespace) -> Figures:
    """Run the parts that were asked for."""
    parts = options.only or PARTS
    found: Figures = {"pipeline": options.pipeline, "subscriptions": options.subscriptions}
    events = [msgspec.json.encode(one) for one in market.events()]
    await until_ready(url)
    warm = b"\n".join(events[: options.batch])
    await load(url, [request_of("POST", "/v1/events?receipts=false", TOKEN, warm, NDJSON)], connections=1, seconds=1)
    if "latency" in parts:
        found |= show(await latency(url, 300 if options.pipeline == "inline" else 60))
    if "single" in parts:
        singles = [request_of("POST", "/v1/events", TOKEN, one) for one in events]
        found |= show(await rate(url, pid, singles, "single publishes", 1, options.connections, options.seconds))
    if "batches" in parts:
        lots = [b"\n".join(events[at : at + options.batch]) for at in range(0, len(events), options.batch)]
        batches = [request_of("POST", "/v1/events?receipts=false", TOKEN, lot, NDJSON) for lot in lots]
        what = f"events in batches of {options.batch}"
        found |= show(await rate(url, pid, batches, what, options.batch, 4, options.seconds))
    if "readers" in parts:
        found |= show(await readers(url, pid, options.readers))
    return found


async def until_ready(url: str) -> None:
    """Return when the service, with its pipeline, is ready."""
    connection = await Connection.open(url)
    for _ in range(600):
        try:
            await connection.ask(request_of("GET", "/readyz", TOKEN), 200)
        except AssertionError:
            await asyncio.sleep(0.2)
        else:
            connection.close()
            return
    raise AssertionError("the service is not ready after two minutes")


async def rate(
    url: str, pid: int, requests: list[bytes], what: str, each: int, connections: int, seconds: float
) -> Figures:
    """Return how much is published a second, and what the two processes took of the machine for it."""
    await load(url, requests, connections=connections, seconds=min(2.0, seconds))
    before, own = cpu_seconds(pid), time.process_time()
    found = await load(url, requests, connections=connections, seconds=seconds)
    cores = {
        "server": (cpu_seconds(pid) - before) / found.seconds,
        "clients": (time.process_time() - own) / found.seconds,
    }
    return {
        f"{what}/s": round(each * found.requests / found.seconds),
        f"{what}, request p50 and p99 ms": percentiles(found.times_ms),
        f"{what}, cores": {name: round(value, 2) for name, value in cores.items()},
    }


async def latency(url: str, count: int) -> Figures:
    """Return percentiles of the time from asking to publish to having the notification, with one event at a time."""
    asking, listening = await Connection.open(url), await Connection.open(url)
    body = msgspec.json.encode({"text": "probe where probe >= 0", "lease_seconds": 3600})
    await asking.ask(request_of("POST", "/v1/subscriptions", TOKEN, body), 201)
    listening.writer.write(request_of("GET", "/v1/notifications/stream?start=now", TOKEN))
    await listening.reader.readuntil(b"retry: ")
    told = []
    for number in range(count):
        publish = request_of("POST", "/v1/events", TOKEN, b'{"event_type": "probe", "probe": %d}' % number)
        started = time.perf_counter()
        answer = asyncio.ensure_future(asking.ask(publish, 201))
        await listening.reader.readuntil(b'"probe":%d' % number)
        told.append(1000 * (time.perf_counter() - started))
        await answer
        await asyncio.sleep(0.02)
    asking.close()
    listening.close()
    return {"publish-to-SSE p50 and p99 ms": percentiles(told[count // 10 :])}


async def readers(url: str, pid: int, count: int) -> Figures:
    """Open so many streams, hold them over a ping, send all of them one event, and say what they cost."""
    asking = await Connection.open(url)
    body = msgspec.json.encode({"text": "probe where probe < 0", "lease_seconds": 3600})
    await asking.ask(request_of("POST", "/v1/subscriptions", TOKEN, body), 201)
    before, request = memory_mb(pid), request_of("GET", "/v1/notifications/stream?start=now", TOKEN)
    opened: list[Connection] = []
    started = time.perf_counter()
    for start in range(0, count, 100):
        lot = [await Connection.open(url) for _ in range(min(100, count - start))]
        for one in lot:
            one.writer.write(request)
        for one in lot:
            head = await one.reader.readuntil(b"retry: ")
            if b" 200 " not in head:
                raise AssertionError(head)
        opened += lot
    opening = time.perf_counter() - started
    cpu, at = cpu_seconds(pid), time.perf_counter()
    await asyncio.gather(*(one.reader.readuntil(b": ping") for one in opened))
    idle = (cpu_seconds(pid) - cpu) / (time.perf_counter() - at)
    resident = memory_mb(pid)
    started = time.perf_counter()
    publishing = asyncio.ensure_future(
        asking.ask(request_of("POST", "/v1/events", TOKEN, b'{"event_type": "probe", "probe": -1}'), 201)
    )
    await asyncio.gather(*(one.reader.readuntil(b'"probe":-1') for one in opened))
    all_told = time.perf_counter() - started
    await publishing
    for one in (*opened, asking):
        one.close()
    return {
        "idle SSE readers": len(opened),
        "readers opened/s": round(count / opening),
        "server MB before readers, with them, after telling all": [before, resident, memory_mb(pid)],
        "KB a reader": round(1024 * (resident - before) / max(1, count), 1),
        "cores of the server with idle readers": round(idle, 3),
        "one event told to all readers, s": round(all_told, 2),
    }


def show(found: Figures) -> Figures:
    """Print figures as they come, and return them."""
    for name, value in found.items():
        print(f"{name:60}{value}", flush=True)
    return found


def percentiles(times_ms: list[float]) -> list[float]:
    """Return the median and the 99th percentile."""
    cuts = statistics.quantiles(times_ms, n=100)
    return [round(cuts[49], 2), round(cuts[98], 2)]


def memory_mb(pid: int) -> int:
    """Return the resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    raise LookupError(pid)


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def counted(place: str) -> Figures:
    """Return what is in the store: everything that was acknowledged, and how much it matched."""
    with Broker.open(place) as broker:
        with broker.store.read() as connection:
            events = int(connection.execute(text("SELECT count(*) FROM events")).scalar_one())
        return {"events stored": events, "matches per event": round(notifications_of(broker) / max(1, events), 1)}


if __name__ == "__main__":
    main()
