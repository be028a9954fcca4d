"""What may be asked twice: subscribing with a key, and dead letters once more. And what takes its time: backfills."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.test_access import backfill
from tests.service.world import World, play
from tocsin.service import drafts

TEXT = {"text": "car where price < 100"}
NDJSON = {"content-type": "application/x-ndjson"}
KEY = {"idempotency-key": "one"}


def test_subscribing_again_with_the_same_key_is_the_same_subscription(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        client = world.client("ada")
        first = await client.post("/v1/subscriptions", json=TEXT, headers=KEY)
        again = await client.post("/v1/subscriptions", json=TEXT, headers=KEY)
        assert (first.status_code, again.status_code) == (201, 201)
        ticket = first.json().pop("ticket")
        assert again.json() == {name: value for name, value in first.json().items() if name != "ticket"}
        assert ticket not in again.text
        other = await client.post("/v1/subscriptions", json={"text": "car where price < 3"}, headers=KEY)
        assert (other.status_code, other.json()["type"]) == (409, "/problems/idempotency-conflict")
        bobs = await world.client("bob").post("/v1/subscriptions", json=TEXT, headers=KEY)
        assert bobs.json()["id"] != first.json()["id"]
        assert (await client.post("/v1/events", json={"event_type": "car", "price": 5}, headers=KEY)).status_code == 201
        assert len((await client.get("/v1/subscriptions")).json()["items"]) == 1

    play(tmp_path, scenario)


def test_bulk_with_the_same_key_is_stored_once(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        client, lines = world.client("ada"), '{"text": "car"}\n{"text": "antique"}'
        answers = [
            await client.post("/v1/subscriptions/bulk", content=lines, headers={**NDJSON, **KEY}) for _ in range(2)
        ]
        first, again = ([one["id"] for one in answer.json()["items"]] for answer in answers)
        assert first == again
        assert len((await client.get("/v1/subscriptions")).json()["items"]) == 2

    play(tmp_path, scenario)


def test_dead_letter_is_published_once_the_schema_allows_it(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        client = world.client("ada")
        await world.subscribe("ada")
        bad = '{"event_type": "car", "price": 5, "size": 3}'
        await client.post("/v1/events?atomic=false", content=bad, headers=NDJSON)
        (letter,) = (await client.get("/v1/dead-letters")).json()["items"]
        url = f"/v1/dead-letters/{letter['seq']}/replay"
        assert (await client.post(url)).status_code == 422
        changes = [
            {"add_attribute": {"name": "size", "domain": "money"}},
            {"extend_event_type": {"event_type": "car", "attribute": "size"}},
        ]
        extended = await world.client("admin").post("/v1/schema/extensions", json={"changes": changes})
        assert extended.status_code == 200, extended.text
        assert (await world.client("bob").post(url)).status_code == 404
        first, again = await client.post(url), await client.post(url)
        assert (first.status_code, again.json()) == (201, first.json())
        assert [one["event"]["size"] for one in await world.notifications("ada")] == [3]

    play(tmp_path, scenario)


def test_backfill_holds_a_draft_against_the_whole_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "_LOOKED_AT", 7)  # so that it takes several stretches

    async def scenario(world: World) -> None:
        lines = "\n".join(f'{{"event_type": "car", "price": {price}}}' for price in range(0, 300, 5))
        await world.client("ada").post("/v1/events", content=lines, headers=NDJSON)
        job = await backfill(world, "ada")
        assert (job["state"], job["looked_at"], job["matched"], job["reason"]) == ("done", 60, 20, None)
        assert [one["event"]["price"] for one in job["examples"]] == list(range(0, 100, 5))
        bad = await world.client("ada").post("/v1/drafts/backfills", json={"text": "car where prise < 1"})
        assert bad.status_code == 400

    play(tmp_path, scenario)
