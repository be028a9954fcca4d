"""Quotas: exact under concurrency, by number and by size; and bulk requests with something wrong are refused soon."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.broker.market import open_broker
from tests.databases import place, postgres
from tests.service.live import serving
from tests.service.world import PASSWORD, World, play
from tocsin.broker import expressions
from tocsin.broker.expressions import prepare
from tocsin.operators.operator import operator
from tocsin.operators.registry import Registry
from tocsin.schema import Event
from tocsin.store import accounts
from tocsin.store.seals import check

__all__ = ["place", "postgres"]  # the databases that these tests run on
CAR = "car where price < 100"
NDJSON = {"content-type": "application/x-ndjson"}


def test_quota_is_exact_under_concurrent_requests(place: str) -> None:
    async def scenario(world: World) -> None:
        body = {"quotas": {"subscriptions": 10}}
        assert (await world.client("admin").patch("/v1/accounts/ada", json=body)).status_code == 200
        ada = world.client("ada")
        answers = await asyncio.gather(*(ada.post("/v1/subscriptions", json={"text": CAR}) for _ in range(60)))
        assert [one.status_code for one in answers].count(201) == 10
        assert len(world.broker.subscriptions("ada")) == 10

    play(place, scenario, threads=64)


def test_quota_counts_what_subscriptions_take_not_only_how_many(place: str) -> None:
    async def scenario(world: World) -> None:
        quotas = {"subscription_bytes": 3_000_000}
        assert (await world.client("admin").patch("/v1/accounts/ada", json={"quotas": quotas})).status_code == 200
        ada = world.client("ada")
        large = f"car where price in ({', '.join(map(str, range(6000)))})"
        first = await world.subscribe("ada", large)
        await world.subscribe("ada", large)
        answers = await asyncio.gather(*(ada.post("/v1/subscriptions", json={"text": large}) for _ in range(20)))
        assert {one.status_code for one in answers} == {429}
        assert "bytes" in answers[0].json()["detail"]
        used = (await ada.get("/v1/account")).json()["used"]
        assert used["subscriptions"] == 2
        assert 2_000_000 < used["subscription_bytes"] < 3_000_000
        small = await world.subscribe("ada")
        replaced = await ada.put(f"/v1/subscriptions/{small['id']}", json={"text": large})
        assert replaced.status_code == 429
        for step in ("pause", "resume", "pause"):
            assert (await ada.post(f"/v1/subscriptions/{first['id']}/{step}")).status_code == 200
        assert (await ada.post("/v1/subscriptions", json={"text": large})).status_code == 429  # paused ones count
        assert (await ada.delete(f"/v1/subscriptions/{first['id']}")).status_code == 200
        await world.subscribe("ada", large)
        assert check(world.broker.store) == []

    play(place, scenario)


def test_price_is_told_when_subscribing_and_adds_up_to_what_the_quota_counts(place: str) -> None:
    @operator(cost=0.25)
    def slow(_event: Event) -> bool:
        return True

    with open_broker(place, operators=Registry([slow])) as broker:
        cheap = broker.subscribe("car where price < 5", owner="ada")
        dear = broker.subscribe("car where price in (1, 2, 3, 4, 5, 6, 7, 8) and slow()", owner="ada")
        assert 0 < cheap.price_bytes < dear.price_bytes
        assert (cheap.operator_seconds, dear.operator_seconds) == (0.0, 0.25)
        found = broker.subscriptions("ada")
        assert [one.price_bytes for one in found] == [cheap.price_bytes, dear.price_bytes]
        with broker.store.read() as connection:
            number = accounts.find_account(connection, "ada")
        assert number is not None
        assert broker.usage_of(number)["subscription_bytes"] == cheap.price_bytes + dear.price_bytes
        again = broker.replace(cheap.id, "car where price < 5 and slow()", owner="ada")
        assert (again.price_bytes > cheap.price_bytes, again.operator_seconds) == (True, 0.25)


def test_bulk_with_a_wrong_last_line_is_refused_before_all_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[object] = []

    def counted(*args: object, **more: object) -> object:
        judged.append(args[0])
        return prepare(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(expressions, "prepare", counted)

    async def scenario(world: World) -> None:
        ada = world.client("ada")

        async def send(texts: list[str]) -> tuple[int, list[int]]:
            judged.clear()
            body = "\n".join(json.dumps({"text": text}) for text in texts)
            answer = await ada.post("/v1/subscriptions/bulk", content=body, headers=NDJSON)
            return answer.status_code, [one["line"] for one in answer.json().get("errors", [])]

        good = [f"car where price < {at}" for at in range(1000)]
        assert await send([*good, "car where prise < 1"]) == (422, [1001])
        assert len(judged) < 50
        assert await send([*good[:400], "car where", *good[400:]]) == (422, [401])
        assert len(judged) == 1001  # each once
        assert await send(["car where"] * 1000) == (422, list(range(1, 1001, 33))[:31] + [1000])
        assert len(judged) < 50
        assert (await send(["car where", "car", "boat"])) == (422, [1, 3])
        assert world.broker.subscriptions("ada") == []

    play(tmp_path, scenario)


def test_account_that_costs_too_much_is_slowed_then_paused_and_told_by_its_stream_and_page(tmp_path: Path) -> None:
    with serving(tmp_path) as live, live.http("ada") as ada, live.http("bob") as bob:
        with live.broker.store.write() as turn:
            number = accounts.find_accounts(turn.connection, ["ada"])["ada"]
            accounts.change_account(turn, number, quotas={"processor_seconds": 6})
        heavy = ada.post("/v1/subscriptions", json={"text": "car where price > 0"}).json()["id"]
        theirs = bob.post("/v1/subscriptions", json={"text": "car where price > 0"}).json()["id"]
        for price in range(1, 6):
            assert bob.post("/v1/events", json={"event_type": "car", "price": price}).status_code == 201
        (cost,) = ada.get("/v1/account/costs").json()["items"]
        assert (cost["subscription"], cost["owner"], cost["matches"]) == (heavy, "ada", 5)
        assert cost["processor_us"] > 0
        assert {one.owner for one in live.broker.costs().items} == {"ada", "bob"}
        assert ada.get("/v1/account").json()["used"]["processor_us"] == cost["processor_us"]
        meter = live.broker._core.meter
        meter._level[number] = 1.5e6  # a second is its burst
        refused = ada.post("/v1/subscriptions", json={"text": "car where price > 1"})
        assert refused.status_code == 429
        assert "processor time" in refused.json()["detail"]
        assert 250 <= int(refused.headers["retry-after"]) <= 300
        with ada.stream("GET", "/v1/notifications/stream?start=now") as stream:
            lines = stream.iter_lines()
            next(lines)
            meter._level[number] = 2.5e6
            assert "event: paused" in takewhile_told(lines)
        views = [ada.get(f"/v1/subscriptions/{heavy}").json(), bob.get(f"/v1/subscriptions/{theirs}").json()]
        assert [one["paused"] for one in views] == [True, False]
        trail = ada.get("/v1/account/audit").json()["items"]
        assert any(one["action"] == "subscription.paused" and str(heavy) in one["subject"] for one in trail)
        with httpx.Client(base_url=live.url, headers={"origin": live.url}, timeout=30) as browser:
            assert browser.post("/v1/sessions", json={"name": "ada", "password": PASSWORD}).status_code == 201
            assert "It was paused: its matches took" in browser.get(f"/subscriptions/{heavy}").text


def takewhile_told(lines: Iterator[str]) -> list[str]:
    """Return the lines of a stream up to the first that names an event."""
    told: list[str] = []
    for line in lines:
        told.append(line)
        if line.startswith("event:"):
            break
    return told
