"""How far it is through the house: the modules and the changes of package that four walks pass, and how large it is.

    python -m tools.walks                 all walks (the one through Spark needs Java)
    python -m tools.walks --only event    one of: event, subscription, offer, dataframe
    python -m tools.walks --files         with the modules, in the order in which they are first entered

Each walk is really walked, in this process: what is called in `tocsin` while it lasts is counted, once everything is
warm. A change of package is a call from one package of `tocsin` into another, counted once for each pair of functions.
Spark's workers are other processes; what they would run is run here, on the same rows.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import tocsin

ROOT = Path(tocsin.__file__).parent
EVENT = {"event_type": "insurance", "name": "Company B", "cover": "Full", "price": 800}
OFFER: dict[str, Any] = {
    "event": {"event_type": "insurance", "name": "Company B", "cover": "Full"},
    "rules": ["age >= 40"],
    "dynamic": {"price": "case when years_ncd > 7 then 900 else 1200 end"},
}


class Walk:
    """The functions of `tocsin` that are called while it is on, in whatever thread."""

    def __init__(self) -> None:
        self.on = False
        self.modules: dict[str, None] = {}
        self.changes: set[tuple[str, str]] = set()
        threading.setprofile(self._see)
        sys.setprofile(self._see)

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        if not self.on or event != "call":
            return
        module = _module(frame)
        if module is None:
            return
        self.modules.setdefault(module)
        caller = frame.f_back
        while caller is not None and (before := _module(caller)) is None:
            caller = caller.f_back
        if caller is not None and before is not None and _package(before) != _package(module):
            self.changes.add((f"{before}:{caller.f_code.co_qualname}", f"{module}:{frame.f_code.co_qualname}"))

    @contextmanager
    def walking(self) -> Iterator[None]:
        """Count what is called within the block."""
        self.on = True
        try:
            yield
        finally:
            self.on = False

    def close(self) -> None:
        """Look no more."""
        sys.setprofile(None)
        threading.setprofile(None)


def _module(frame: FrameType) -> str | None:
    if frame.f_code.co_name.startswith("<") and frame.f_code.co_name != "<lambda>":
        return None  # of a module, a class or a comprehension
    name = frame.f_globals.get("__name__", "")
    return name if name.startswith("tocsin.") else None


def _package(module: str) -> str:
    return module.split(".")[1]


def event(walk: Walk) -> None:
    """An event over HTTP to a reader of server-sent events."""
    import httpx
    import uvicorn

    from tocsin.broker import Broker
    from tocsin.schema.examples import load_example
    from tocsin.service.app import create_app, server_config
    from tocsin.service.identities import Identities
    from tocsin.service.settings import ServiceSettings

    with (
        tempfile.TemporaryDirectory() as folder,
        Broker.open(Path(folder) / "walk.db", schema=load_example("insurance"), sweep=False) as broker,
    ):
        settings = ServiceSettings()
        secret = Identities(broker.store, settings).first_admin()
        app = create_app(settings, broker=broker)
        server = uvicorn.Server(server_config(app, settings, port=0, loop="asyncio"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        _wait(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        headers = {"authorization": f"Bearer {secret}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=300) as client:
            client.post("/v1/subscriptions", json={"text": "insurance where cover = 'Full'"}).raise_for_status()
            with client.stream("GET", "/v1/notifications/stream") as stream:
                lines = stream.iter_lines()
                for step in range(4):
                    if step == 3:
                        walk.on = True
                    client.post("/v1/events", json=EVENT).raise_for_status()
                    next(line for line in lines if line.startswith("data:"))
                walk.on = False
        app.state.service.stop_soon()
        server.should_exit = True
        thread.join()


def subscription(walk: Walk) -> None:
    """A subscription, from its text to a segment on disk."""
    from tocsin.broker import Broker
    from tocsin.schema.examples import load_example

    with (
        tempfile.TemporaryDirectory() as folder,
        Broker.open(Path(folder) / "walk.db", schema=load_example("insurance"), sweep=False) as broker,
    ):
        for step in range(2):
            walk.on = step == 1
            broker.subscribe("insurance where cover = 'Full' and price < 900", owner="ada")
            broker.save_index()
            walk.on = False


def offer(walk: Walk) -> None:
    """An offer with an operator in its rules, published to subscriptions with properties."""
    from tocsin.broker import Broker
    from tocsin.operators.operator import operator
    from tocsin.operators.registry import Registry
    from tocsin.schema.examples import load_example

    schema = load_example("insurance")

    @operator(cost=0.001)
    def wanted(event: Any) -> bool:
        return "cover" in event.values

    document = OFFER | {"rules": ["age >= 40 and wanted()"]}
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker.open(Path(folder) / "walk.db", schema=schema, operators=Registry([wanted]), sweep=False) as broker,
    ):
        broker.subscribe("insurance where price < 1000 with name = 'Bob', age = 48, years_ncd = 8", owner="ada")
        for step in range(3):
            walk.on = step == 2
            receipt = broker.publish(document)
            walk.on = False
            assert receipt.met is not None, receipt
            assert receipt.met.matches == 1, receipt


def dataframe(walk: Walk) -> None:
    """A DataFrame of events matched with a DataFrame of subscriptions, through Spark."""
    from tocsin.pipeline.match import prepare_match
    from tocsin.schema.examples import load_example
    from tocsin.spark import start_session

    spark = start_session("local[1]")
    rows = [("Alpha", "Full", 800.0), ("Beta", "Basic", 100.0)]
    try:
        for step in range(2):
            walk.on = step == 1
            events = spark.createDataFrame(rows, "name string, cover string, price double")
            events = events.selectExpr("'insurance' event_type", "*")
            wanted = spark.createDataFrame([(1, "insurance where cover = 'Full'")], "id long, text string")
            prepared = prepare_match(events, wanted, schema=load_example("insurance"))
            batches = prepared.events.toArrow().to_batches()
            found = sum(batch.num_rows for batch in prepared.function(iter(batches)))
            walk.on = False
            assert found == 1, found
    finally:
        spark.stop()


def _wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not come")
        time.sleep(0.01)


def sizes() -> dict[str, float]:
    """Return how large `src/tocsin` is."""
    files = [file for file in ROOT.rglob("*.py") if "migrations" not in file.parts]
    lines = functions = imports = 0
    for file in files:
        text = file.read_text(encoding="utf-8")
        lines += text.count("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                imports += (node.end_lineno or node.lineno) - node.lineno + 1
            functions += isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return {
        "modules": len(files),
        "lines": lines,
        "functions a file": round(functions / len(files), 1),
        "import lines, %": round(100 * imports / lines, 1),
    }


WALKS: dict[str, Callable[[Walk], None]] = {
    "event": event,
    "subscription": subscription,
    "offer": offer,
    "dataframe": dataframe,
}


def main() -> None:
    """Walk, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=WALKS, action="append")
    parser.add_argument("--files", action="store_true", help="print the modules of each walk")
    options = parser.parse_args()
    os.environ.setdefault("TOCSIN_LOG_LEVEL", "error")
    for name, value in sizes().items():
        print(f"{name:20} {value:>10,}")
    for name in options.only or WALKS:
        walk = Walk()
        try:
            WALKS[name](walk)
        finally:
            walk.close()
        print(f"{name:20} {len(walk.modules):>4} modules {len(walk.changes):>4} changes of package")
        for module in walk.modules if options.files else ():
            print(f"    {module.replace('.', '/').removeprefix('tocsin/')}.py")


if __name__ == "__main__":
    main()
