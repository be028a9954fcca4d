"""Anything at all, sent to the service: it answers, with a status that is no 5xx and a problem that can be read.

XML is in xml/test_attacks.py, expressions alone in tests/language/test_attacks.py, whole requests in test_openapi.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.service.live import Live, serving
from tocsin.broker.deliveries import LAST, Position, encode_cursor

JSON, NDJSON = "application/json", "application/x-ndjson"
EVENT = b'{"event_type": "car", "price": 5, "brand": "a"}'
TREE = b'{"event_types": ["car"], "where": {"and": [{"attribute": "price", "operator": "<", "value": 3}]}}'
CLOUD_EVENT = b'{"specversion": "1.0", "type": "car", "source": "s", "id": "1", "data": {"price": 5}}'
# Where bytes are sent to: the path, the media type, and a body that is good there.
DOORS: list[tuple[str, str, bytes]] = [
    ("/v1/events", JSON, EVENT),
    ("/v1/events?atomic=false", NDJSON, EVENT + b"\n" + EVENT),
    ("/v1/events?dry_run=true", NDJSON, EVENT),
    ("/v1/events", "application/cloudevents+json", CLOUD_EVENT),
    ("/v1/events", "application/cloudevents-batch+json", b"[" + CLOUD_EVENT + b"]"),
    ("/v1/subscriptions", JSON, b'{"text": "car where price < 3"}'),
    ("/v1/subscriptions", JSON, TREE),
    ("/v1/subscriptions/bulk", NDJSON, b'{"text": "car where price < 3"}\n' + TREE),
    ("/v1/drafts/explain", JSON, b'{"text": "car where price < 3", "event": ' + EVENT + b"}"),
    ("/v1/drafts/preview", JSON, TREE),
    ("/v1/schema/extensions", JSON, b'{"changes": [{"add_attribute": {"name": "size", "domain": "money"}}]}'),
]
TOKENS = [b"{", b"}", b"[", b"]", b'"', b":", b",", b"\\", b"null", b"1e999", b"-0", b"\\ud800", b"\xff", b"\n", b"\x00",
          b"9" * 40, b"NaN", b'"where"', b'"not"', b'"with"', b"[" * 300, b'{"a":' * 300]  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with serving(tmp_path_factory.mktemp("fuzzed")) as found:
        yield found


@pytest.fixture(scope="module")
def client(live: Live) -> Iterator[httpx.Client]:
    with live.http("ada") as found:  # whose patience of 30 seconds is the bound on hanging
        yield found


def check(answer: httpx.Response) -> None:
    """Raise where an answer is a failure of the service, or cannot be read."""
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == answer.status_code
        assert len(answer.content) < 100_000


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """Return a good body with some of it cut out, doubled, or replaced by something hostile."""
    body = good
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(body)))
        end = min(len(body), start + draw(st.integers(0, 12)))
        put = draw(st.sampled_from(TOKENS) | st.binary(max_size=4) | st.just(body[start:end] * 2))
        body = body[:start] + put + body[end:]
    return body


@st.composite
def replaced(draw: st.DrawFn, good: bytes) -> bytes:
    """Return a good body, still JSON, with one of its values replaced by any other; a line of it for NDJSON."""
    document = json.loads(good.split(b"\n")[-1])
    place, key = document, draw(st.sampled_from(range(len(document)) if isinstance(document, list) else list(document)))
    while isinstance(place[key], dict | list) and place[key] and draw(st.booleans()):
        place = place[key]
        key = draw(st.sampled_from(range(len(place)) if isinstance(place, list) else sorted(place)))
    place[key] = draw(VALUES)
    return json.dumps(document).encode("utf-8", "surrogatepass")


@pytest.mark.parametrize(("path", "kind", "good"), DOORS, ids=[f"{path} {kind}" for path, kind, _ in DOORS])
def test_any_bytes_are_answered(path: str, kind: str, good: bytes, client: httpx.Client) -> None:
    @given(body=damaged(good) | replaced(good) | st.binary(max_size=40))
    def ask(body: bytes) -> None:
        check(client.post(path, content=body, headers={"content-type": kind}))

    ask()
    assert client.get("/v1/account").status_code == 200


@given(text=st.text(st.characters(codec="utf-8"), max_size=40), at=st.integers(-(2**70), 2**70))
def test_any_cursor_is_answered(text: str, at: int, client: httpx.Client, live: Live) -> None:
    quoted = "".join(character for character in text if character.isprintable())
    for cursor in (text, str(at), f"s{at}", f"{at}.{at}"):
        for path in ("/v1/notifications", "/v1/subscriptions", "/v1/dead-letters", "/v1/accounts"):
            check(client.get(path, params={"cursor": cursor}))
    check(client.post("/v1/drafts/backfill", json={"text": "car where price < 3", "after": quoted or "x"}))
    check(client.post("/v1/notifications/acknowledge", json={"cursor": quoted or "x"}))


@pytest.mark.parametrize(("path", "kind"), [(path, kind) for path, kind, _ in DOORS])
def test_bytes_that_are_no_text_are_refused(path: str, kind: str, client: httpx.Client) -> None:
    answer = client.post(path, content=b'{"event_type": "\xff", "text": "\xff"}', headers={"content-type": kind})
    check(answer)
    may_not = path == "/v1/schema/extensions"  # a member is told so before the body is looked at
    assert answer.status_code in ((201,) if "atomic=false" in path else (403,) if may_not else (400, 422))


def test_number_beyond_what_the_store_holds_is_refused(client: httpx.Client) -> None:
    hook = client.post("/v1/webhooks", json={"url": "http://127.0.0.1:9/"}).json()["id"]
    body = {"seq": 2**63, "subscription": 1}
    assert client.post(f"/v1/webhooks/{hook}/deliveries/retry", json=body).status_code == 422


@pytest.mark.parametrize("seq", [0, 1, LAST - 1, LAST, LAST + 1, 2**64 - 1])
@pytest.mark.parametrize("subscription", [0, 1, LAST, LAST + 1, 2**64 - 1])
def test_forged_cursor_is_answered(seq: int, subscription: int, client: httpx.Client, live: Live) -> None:
    cursor = encode_cursor(Position(seq, subscription), live.broker.store.incarnation)
    check(client.get("/v1/notifications", params={"cursor": cursor}))
    check(client.get(f"/v1/notifications/{cursor}/why"))
    check(client.post("/v1/notifications/acknowledge", json={"cursor": cursor, "consumer": f"c{seq}-{subscription}"}))
    with client.stream("GET", "/v1/notifications/stream", headers={"last-event-id": cursor}) as answer:
        assert answer.status_code < 500
