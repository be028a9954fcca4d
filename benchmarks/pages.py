"""Pages: how long each takes, with 100,000 subscriptions in the store and a member who has thousands of them.

    python -m benchmarks.pages [--subscriptions 100000] [--own 5000] [--events 3000] [--repeats 20]

The service runs in this process, on a real port; the time is from sending the request to having read the answer, on the
same machine, which is more than the server's own. Logging in and registering are left out: they are slow on purpose.
Every answer is checked before it is timed.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import httpx

from benchmarks.results import store
from tocsin_examples.open_house import OpenHouse
from tocsin_examples.worlds import WORLDS

NAME, PASSWORD = "collector", "correct horse battery"
BOUND_MS = 100.0
DRAFT = "item where category kind of 'furniture' and price < 60"

Ask = Callable[[], httpx.Response]


def fill(house: OpenHouse, subscriptions: int, own: int, events: int) -> None:
    """Fill the house, with a member who has many subscriptions."""
    house.front.open_account(NAME, PASSWORD)
    house.broker.subscribe_all(list(islice(house.members.wishes(own), own)), owner=NAME)
    house.broker.subscribe_all([DRAFT, "item where price < 500", "bid where price > 20"], owner=NAME)
    house.subscribe(subscriptions - own)
    for _ in range(0, events, 500):
        house.publish(500)


def entered(url: str, name: str, password: str) -> httpx.Client:
    """Return a browser of somebody who is logged in."""
    client = httpx.Client(base_url=url, follow_redirects=True, timeout=60)
    answer = client.post("/login", data={"name": name, "password": password, "next": "/"})
    if answer.status_code != 200 or "Log out" not in answer.text:
        raise SystemExit(f"{name} could not log in: {answer.status_code}")
    return client


def found(pattern: str, page: httpx.Response) -> str:
    """Return the last thing of that form on a page."""
    every = re.findall(pattern, page.text)
    if not every:
        raise SystemExit(f"{page.url} has nothing like {pattern}")
    return str(every[-1])


def requests(house: OpenHouse) -> dict[str, Ask]:
    """Return what is asked, by name."""
    url = house.front.url
    guest = httpx.Client(base_url=url, timeout=60)
    member = entered(url, NAME, PASSWORD)
    admin = entered(url, "admin", house.front.admin_token)
    csrf = found(r'name="csrf" value="([^"]+)"', member.get("/account"))
    mine = found(r'href="(/subscriptions/\d+)"', member.get("/subscriptions"))
    more = found(r'href="(\?after=\d+)"', member.get("/subscriptions"))
    why = found(r'href="(/inbox/[^"]+)"', member.get("/inbox"))
    form = {"csrf": csrf, "type": "item"}
    values = dict(
        re.findall(r'name="(value\.[^"]+)" value="([^"]+)"', member.get("/publish?type=item&example=1").text)
    ) | {"value.category": "sofa"}
    rows = {"attribute": "price", "op": "<", "value": "60", "text": ""}
    asked: dict[str, Ask] = {
        f"{path} (guest)": lambda path=path: guest.get(path)  # type: ignore[misc]
        for path in ("/", "/try", "/schema", "/dashboard", "/dashboard/board", "/login", "/register", "/operators")
    }
    asked["POST /try (guest)"] = lambda: guest.post("/try", data={"subscriptions": "a < 1", "events": '{"a": 0}'})
    paths = (
        "/", "/subscribe", "/subscribe?type=item", f"/subscribe?text={DRAFT}", "/subscriptions",
        f"/subscriptions{more}", mine, f"/publish?fits={mine.rpartition('/')[2]}", "/inbox",
        "/inbox?search=lamp", why, "/publish", "/publish?type=item", "/account", "/webhooks", "/dead-letters",
    )  # fmt: skip
    shown = {mine: "/subscriptions/ID", why: "/inbox/CURSOR"}
    for path in paths:
        name = re.sub(r"=\d+", "=ID", shown.get(path, path.split("text=")[0] + ("text=…" if "text=" in path else "")))
        asked[name] = lambda path=path: member.get(path)  # type: ignore[misc]
    asked |= {
        "POST /subscribe/draft (text)": lambda: member.post(
            "/subscribe/draft?edited=text", data=form | {"text": DRAFT}
        ),
        "POST /subscribe/draft (form)": lambda: member.post("/subscribe/draft?edited=value", data=form | rows),
        "POST /publish, who would be told?": lambda: member.post("/publish", data=form | values | {"dry_run": "1"}),
        "POST /publish": lambda: member.post("/publish", data=form | values),
        "POST …/explain": lambda: member.post(f"{mine}/explain", data={"csrf": csrf, "event": "{}"}),
        "/accounts (admin)": lambda: admin.get("/accounts"),
        "/schema/extend (admin)": lambda: admin.get("/schema/extend"),
        "/dead-letters (admin)": lambda: admin.get("/dead-letters"),
    }
    return asked


def measure(ask: Ask, repeats: int) -> list[float]:
    """Return the milliseconds of each repeat, after one that warms up."""
    answer = ask()
    if answer.status_code not in (200, 422):  # 422: an empty event is explained as what is wrong with it
        raise SystemExit(f"{answer.request.method} {answer.url}: {answer.status_code}")
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        ask().read()
        times.append((time.perf_counter() - began) * 1000)
    return times


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--own", type=int, default=5_000)
    parser.add_argument("--events", type=int, default=3_000)
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        house = OpenHouse(Path(folder), 2026, WORLDS["auction"](2026), port=0, matching="inline")
        try:
            began = time.perf_counter()
            fill(house, options.subscriptions, options.own, options.events)
            live = house.broker.index_stats()["live"]
            print(
                f"{live:,} subscriptions, {house.published:,} events, filled in {time.perf_counter() - began:.0f} s\n"
            )
            print("| page | median ms | p95 ms |\n|---|---|---|")
            figures = {}
            for name, ask in requests(house).items():
                times = measure(ask, options.repeats)
                median, p95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
                figures[name] = {"median_ms": round(median, 1), "p95_ms": round(p95, 1)}
                print(
                    f"| `{name}` | {median:.1f} | {p95:.1f} |{'  <- too slow' if median > BOUND_MS else ''}", flush=True
                )
        finally:
            house.close()
    slowest = max(figures, key=lambda name: figures[name]["median_ms"])
    print(f"\nthe slowest: {slowest}, {figures[slowest]['median_ms']} ms")
    store("pages", {"subscriptions": live, "own": options.own, "events": options.events, "pages": figures})


if __name__ == "__main__":
    main()
