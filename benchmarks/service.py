"""Load on a whole service: publishes a second, events a second in batches, idle SSE readers, publish-to-SSE latency.

python -m benchmarks.service [--subscriptions 100000] [--readers 5000] [--seconds 15] [--pipeline inline|spark]

The service is a process of its own; this one is the clients. Both share the machine, so the figures are of the two.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from tocsin.client import AsyncClient
from tocsin.demo.auction import Auction

TOKEN = "toc_the-token-of-the-benchmark-0123456789abcdef"  # noqa: S105 - of a service that lives as long as this
SERVE = "from tocsin.cli import main; main()"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--readers", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--pipeline", choices=["inline", "spark"], default="inline")
    options = parser.parse_args()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ, "TOCSIN_STORE": str(Path(folder) / "store.db"), "TOCSIN_PORT": "0",
            "TOCSIN_ADMIN_TOKEN": TOKEN, "TOCSIN_PIPELINE": options.pipeline, "TOCSIN_LOG_LEVEL": "warning",
            "TOCSIN_REQUESTS_PER_MINUTE": "100000000", "TOCSIN_SUBSCRIPTIONS_PER_ACCOUNT": "10000000",
        }  # fmt: skip
        server = subprocess.Popen(
            [sys.executable, "-c", SERVE, "serve"], stdout=subprocess.PIPE, env=environment, text=True
        )
        try:
            assert server.stdout is not None
            url = server.stdout.readline().rsplit(" ", 1)[1].strip()
            print(json.dumps(asyncio.run(measure(url, server.pid, options)), indent=2))
        finally:
            server.terminate()
            server.wait(60)


async def measure(url: str, pid: int, options: argparse.Namespace) -> dict[str, object]:
    auction = Auction(1)
    found: dict[str, object] = {"pipeline": options.pipeline, "subscriptions": options.subscriptions}
    fill(url, auction, options.subscriptions)
    async with AsyncClient(url, TOKEN) as client:
        found["publish-to-SSE ms"] = await latency(client)
        found["single publishes/s"] = await rate(client, auction, 1, options.seconds, 64)
        found["events/s in batches"] = await rate(client, auction, options.batch, options.seconds, 4)
    before = memory(pid)
    found["readers"] = await readers(url, options.readers)
    found["memory MB"] = {"before readers": before, "with readers": memory(pid)}
    return found


def fill(url: str, auction: Auction, count: int) -> None:
    """Subscribe, in bulk."""
    import httpx

    texts = [text for _, text in auction.subscriptions(count)]
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {TOKEN}"}, timeout=300) as client:
        for start in range(0, count, 20_000):
            lines = b"\n".join(msgspec.json.encode({"text": text}) for text in texts[start : start + 20_000])
            answer = client.post(
                "/v1/subscriptions/bulk", content=lines, headers={"content-type": "application/x-ndjson"}
            )
            answer.raise_for_status()


async def rate(client: AsyncClient, auction: Auction, batch: int, seconds: float, tasks: int) -> float:
    """Return events a second, published by so many tasks in batches of a size; answers are checked."""
    bodies = [[msgspec.json.encode(one) for one in auction.events(batch)] for _ in range(max(8, 2000 // batch))]
    done = 0
    end = time.perf_counter() + seconds

    async def work(number: int) -> None:
        nonlocal done
        at = number
        while time.perf_counter() < end:
            body = bodies[at % len(bodies)]
            at += 1
            if batch == 1:
                assert (await client.publish(msgspec.Raw(body[0]))).accepted  # type: ignore[arg-type]
            else:
                assert (await client.publish_all(body, receipts=False)).accepted == batch
            done += batch

    started = time.perf_counter()
    await asyncio.gather(*(work(number) for number in range(tasks)))
    return round(done / (time.perf_counter() - started))


async def latency(client: AsyncClient, count: int = 200) -> dict[str, float]:
    """Return percentiles of the time from asking to publish to having the notification."""
    await client.subscribe("question where title = 'latency'", lease_seconds=3600)
    sent: dict[str, float] = {}
    times: list[float] = []
    ready = asyncio.Event()

    async def listen() -> None:
        ready.set()
        async for notification in client.listen(start="now"):
            name = notification.event["item"]
            if name in sent:
                times.append(1000 * (time.perf_counter() - sent[name]))
            if len(times) >= count:
                return

    task = asyncio.create_task(listen())
    await ready.wait()
    await asyncio.sleep(0.5)
    for number in range(count):
        event = {"event_type": "question", "item": f"l{number}", "title": "latency", "question": "?",
                 "at": "2027-01-01T00:00:00Z"}  # fmt: skip
        sent[event["item"]] = time.perf_counter()
        await client.publish(event)
        await asyncio.sleep(0.01)
    await asyncio.wait_for(task, 60)
    cuts = statistics.quantiles(times, n=100)
    return {"p50": round(cuts[49], 2), "p99": round(cuts[98], 2)}


async def readers(url: str, count: int) -> int:
    """Open so many streams, hold them for a moment, and return how many were open."""
    host, port = url.removeprefix("http://").split(":")
    request = (
        f"GET /v1/notifications/stream?start=now HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
    ).encode()
    opened = []
    for start in range(0, count, 100):
        found = await asyncio.gather(
            *(asyncio.open_connection(host, int(port)) for _ in range(min(100, count - start)))
        )
        for _, writer in found:
            writer.write(request)
        heads = await asyncio.gather(*(reader.readuntil(b"retry:") for reader, _ in found))
        opened += [pair for pair, head in zip(found, heads, strict=True) if b" 200 " in head]
    await asyncio.sleep(3)
    return len(opened)


def memory(pid: int) -> int:
    """Return the resident memory of a process in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    raise LookupError(pid)


if __name__ == "__main__":
    main()
