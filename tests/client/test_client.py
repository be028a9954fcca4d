"""The client: typed results, retries that respect idempotency, listening over broken connections."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from tests.service.live import serving
from tocsin.client import AsyncClient, Client, ServiceRefused, ServiceUnreachable
from tocsin.client.transport import Retries

QUICK = Retries(attempts=4, first_seconds=0.001)
RECEIPT = {"seq": 1, "event_id": "x", "accepted": True}


def test_a_program_subscribes_publishes_and_listens(tmp_path: Path) -> None:
    with serving(tmp_path) as live, Client(live.url, live.tokens["ada"]) as client:
        assert client.account().name == "ada"
        subscribed = client.subscribe("car where price < 100", lease_seconds=60)
        receipt = client.publish({"event_type": "car", "price": 5})
        batch = client.publish_all([{"event_type": "car", "price": price} for price in (1, 500)])
        assert (batch.accepted, batch.rejected) == (2, 0)
        first, second = itertools.islice(client.listen(), 2)
        assert (first.seq, first.event["price"]) == (receipt.seq, 5)
        client.acknowledge(first.cursor)
        assert [one.id for one in client.notifications().items] == [second.id]
        assert client.why(first.cursor)["matched"]
        assert client.renew(subscribed.id).generation == 2
        assert client.preview("car where price < 3").sample == 3
        assert client.plan("car where price < 3").conjunctions
        assert client.explain("car where price < 3", {"event_type": "car", "price": 9}).matched is False
        assert client.matches_of({"event_type": "car", "price": 9})["items"][0]["yours"] == [subscribed.id]
        assert client.unsubscribe(subscribed.id).id == subscribed.id
        assert client.subscriptions().items == []
        with pytest.raises(ServiceRefused) as refused:
            client.subscribe("car where prise < 1")
        assert refused.value.status == 400
        assert refused.value.name == "bad-expression"


def answering(*answers: int | Exception) -> tuple[httpx.MockTransport, list[httpx.Request]]:
    """Return a transport that gives these answers, one after the other, and the requests that it saw."""
    left, seen = list(answers), list[httpx.Request]()

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer, json=RECEIPT if answer < 300 else {"title": "no", "status": answer})

    return httpx.MockTransport(handle), seen


def test_publish_is_repeated_with_the_same_key() -> None:
    transport, seen = answering(httpx.ReadError("broken"), 503, 201)
    with Client("http://x", transport=transport, retries=QUICK) as client:
        assert client.publish({"a": 1}).seq == 1
    assert len({request.headers["idempotency-key"] for request in seen}) == 1
    assert len(seen) == 3


@pytest.mark.parametrize("failure", [httpx.ReadError("broken"), 503])
def test_what_has_no_key_is_not_repeated_where_it_may_have_been_done(failure: int | Exception) -> None:
    transport, seen = answering(failure, 201)
    client = Client("http://x", transport=transport, retries=QUICK)
    with client, pytest.raises((ServiceUnreachable, ServiceRefused)):
        client.add_webhook("https://example.com/")
    assert len(seen) == 1


def test_subscribe_is_repeated_with_the_same_key() -> None:
    transport, seen = answering(httpx.ReadError("broken"), 422)
    with Client("http://x", transport=transport, retries=QUICK) as client, pytest.raises(ServiceRefused):
        client.subscribe("car")
    assert len({request.headers["idempotency-key"] for request in seen}) == 1
    assert len(seen) == 2


@pytest.mark.parametrize("failure", [httpx.ConnectError("refused"), 429])
def test_what_was_certainly_not_done_is_repeated(failure: int | Exception) -> None:
    transport, seen = answering(failure, 422)
    with Client("http://x", transport=transport, retries=QUICK) as client, pytest.raises(ServiceRefused):
        client.subscribe("car")
    assert len(seen) == 2


def test_retries_end() -> None:
    transport, seen = answering(*[503] * 10)
    with Client("http://x", transport=transport, retries=QUICK) as client, pytest.raises(ServiceRefused):
        client.publish({})
    assert len(seen) == QUICK.attempts


def test_listening_survives_broken_connections(tmp_path: Path) -> None:
    async def scenario(url: str, token: str) -> list[float]:
        found: list[float] = []
        async with AsyncClient(url, token, retries=QUICK) as client:
            await client.subscribe("car where price < 1000")
            await client.publish_all([{"event_type": "car", "price": price} for price in range(5)])
            async for notification in client.listen():
                found.append(notification.event["price"])
                if len(found) == 5:
                    live.service.stop_soon()  # every stream ends; whoever listens comes back
                    live.service.hub.push.broker.publish({"event_type": "car", "price": 5})
                if len(found) == 6:
                    return found
        return found

    with serving(tmp_path) as live:
        assert asyncio.run(scenario(live.url, live.tokens["ada"])) == [0, 1, 2, 3, 4, 5]


def test_client_is_used_from_several_threads(tmp_path: Path) -> None:
    with serving(tmp_path) as live, Client(live.url, live.tokens["ada"]) as client:
        seqs: list[int] = []

        def work() -> None:
            seqs.extend(client.publish({"event_type": "car", "price": 1}).seq for _ in range(10))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(seqs)) == 40


def test_client_is_lazily_exported_and_imports_no_server_code() -> None:
    code = "import tocsin; tocsin.Client; tocsin.AsyncClient; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "tocsin.client.client" in loaded
    assert not {name for name in loaded if name.startswith(("tocsin.service", "tocsin.broker", "fastapi"))}
