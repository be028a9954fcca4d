"""The house with its doors open: pages for everybody, and sites that publish over HTTP.

At the start the sites join: each extends the schema by what it lacks. From then on each translates its events and
publishes them by the account that it has, as any publisher would. A visitor's account waits for whoever wants to look.
"""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tocsin.broker.broker import Matching
from tocsin.client import Client
from tocsin.pipeline.meter import Meter
from tocsin_examples.front import Front, MeterWatch
from tocsin_examples.house import House
from tocsin_examples.integration import Site, missing
from tocsin_examples.worlds import World

VISITOR, PASSWORD = "visitor", "let me look around"  # of an account for all, on this machine only


class OpenHouse(House):
    """A house whose store is served, and whose events come over HTTP."""

    strangers = True

    def __init__(
        self, folder: Path, seed: int, world: World, *, port: int | None = None, matching: Matching = "pipeline"
    ) -> None:
        super().__init__(folder, seed, (world.market, world.members), schema=world.first_schema, matching=matching)
        self._watch = MeterWatch() if matching == "pipeline" else None
        self.front = Front(self.broker, self.place, port, self._watch)
        self._admin = Client(self.front.url, self.front.admin_token)
        self._publishers = {site.name: self._join(site) for site in world.sites}
        self.front.open_account(VISITOR, PASSWORD)
        for text in world.visitors_wishes:
            self.broker.subscribe(text, owner=VISITOR)
        self.publish_ms: list[float] = []  # for each request that published

    def _join(self, site: Site) -> Client:
        """Let a site extend the schema by what it lacks, which takes an admin; return the client of its account."""
        changes = missing(self.broker.schema, site.extensions)
        if changes:
            self._admin.extend_schema(changes)
        return Client(self.front.url, self.front.open_account(site.account, secrets.token_hex(16)))

    def follow(self, meter: Meter) -> None:
        if self._watch is not None:
            self._watch.meter = meter

    def _publish(self, stream: Iterator[dict[str, Any]], count: int) -> None:
        """Publish some events, each by its site; where there are none, by the admin."""
        by_site: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for event in islice(stream, count):
            by_site[event.get("site", "")].append(event)
        for name, events in by_site.items():
            began = time.perf_counter()
            self.published += self._publishers.get(name, self._admin).publish_all(events, receipts=False).accepted
            self.publish_ms.append((time.perf_counter() - began) * 1000)

    def close(self) -> None:
        for client in (self._admin, *self._publishers.values()):
            client.close()
        self.front.close()
        super().close()
