"""Attack 7: webhooks to addresses inside are refused, however they are written, also when a name changes its mind."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpcore
import pytest

from tocsin.service.addresses import UnsafeAddress, VettedNetwork, check_reachable, check_url

INSIDE = [
    "https://127.0.0.1/",
    "https://localhost/",
    "https://2130706433/",
    "https://0177.0.0.1/",
    "https://0x7f.1/",
    "https://127.1/",
    "https://0.0.0.0/",
    "https://10.1.2.3/",
    "https://172.16.0.1/",
    "https://192.168.1.1/",
    "https://169.254.169.254/latest/meta-data",
    "https://100.64.0.1/",
    "https://224.0.0.1/",
    "https://[::1]/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[fe80::1]/",
    "https://[fc00::1]/",
    "https://[fec0::1]/",
    "https://[::10.0.0.1]/",
    "https://[64:ff9b:1::a00:1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[2002:7f00:1::]/",
]


@pytest.mark.parametrize("url", INSIDE)
def test_address_inside_is_refused(url: str) -> None:
    with pytest.raises(UnsafeAddress):
        asyncio.run(check_reachable(url))


@pytest.mark.parametrize(
    "url",
    ["http://93.184.216.34/", "file:///etc/passwd", "gopher://x/", "https://user:pw@93.184.216.34/", "https:///x",
     "https://93.184.216.34/#x", "https://a b/", "https://93.184.216.34:0/", "https://\u2488.example/", "x" * 3000],
)  # fmt: skip
def test_url_that_can_be_no_webhook_is_refused(url: str) -> None:
    with pytest.raises(UnsafeAddress):
        check_url(url)


def test_public_address_is_taken() -> None:
    asyncio.run(check_reachable("https://93.184.216.34/hook"))


def test_name_that_changes_its_mind_is_vetted_where_the_connection_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["93.184.216.34", "127.0.0.1"])
    connected: list[str] = []

    async def getaddrinfo(self: Any, host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    async def connect_tcp(self: Any, host: str, *_: Any, **__: Any) -> Any:
        connected.append(host)
        raise AssertionError("no connection is to be made")

    async def scenario() -> None:
        monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", getaddrinfo)
        monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", connect_tcp)
        await check_reachable("https://rebinding.example/")
        with pytest.raises(UnsafeAddress):
            await VettedNetwork().connect_tcp("rebinding.example", 443)

    asyncio.run(scenario())
    assert connected == []


def test_connection_goes_to_the_vetted_address_not_to_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[str] = []

    async def getaddrinfo(self: Any, host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", port))]

    async def connect_tcp(self: Any, host: str, *_: Any, **__: Any) -> Any:
        connected.append(host)

    async def scenario() -> None:
        monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", getaddrinfo)
        monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", connect_tcp)
        await VettedNetwork().connect_tcp("receiver.example", 443)

    asyncio.run(scenario())
    assert connected == ["93.184.216.34"]
