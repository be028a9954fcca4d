"""CloudEvents 1.0, as its own library writes them: structured, binary and in batches; told apart by source and id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.bindings.http import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent

from tests.service.world import World, play

BATCH = "application/cloudevents-batch+json"


def event(id: str, data: Any, kind: str = "com.example.car") -> CloudEvent:
    attributes = {"id": id, "source": "/shop", "type": kind, "datacontenttype": "application/json"}
    return CloudEvent({"specversion": "1.0", **attributes}, data)


async def post(world: World, message: Any) -> Any:
    body = message.body if isinstance(message.body, bytes) else message.body.encode()
    return await world.client("ada").post("/v1/events", content=body, headers=dict(message.headers))


@pytest.mark.parametrize("form", [to_structured_event, to_binary_event])
def test_cloudevent_is_published_once(form: Any, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.subscribe("ada", "car where price < 100")
        first = await post(world, form(event("1", {"price": 5})))
        assert first.status_code == 201, first.text
        again = await post(world, form(event("1", {"price": 5})))
        assert again.json() == first.json()
        other = await post(world, form(event("1", {"price": 6})))
        assert other.status_code == 409
        assert (await post(world, form(event("2", {"price": 7}, kind="car")))).status_code == 201
        told = await world.notifications("ada")
        assert [one["event"] for one in told] == [{"event_type": "car", "price": price} for price in (5, 7)]

    play(tmp_path, scenario)


def test_batch_of_cloudevents_is_published_whole_or_not_at_all(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.subscribe("ada", "car where price < 100")
        one = {"specversion": "1.0", "source": "/shop", "type": "car"}
        good = [{**one, "id": str(price), "data": {"price": price}} for price in range(3)]
        client, headers = world.client("ada"), {"content-type": BATCH}
        answer = await client.post("/v1/events", content=json.dumps(good), headers=headers)
        assert (answer.status_code, answer.json()["accepted"]) == (201, 3)
        again = await client.post("/v1/events", content=json.dumps(good), headers=headers)
        assert again.json() == answer.json()
        mixed = [{**one, "id": "9", "data": {"price": 1}}, {**one, "id": "10", "data": {"price": "dear"}}]
        refused = await client.post("/v1/events", content=json.dumps(mixed), headers=headers)
        assert refused.status_code == 422
        assert [error["event"] for error in refused.json()["errors"]] == [1]
        assert len(await world.notifications("ada")) == 3

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"specversion": "0.3", "type": "car", "source": "/s", "id": "1", "data": {"price": 1}}, 422),
        ({"specversion": "1.0", "type": "car", "source": "/s", "data": {"price": 1}}, 422),
        ({"specversion": "1.0", "type": "car", "source": "", "id": "1", "data": {"price": 1}}, 422),
        ({"specversion": "1.0", "type": "car", "source": "/s", "id": "1", "data": [1]}, 422),
        ({"specversion": "1.0", "type": "car", "source": "/s", "id": "1", "data_base64": "e30="}, 422),
        ({"specversion": "1.0", "type": "boat", "source": "/s", "id": "1", "data": {"price": 1}}, 422),
        ([], 422),
    ],
)
def test_what_is_no_cloudevent_here_is_refused(body: Any, status: int, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        headers = {"content-type": "application/cloudevents+json"}
        answer = await world.client("ada").post("/v1/events", content=json.dumps(body), headers=headers)
        assert answer.status_code == status, answer.text

    play(tmp_path, scenario)


def test_binary_form_needs_its_headers_and_json(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        client = world.client("ada")
        headers = {"ce-specversion": "1.0", "ce-type": "car", "ce-source": "/s", "content-type": "application/json"}
        assert (await client.post("/v1/events", content='{"price": 1}', headers=headers)).status_code == 422
        headers["ce-id"] = "1"
        assert (await client.post("/v1/events", content='{"price": 1}', headers=headers)).status_code == 201
        assert (await client.post("/v1/events", content="{", headers=headers)).status_code == 400
        headers["content-type"] = "image/png"
        assert (await client.post("/v1/events", content="x", headers=headers)).status_code == 415

    play(tmp_path, scenario)
