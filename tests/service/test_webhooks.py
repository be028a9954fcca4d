"""Webhooks: signed, retried with the same id, given up as dead letters; digests; nothing after unsubscribing."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from tests.service.live import Live, serving, wait_until
from tests.service.test_push import publish, subscribe
from tocsin.documents.events import DeliveryRule
from tocsin.operators.foreign import Breakers
from tocsin.service import courier
from tocsin.service.courier import first_try_us, new_secret, retry_us
from tocsin.store import accounts, webhooks


class Receiver:
    """A server that answers as it is told, and remembers what it got."""

    def __init__(self) -> None:
        self.answers: list[int] = []  # statuses to give, then 204 for ever
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.refuses: Callable[[Any], int | None] = lambda data: None  # by what is sent; before `answers`
        self.took: list[Any] = []  # what was answered with 204
        self.url = ""

    @contextmanager
    def listening(self) -> Iterator[Receiver]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status = receiver.refuses(json.loads(body)["data"])
                if status is None:
                    status = receiver.answers.pop(0) if receiver.answers else 204
                receiver.got.append((dict(self.headers.items()), body))
                receiver.took.extend([json.loads(body)["data"]] if status == 204 else [])
                self.send_response(status)
                if status in range(300, 400):
                    self.send_header("location", "http://127.0.0.1:1/inside")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}/hook"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def add_hook(live: Live, url: str) -> dict[str, Any]:
    with live.http("ada") as client:
        answer = client.post("/v1/webhooks", json={"url": url})
        assert answer.status_code == 201, answer.text
        document: dict[str, Any] = answer.json()
        return document


def deliveries(live: Live, id: int) -> list[dict[str, Any]]:
    with live.http("ada") as client:
        found: list[dict[str, Any]] = client.get(f"/v1/webhooks/{id}/deliveries").json()["items"]
        return found


def test_webhook_is_signed_and_retried_with_the_same_id(tmp_path: Path) -> None:
    with serving(tmp_path, webhook_first_retry_seconds=0.05) as live, Receiver().listening() as receiver:
        receiver.answers = [500, 302]
        subscribe(live)
        hook = add_hook(live, receiver.url)
        publish(live, range(3))
        wait_until(lambda: [one["state"] for one in deliveries(live, hook["id"])] == ["delivered"] * 3, "deliveries")
        verified = [Webhook(hook["secret"]).verify(body, headers) for headers, body in receiver.got]
        ids = [headers["webhook-id"] for headers, _ in receiver.got]
        assert (len(ids), len(set(ids))) == (5, 3)
        prices = list(dict.fromkeys(one["data"]["event"]["price"] for one in verified))
        assert sorted(prices) == [0, 1, 2]
        assert sum(one["attempts"] for one in deliveries(live, hook["id"])) == 5
        with live.http("ada") as client:
            assert "secret" not in client.get(f"/v1/webhooks/{hook['id']}").json()


def test_accounts_without_a_webhook_wake_nobody_until_another_process_gives_them_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "_LONGEST_WAIT", 0.1)
    with serving(tmp_path) as live, Receiver().listening() as receiver:
        subscribe(live)
        woken = live.service.courier
        publish(live, range(1))
        assert not woken.due.accounts
        with live.broker.store.write() as turn:  # as another process does: nobody says so here
            account = accounts.find_account(turn.connection, "ada")
            assert account is not None
            webhooks.add_webhook(turn, account, receiver.url, new_secret(), (0, 0))
        wait_until(lambda: woken.due.accounts == {account}, "the webhook is seen")
        publish(live, range(1, 3))
        wait_until(lambda: [one["event"]["price"] for one in receiver.took] == [0, 1, 2], "deliveries")


def test_receiver_that_is_gone_disables_its_webhook(tmp_path: Path) -> None:
    with serving(tmp_path) as live, Receiver().listening() as receiver:
        receiver.answers = [410]
        subscribe(live)
        hook = add_hook(live, receiver.url)
        publish(live, range(1))
        with live.http("ada") as client:
            url = f"/v1/webhooks/{hook['id']}"
            wait_until(lambda: client.get(url).json()["state"] == "disabled", "the webhook is disabled")
            (letter,) = client.get("/v1/dead-letters").json()["items"]
            assert letter["kind"] == "delivery"
            assert hook["secret"] not in json.dumps(letter)
            assert len(receiver.got) == 1


def test_delivery_is_given_up_as_a_dead_letter_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier, "RETRY_SECONDS", (0.01, 0.01))
    with serving(tmp_path, webhook_first_retry_seconds=0.01) as live, Receiver().listening() as receiver:
        receiver.answers = [500] * 3
        subscribe(live)
        hook = add_hook(live, receiver.url)
        publish(live, range(1))
        wait_until(lambda: [one["state"] for one in deliveries(live, hook["id"])] == ["given_up"], "it is given up")
        with live.http("ada") as client:
            (letter,) = client.get("/v1/dead-letters").json()["items"]
            assert "500" in letter["reason"]
            (one,) = deliveries(live, hook["id"])
            body = {"seq": one["seq"], "subscription": one["subscription"]}
            assert client.post(f"/v1/webhooks/{hook['id']}/deliveries/retry", json=body).status_code == 200
        wait_until(lambda: deliveries(live, hook["id"])[0]["state"] == "delivered", "it is tried again")


def test_nothing_is_delivered_after_unsubscribing(tmp_path: Path) -> None:
    with serving(tmp_path, webhook_first_retry_seconds=0.2) as live, Receiver().listening() as receiver:
        receiver.answers = [500] * 100
        id = subscribe(live)
        hook = add_hook(live, receiver.url)
        publish(live, range(1))
        wait_until(lambda: len(receiver.got) >= 1, "the first attempt")
        with live.http("ada") as client:
            assert client.delete(f"/v1/subscriptions/{id}").status_code == 200
        before = len(receiver.got)
        wait_until(lambda: deliveries(live, hook["id"])[0]["state"] == "given_up", "it is dropped")
        assert len(receiver.got) == before


def test_digest_and_rate_say_when() -> None:
    hour = 3600 * 1_000_000
    assert first_try_us(DeliveryRule("hour"), 5 * hour + 1, 0) == 6 * hour
    assert first_try_us(DeliveryRule("day"), 5 * hour, 0) == 24 * hour
    assert first_try_us(DeliveryRule(), 5 * hour, 6 * hour) == 6 * hour
    assert first_try_us(DeliveryRule(), 5 * hour, 0) == 5 * hour


def test_rate_spaces_deliveries_over_the_hour(tmp_path: Path) -> None:
    with serving(tmp_path) as live, Receiver().listening() as receiver:
        limited, free = subscribe(live), subscribe(live, text="car where price < 2")
        with live.http("ada") as client:
            rule = {"most_per_hour": 4}
            assert client.put(f"/v1/subscriptions/{limited}/delivery", json=rule).status_code == 200
        hook = add_hook(live, receiver.url)
        publish(live, range(5))
        wait_until(lambda: len(deliveries(live, hook["id"])) == 7, "all are made out")
        due = {free: [], limited: []}  # type: dict[int, list[datetime]]
        for one in deliveries(live, hook["id"]):
            due[one["subscription"]].append(datetime.fromisoformat(one["next"]))
        spaces = [second - first for first, second in itertools.pairwise(due[limited])]
        assert spaces == [timedelta(minutes=15)] * 4
        assert due[free] == [due[limited][0]] * 2
        wait_until(lambda: len(receiver.got) == 3, "what is due is delivered")


def test_retries_last_about_three_days_and_then_end() -> None:
    total, attempts = 0.0, 1
    while (again := retry_us(attempts, 0, 5.0)) is not None:
        total, attempts = total + again / 3.6e9, attempts + 1
    assert 60 < total < 96
    assert attempts == 10
    asked = retry_us(1, 0, 5.0, 3600.0)
    assert asked is not None
    assert asked >= 3600 * 1_000_000


def test_digest_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(courier.PERIOD_US, "hour", 300_000)
    with serving(tmp_path) as live, Receiver().listening() as receiver:
        id = subscribe(live)
        with live.http("ada") as client:
            assert client.put(f"/v1/subscriptions/{id}/delivery", json={"digest": "hour"}).status_code == 200
        hook = add_hook(live, receiver.url)
        publish(live, range(20))
        wait_until(lambda: [one["state"] for one in deliveries(live, hook["id"])] == ["delivered"] * 20, "the digest")
        sent = [json.loads(body) for _, body in receiver.got]
        assert {one["type"] for one in sent} == {"tocsin.digest"}
        assert sum(one["data"]["count"] for one in sent) == 20
        assert len(sent) < 20


def test_one_that_fails_holds_back_the_rest_of_its_subscription_and_no_other(tmp_path: Path) -> None:
    with serving(tmp_path, webhook_first_retry_seconds=600) as live, Receiver().listening() as receiver:
        ordered, other = subscribe(live, text="car where price < 8"), subscribe(live, text="car where price > -1")
        failures = [500]
        receiver.refuses = lambda data: (
            failures.pop() if failures and (data["subscription"], data["event"]["price"]) == (ordered, 3) else None
        )
        hook = add_hook(live, receiver.url)
        for price in range(8):
            publish(live, range(price, price + 1))

        def arrived(id: int) -> list[int]:
            return [one["event"]["price"] for one in receiver.took if one["subscription"] == id]

        wait_until(lambda: arrived(other) == list(range(8)), "the other subscription's arrive")
        wait_until(lambda: not failures, "the one fails")

        def waiting_now() -> list[dict[str, Any]]:
            return [one for one in deliveries(live, hook["id"]) if one["state"] == "waiting"]

        wait_until(lambda: {one["subscription"] for one in waiting_now()} == {ordered}, "what arrived is recorded")
        waiting = waiting_now()
        assert arrived(ordered) == [0, 1, 2]
        body = {name: waiting[0][name] for name in ("seq", "subscription")}
        with live.http("ada") as client:  # rather than to wait for the retry
            wait_until(lambda: deliveries(live, hook["id"])[6]["attempts"] == 1, "the failure is recorded")
            assert client.post(f"/v1/webhooks/{hook['id']}/deliveries/retry", json=body).status_code == 200
        wait_until(lambda: arrived(ordered) == list(range(8)), "all arrive, in order")


def test_order_holds_when_a_subscription_is_replaced_while_something_waits(tmp_path: Path) -> None:
    with serving(tmp_path, webhook_first_retry_seconds=0.2) as live, Receiver().listening() as receiver:
        id = subscribe(live)
        failures = [500]
        receiver.refuses = lambda data: failures.pop() if failures and data["event"]["price"] == 0 else None
        add_hook(live, receiver.url)
        publish(live, range(1))
        wait_until(lambda: len(receiver.got) == 1, "the first attempt")
        with live.http("ada") as client:
            assert client.put(f"/v1/subscriptions/{id}", json={"text": "car where price < 50"}).status_code == 200
        publish(live, range(1, 2))
        wait_until(lambda: len(receiver.took) == 2, "both arrive")
        assert [one["event"]["price"] for one in receiver.took] == [0, 1]


def test_receiver_that_answers_nothing_does_not_hold_up_another(tmp_path: Path) -> None:
    release = threading.Event()
    with serving(tmp_path) as live, Receiver().listening() as slow, Receiver().listening() as quick:
        slow.refuses = lambda data: None if release.wait(60) else 500
        for _ in range(6):
            subscribe(live)
        add_hook(live, slow.url)
        add_hook(live, quick.url)
        publish(live, range(3))
        wait_until(lambda: len(quick.took) == 18, "the quick receiver has all")
        assert slow.took == []
        release.set()
        wait_until(lambda: len(slow.took) == 18, "the slow one, too")


def test_webhook_that_fails_again_and_again_is_left_alone_and_asked_once_whether_it_is_back() -> None:
    now = 0.0
    breakers = Breakers[int](30.0, 3600.0, lambda: now)
    for _ in range(4):
        assert not breakers.failed(1)
    assert breakers.start(1)
    assert breakers.failed(1)
    assert (breakers.state(1), breakers.start(1), breakers.resting()) == ("open", False, {1})
    assert breakers.start(2)  # another's is not concerned
    now = 30.0
    assert breakers.state(1) == "half-open"
    assert [breakers.start(1), breakers.start(1)] == [True, False]
    assert breakers.failed(1)
    now = 60.0
    assert breakers.state(1) == "open"  # for twice as long
    now = 91.0
    assert breakers.start(1)
    breakers.succeeded(1)
    assert (breakers.state(1), breakers.resting()) == ("closed", set())


def test_circuit_opens_stays_within_few_requests_and_closes_again(tmp_path: Path) -> None:
    with serving(tmp_path, webhook_first_retry_seconds=0.05) as live, Receiver().listening() as receiver:
        down = threading.Event()
        down.set()
        receiver.refuses = lambda data: 503 if down.is_set() else None
        for _ in range(20):
            subscribe(live)
        hook = add_hook(live, receiver.url)
        publish(live, range(3))
        with live.http("ada") as client:
            url = f"/v1/webhooks/{hook['id']}"
            wait_until(lambda: client.get(url).json()["circuit"] == "open", "the circuit opens")
            assert len(receiver.got) < 20  # the heads of twenty lanes, of which five in a row have failed
            down.clear()
            wait_until(lambda: len(receiver.took) == 60, "all arrive")
            assert client.get(url).json()["circuit"] == "closed"


def test_delivery_that_fails_can_be_skipped_and_the_rest_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path, webhook_first_retry_seconds=60) as live, Receiver().listening() as receiver:
        receiver.refuses = lambda data: 500 if data["event"]["price"] == 0 else None
        subscribe(live)
        hook = add_hook(live, receiver.url)
        publish(live, range(3))
        wait_until(lambda: len(receiver.got) == 1, "the first attempt")
        wait_until(lambda: deliveries(live, hook["id"])[0]["attempts"] == 1, "which is recorded")
        body = {name: deliveries(live, hook["id"])[0][name] for name in ("seq", "subscription")}
        with live.http("ada") as client:
            assert client.post(f"/v1/webhooks/{hook['id']}/deliveries/skip", json=body).json()["state"] == "given_up"
            assert client.post(f"/v1/webhooks/{hook['id']}/deliveries/skip", json=body).status_code == 409
        wait_until(lambda: [one["event"]["price"] for one in receiver.took] == [1, 2], "the rest arrives")


def test_webhook_is_replayed_from_a_cursor_in_order_and_with_the_same_ids(tmp_path: Path) -> None:
    with serving(tmp_path) as live, Receiver().listening() as receiver:
        subscribe(live)
        hook = add_hook(live, receiver.url)
        publish(live, range(4))
        wait_until(lambda: len(receiver.took) == 4, "all arrive")
        with live.http("ada") as client:
            url = f"/v1/webhooks/{hook['id']}/replay"
            body = {"cursor": receiver.took[1]["cursor"]}
            assert client.post(url, json=body).status_code == 200
            wait_until(lambda: len(receiver.took) == 6, "the last two come again")
            assert client.post(url, json={}).status_code == 200
            wait_until(lambda: len(receiver.took) == 10, "all come again")
            assert client.post(url, json={"cursor": "nonsense"}).status_code == 400
        assert [one["event"]["price"] for one in receiver.took] == [0, 1, 2, 3, 2, 3, 0, 1, 2, 3]
        assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 4


def test_what_waited_as_long_is_given_up_together_when_nothing_arrives_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "RETRY_SECONDS", (0.01, 0.01, 0.01, 0.01, 0.01))
    monkeypatch.setattr(courier, "LEAST_PATIENCE_SECONDS", 0.0)
    with serving(tmp_path, webhook_first_retry_seconds=0.01) as live, Receiver().listening() as receiver:
        receiver.refuses = lambda data: 503
        subscribe(live)
        hook = add_hook(live, receiver.url)
        publish(live, range(100))
        wait_until(lambda: {one["state"] for one in deliveries(live, hook["id"])} == {"given_up"}, "all are given up")
        assert len(receiver.got) < 30
