"""The attacks, each with its expected result. Attacks 1 and 2 are in test_access.py, 7 in test_addresses.py."""

from __future__ import annotations

import asyncio
import gzip
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.service.world import PASSWORD, World, play
from tocsin.service import edge
from tocsin.service.settings import ServiceSettings
from tocsin.service.streams import frame

CAR = {"event_type": "car", "price": 5}
NDJSON = {"content-type": "application/x-ndjson"}


# --- 3: extra fields --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/subscriptions", {"text": "car where price < 3", "owner": "bob"}),
        ("/v1/accounts", {"name": "eve", "password": PASSWORD, "is_admin": True}),
        ("/v1/accounts", {"name": "eve", "password": PASSWORD, "role": "admin"}),
        ("/v1/tokens", {"name": "t", "account": 1}),
        ("/v1/webhooks", {"url": "https://example.com/", "account": 1}),
        ("/v1/events", {**CAR, "owner": "bob"}),
    ],
)
def test_extra_fields_are_refused(path: str, body: dict[str, Any], tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        answer = await world.client("ada").post(path, json=body)
        assert answer.status_code == 422
        assert PASSWORD not in answer.text

    play(tmp_path, scenario)


# --- 4: tickets -------------------------------------------------------------------------------------------------------


def test_forged_altered_foreign_and_used_tickets_open_nothing(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        mine, others = await world.subscribe("ada"), await world.subscribe("bob")
        guest = world.client()
        renew, end = f"/v1/subscriptions/{mine['id']}/renew", f"/v1/subscriptions/{mine['id']}"
        altered = mine["ticket"][:-1] + ("A" if mine["ticket"][-1] != "A" else "B")
        for ticket in ("forged", altered, others["ticket"], ""):
            for answer in (
                await guest.post(renew, headers={"tocsin-ticket": ticket}),
                await guest.delete(end, headers={"tocsin-ticket": ticket}),
            ):
                assert answer.status_code in (401, 403), answer.text
                assert mine["ticket"] not in answer.text
        assert (await guest.post(renew)).status_code == 401
        assert (await guest.post(renew, headers={"tocsin-ticket": mine["ticket"]})).status_code == 200
        assert (await guest.delete(end, headers={"tocsin-ticket": mine["ticket"]})).status_code == 200
        assert (await guest.post(renew, headers={"tocsin-ticket": mine["ticket"]})).status_code == 403

    play(tmp_path, scenario)


def all_bytes(folder: Path) -> bytes:
    """Return everything that the store has written."""
    return b"".join(path.read_bytes() for path in folder.glob("store.db*") if path.is_file())


def test_secrets_are_stored_hashed(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        ticket = (await world.subscribe("ada"))["ticket"]
        stored = await asyncio.to_thread(all_bytes, tmp_path)
        for secret in (ticket, *world.tokens.values(), PASSWORD):
            assert secret.encode() not in stored

    play(tmp_path, scenario)


# --- 5: forged requests of browsers -----------------------------------------------------------------------------------


async def logged_in(world: World) -> tuple[Any, str]:
    """Return a browser with ada's session, and the session's CSRF token."""
    browser = world.client()
    answer = await browser.post("/v1/sessions", json={"name": "ada", "password": PASSWORD})
    assert answer.status_code == 201, answer.text
    return browser, answer.json()["csrf_token"]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/x-www-form-urlencoded", "text=car"),
        ("text/plain", '{"text": "car where price < 3"}'),
        ("application/xml", "<PUBLISH_SUB/>"),
        ("application/json", '{"text": "car where price < 3"}'),
    ],
)
def test_request_forged_by_another_page_is_refused(kind: str, body: str, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        browser, csrf = await logged_in(world)
        headers = {"content-type": kind}
        assert (await browser.post("/v1/subscriptions", content=body, headers=headers)).status_code == 403
        headers |= {"x-csrf-token": csrf, "origin": "https://evil.example"}
        assert (await browser.post("/v1/subscriptions", content=body, headers=headers)).status_code == 403
        good = {"content-type": "application/json", "x-csrf-token": csrf, "origin": "http://test"}
        answer = await browser.post("/v1/subscriptions", content='{"text": "car where price < 3"}', headers=good)
        assert answer.status_code == 201

    play(tmp_path, scenario)


def test_login_from_another_page_is_refused(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        body = {"name": "ada", "password": PASSWORD}
        answer = await world.client().post("/v1/sessions", json=body, headers={"origin": "https://evil.example"})
        assert answer.status_code == 403

    play(tmp_path, scenario)


def test_session_changes_at_login_and_ends_at_logout(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        browser, _ = await logged_in(world)
        first = browser.cookies["tocsin_session"]
        _, csrf = await logged_in(world)
        assert browser.cookies["tocsin_session"] != first
        browser.cookies.clear()
        assert (await browser.get("/v1/account", headers={"cookie": f"tocsin_session={first}"})).status_code == 401
        _, csrf = await logged_in(world)
        now = browser.cookies["tocsin_session"]
        assert (await browser.delete("/v1/sessions/current", headers={"x-csrf-token": csrf})).status_code == 204
        browser.cookies.clear()
        assert (await browser.get("/v1/account", headers={"cookie": f"tocsin_session={now}"})).status_code == 401

    play(tmp_path, scenario)


# --- 6: guessing passwords --------------------------------------------------------------------------------------------


def test_guessing_is_throttled_and_tells_nothing_about_accounts(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        guest = world.client()
        seen: dict[str, list[tuple[int, str]]] = {}
        for name in ("ada", "nobody"):
            seen[name] = []
            for attempt in range(4):
                body = {"name": name, "password": f"guess number {attempt}"}
                answer = await guest.post("/v1/sessions", json=body)
                seen[name].append((answer.status_code, answer.json()["detail"]))
                if answer.status_code == 429:
                    assert int(answer.headers["retry-after"]) >= 1
            world.service.identities._throttle.storage.reset()  # as if from another address
        assert seen["ada"] == seen["nobody"]
        assert [status for status, _ in seen["ada"]] == [401, 401, 401, 429]

    async def limited(world: World) -> None:
        world.service.identities._throttle.storage.reset()
        await scenario(world)

    play(tmp_path, limited, logins_per_minute=3)


# --- 9: bombs, and bodies that are too large --------------------------------------------------------------------------


def test_gzip_bomb_and_oversized_bodies_are_refused(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        client = world.client("ada")
        bomb = gzip.compress(b" " * 50_000_000)
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        assert (await client.post("/v1/events", content=bomb, headers=headers)).status_code == 413
        honest = gzip.compress(b'{"event_type": "car", "price": 5}')
        assert (await client.post("/v1/events", content=honest, headers=headers)).status_code == 201
        assert (await client.post("/v1/events", content=honest[:-9], headers=headers)).status_code == 400
        assert (await client.post("/v1/events", content=b"not gzip", headers=headers)).status_code == 400
        assert (await client.post("/v1/events", content=honest, headers={"content-encoding": "br"})).status_code == 415
        assert (await client.post("/v1/subscriptions", content=b"x" * 5000)).status_code == 413

        async def chunks() -> Any:
            for _ in range(100):
                yield b"x" * 100

        assert (await client.post("/v1/subscriptions", content=chunks())).status_code == 413

    play(tmp_path, scenario, body_bytes=4000, batch_bytes=1_000_000)


# --- 10 and 13: expressions that attack -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "car where ().__class__",
        "car where price < 9**9**9",
        "car where " + "(" * 60_000,
        "car where " + "not " * 10_000 + "price < 3",
        "car where " + " or ".join(f"(price = {n} and brand = 'a')" for n in range(3000)),
        "car where brand like '" + "%a" * 5000 + "'",
        "car where ../../bin/sh('x')",
        "car where __import__('os').system('x')",
        "car where '/etc/passwd'(1)",
    ],
    ids=lambda text: text[10:40],
)
def test_hostile_expression_is_a_quick_error(text: str, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        for path, body in (("/v1/subscriptions", {"text": text}), ("/v1/drafts/plan", {"text": text})):
            answer = await world.client("ada").post(path, json=body)
            assert answer.status_code in (400, 422), answer.text
        assert (await world.client("ada").get("/v1/subscriptions")).json()["items"] == []

    play(tmp_path, scenario)


def test_operator_named_by_a_path_is_refused(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        tree = {"event_types": ["car"], "where": {"call": "../../etc/passwd", "arguments": [1]}}
        assert (await world.client("ada").post("/v1/subscriptions", json=tree)).status_code == 400

    play(tmp_path, scenario)


# --- 11: hostile text is inert ----------------------------------------------------------------------------------------

HOSTILE = [
    "'; DROP TABLE events; --",
    "<script>alert(1)</script>",
    "javascript:alert(1)",
    "a\r\nevent: fake\r\ndata: {}\r\n\r\n",
    "a\nid: 1\n\n",
    "\u202eevil\u2066",
    "a\u2028b\x85c",
]


def test_hostile_text_is_carried_and_never_obeyed(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.subscribe("ada", "car where price < 100")
        for text in HOSTILE:
            await world.publish(1, brand=text)
        told = await world.notifications("ada")
        assert [one["event"]["brand"] for one in told] == HOSTILE
        page = await asyncio.to_thread(world.broker.notifications, "ada", cursor=None)
        for notification in page:
            sent = frame(notification)
            assert sent.count(b"\n") == 4
            assert b"\r" not in sent
            assert sent.endswith(b"\n\n")

    play(tmp_path, scenario)


def test_log_lines_cannot_be_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    monkeypatch.setattr("sys.stderr", out)
    try:
        edge.configure_logs()
        structlog.get_logger().info("x", text='a\r\n{"event": "forged"}\u2028\u202e')
    finally:
        structlog.reset_defaults()
    assert out.getvalue().count("\n") == 1
    assert out.getvalue().isascii()


# --- 12: secrets ------------------------------------------------------------------------------------------------------


def test_secrets_are_in_no_log_and_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario(world: World) -> None:
        subscribed = await world.subscribe("ada")
        secrets = [world.tokens["ada"], subscribed["ticket"], PASSWORD]
        texts = []
        for path in ("/v1/nowhere", "/v1/subscriptions/1", "/v1/notifications?cursor=x"):
            texts.append((await world.client("ada").get(path)).text)
        body = {"name": "ada", "password": PASSWORD, "extra": 1}
        texts.append((await world.client().post("/v1/sessions", json=body)).text)
        texts.append((await world.client().post("/v1/sessions", content=f'{{"password": "{PASSWORD}"')).text)
        headers = {"tocsin-ticket": subscribed["ticket"]}
        texts.append((await world.client().delete("/v1/subscriptions/0", headers=headers)).text)
        shown = capsys.readouterr()
        for secret in secrets:
            assert not any(secret in text for text in (*texts, shown.out, shown.err))

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("entry", "secret"),
    [
        ({"password": "hunter22"}, "hunter22"),
        ({"detail": "for toc_abcdefghijklmnop"}, "toc_abcdefghijklmnop"),
        ({"detail": "Authorization: Bearer abc.def"}, "abc.def"),
        ({"store": "postgresql://user:s3cret@host/db"}, "s3cret"),
        ({"nested": {"api_token": "value"}}, "value"),
        ({"listed": ["whsec_AAAABBBBCCCC"]}, "whsec_AAAABBBBCCCC"),
    ],
)
def test_logs_hide_what_looks_like_a_secret(entry: dict[str, Any], secret: str) -> None:
    assert secret not in repr(edge.hide_secrets(None, "info", entry))


def test_settings_are_not_shown_with_their_secrets() -> None:
    settings = ServiceSettings(admin_token="toc_topsecrettopsecrettop", store="postgresql://u:pw12345@h/d")  # noqa: S106
    assert "topsecret" not in repr(settings)
    assert "pw12345" not in repr(settings)


# --- overload ---------------------------------------------------------------------------------------------------------


def test_account_that_asks_too_often_is_told_when_again(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        answers = [await world.client("ada").get("/v1/subscriptions") for _ in range(4)]
        assert [one.status_code for one in answers] == [200, 200, 200, 429]
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert answers[0].headers["ratelimit-policy"] == '"requests";q=3;w=60'
        assert (await world.client("bob").get("/v1/subscriptions")).status_code == 200

    play(tmp_path, scenario, requests_per_minute=3)


def test_event_and_batch_limits(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        client = world.client("ada")
        large = {**CAR, "brand": "x" * (300 << 10)}
        assert (await client.post("/v1/events", json=large)).status_code == 422
        line = b'{"event_type": "car", "price": 1}\n'
        assert (await client.post("/v1/events", content=line * 30, headers=NDJSON)).status_code == 201
        answer = await client.post("/v1/events", content=line * 40, headers=NDJSON)
        assert answer.status_code == 429
        assert "retry-after" in answer.headers

    play(tmp_path, scenario, events_per_minute=50)


def test_deep_and_wide_json_is_refused(tmp_path: Path) -> None:
    """Deep and wide JSON is refused without the time or the depth that it asks for."""

    async def scenario(world: World) -> None:
        for body in (b"[" * 900_000, b'{"a":' * 100_000, b'{"text": "' + b"a" * 900_000 + b'"}'):
            answer = await world.client("ada").post(
                "/v1/subscriptions", content=body, headers={"content-type": "application/json"}
            )
            assert answer.status_code in (400, 422), answer.text

    play(tmp_path, scenario)
