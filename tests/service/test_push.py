"""Live push: no gap between backlog and live, resuming, slow readers, WebSockets, and silence after unsubscribing."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.service.live import Live, serving, wait_until
from tests.service.world import PASSWORD
from tocsin.client.transport import StreamReader

STREAM = "/v1/notifications/stream"


def subscribe(live: Live, name: str = "ada", text: str = "car where price < 1000000") -> int:
    with live.http(name) as client:
        return int(client.post("/v1/subscriptions", json={"text": text}).json()["id"])


def publish(live: Live, prices: range, **more: Any) -> None:
    lines = "\n".join(json.dumps({"event_type": "car", "price": price, **more}) for price in prices)
    with live.http("bob") as client:
        answer = client.post("/v1/events", content=lines, headers={"content-type": "application/x-ndjson"})
        assert answer.status_code == 201, answer.text


def publish_slowly(live: Live) -> None:
    """Publish the prices from 50 to 300, a few at a time."""
    for at in range(50, 300, 5):
        publish(live, range(at, at + 5))


def read(live: Live, count: int, last_event_id: str | None = None) -> list[dict[str, Any]]:
    """Return the next notifications of ada's stream."""
    with live.http("ada") as client:
        headers = {} if last_event_id is None else {"last-event-id": last_event_id}
        with client.stream("GET", STREAM, headers=headers, params={"start": "oldest"}) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            return list(_events(response, count))


def _events(response: httpx.Response, count: int) -> Iterator[dict[str, Any]]:
    reader = StreamReader()
    for chunk in response.iter_bytes():
        for event in reader.feed(chunk):
            yield {**json.loads(event.data), "last": event.id}
            count -= 1
            if not count:
                return


def test_stream_has_no_gap_between_backlog_and_live_and_resumes(tmp_path: Path) -> None:
    with serving(tmp_path) as live:
        subscribe(live)
        publish(live, range(50))
        publisher = threading.Thread(target=publish_slowly, args=(live,))
        publisher.start()
        first = read(live, 120)
        rest = read(live, 180, first[-1]["last"])
        publisher.join()
        assert [one["event"]["price"] for one in (*first, *rest)] == list(range(300))


def test_readers_that_are_woken_together_have_everything_each(tmp_path: Path) -> None:
    with serving(tmp_path) as live:
        subscribe(live)
        publish(live, range(50))
        publisher = threading.Thread(target=publish_slowly, args=(live,))
        publisher.start()
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: read(live, 300), range(8)))
        publisher.join()
        assert all([one["event"]["price"] for one in each] == list(range(300)) for each in found)


def test_stream_has_headers_of_its_own_only(tmp_path: Path) -> None:
    with serving(tmp_path) as live, live.http("ada") as client:
        for _ in range(3):
            with client.stream("GET", STREAM) as response:
                names = [name for name, _ in response.headers.multi_items()]
                assert len(names) == len(set(names))


def test_text_with_line_separators_arrives_whole(tmp_path: Path) -> None:
    with serving(tmp_path) as live:
        subscribe(live)
        publish(live, range(1), brand="a\u2028b\r\ndata: x\n\nc\x85")
        (one,) = read(live, 1)
        assert one["event"]["brand"] == "a\u2028b\r\ndata: x\n\nc\x85"


def test_after_unsubscribing_nothing_more_is_sent(tmp_path: Path) -> None:
    with serving(tmp_path) as live:
        ended, kept = subscribe(live), subscribe(live)
        publish(live, range(3))
        with live.http("ada") as client:
            assert client.delete(f"/v1/subscriptions/{ended}").status_code == 200
            publish(live, range(3, 5))
            with client.stream("GET", STREAM, params={"start": "oldest"}) as response:
                found = list(_events(response, 5))
        assert {one["subscription"] for one in found} == {kept}


def test_reader_that_takes_nothing_is_closed_and_can_resume(tmp_path: Path) -> None:
    with serving(tmp_path, stalled_seconds=0.5) as live:
        subscribe(live)
        stalled = open_without_reading(live)
        for start in range(0, 400, 100):
            publish(live, range(start, start + 100), brand="x" * 60_000)
        wait_until(lambda: live.service.metrics.stalled._value.get() >= 1, "the reader is closed")
        stalled.close()
        assert len(read(live, 400)) == 400


def open_without_reading(live: Live) -> socket.socket:
    host, port = live.url.removeprefix("http://").split(":")
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.connect((host, int(port)))
    request = (
        f"GET {STREAM}?start=oldest HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {live.tokens['ada']}\r\n\r\n"
    )
    opened.sendall(request.encode())
    return opened


def test_revoked_token_ends_the_stream(tmp_path: Path) -> None:
    with serving(tmp_path, ping_seconds=0.1) as live, live.http("ada") as client:
        tokens = client.get("/v1/tokens").json()["items"]
        made = client.post("/v1/tokens", json={"name": "other"}).json()["token"]
        headers = {"authorization": f"Bearer {made}"}
        with client.stream("GET", STREAM) as response:
            for one in tokens:
                assert httpx.delete(f"{live.url}/v1/tokens/{one['id']}", headers=headers).status_code == 204
            assert b"ping" in b"".join(response.iter_bytes()) or response.is_closed


def test_expired_cursor_is_gone_and_bad_one_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as live, live.http("ada") as client:
        assert client.get(STREAM, params={"cursor": "nonsense"}).status_code == 400
        assert client.get("/v1/notifications", params={"cursor": "AAAA"}).status_code == 400


# --- WebSockets -------------------------------------------------------------------------------------------------------


def socket_url(live: Live) -> str:
    return live.url.replace("http", "ws") + "/v1/notifications/live?start=oldest"


def test_websocket_sends_and_takes_acknowledgements(tmp_path: Path) -> None:
    with serving(tmp_path) as live:
        subscribe(live)
        publish(live, range(3))
        with connect(socket_url(live), additional_headers={"authorization": f"Bearer {live.tokens['ada']}"}) as one:
            found = [json.loads(one.recv(timeout=20)) for _ in range(3)]
            assert [message["event"]["price"] for message in found] == [0, 1, 2]
            one.send(json.dumps({"type": "acknowledge", "cursor": found[1]["cursor"]}))
            wait_until(lambda: len(live.broker.notifications("ada")) == 1, "the acknowledgement is stored")


@pytest.mark.parametrize(("origin", "good"), [("https://evil.example", False), (None, False), ("own", True)])
def test_websocket_with_a_session_is_for_our_own_pages(origin: str | None, good: bool, tmp_path: Path) -> None:
    with serving(tmp_path) as live, httpx.Client(base_url=live.url) as browser:
        browser.post("/v1/sessions", json={"name": "ada", "password": PASSWORD})
        headers = {"cookie": f"tocsin_session={browser.cookies['tocsin_session']}"}
        if origin is not None:
            headers["origin"] = live.url if origin == "own" else origin
        if good:
            with connect(socket_url(live), additional_headers=headers) as one:
                assert json.loads(one.recv(timeout=20))["type"] == "ping"
        else:
            with pytest.raises(InvalidStatus) as refused, connect(socket_url(live), additional_headers=headers):
                pass
            assert refused.value.response.status_code == 403


def test_readers_are_told_once_of_a_lease_that_ends_soon(tmp_path: Path) -> None:
    with serving(tmp_path) as live, live.http("ada") as client:
        id = client.post("/v1/subscriptions", json={"text": "car", "lease_seconds": 8}).json()["id"]
        with client.stream("GET", STREAM, params={"start": "now"}) as response:
            (told,) = _events(response, 1)
        assert (told["subscription"], told["owner"], told["generation"], told["last"]) == (id, "ada", 1, None)
        lasting = client.post("/v1/subscriptions", json={"text": "car", "lease_seconds": 2, "renews": True}).json()[
            "id"
        ]
        wait_until(
            lambda: client.get(f"/v1/subscriptions/{lasting}").json()["generation"] > 2, "renewed twice by itself"
        )
        assert client.get(f"/v1/subscriptions/{lasting}").json()["ended"] is None


def test_websocket_without_a_credential_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as live, pytest.raises(InvalidStatus), connect(socket_url(live)):
        pass
