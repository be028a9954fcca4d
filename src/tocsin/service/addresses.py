"""Addresses that the service may connect to on a user's behalf: public ones only, vetted where the connection is made.

The name is resolved, every address it stands for is vetted, and the connection goes to a vetted address, not to the
name: so a name that answers differently a moment later (DNS rebinding) gains nothing. However an address is written,
decimal, octal, IPv6-mapped or behind a translation prefix, it is judged by what the operating system makes of it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import httpcore

from tocsin.service.problems import Invalid

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# Inside, whatever Python's tables make of them: translation within a network, IPv4 in the old notation, segment routing.
_INSIDE = tuple(map(ipaddress.IPv6Network, ("64:ff9b:1::/48", "::/96", "5f00::/16", "3fff::/20")))
_LONGEST_URL = 2000


class UnsafeAddress(Invalid):
    """A webhook's address is not one that may be connected to."""


def check_url(url: str, *, private: bool = False) -> None:
    """Raise UnsafeAddress where a URL can be no webhook's, whatever its name resolves to."""
    if len(url) > _LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise UnsafeAddress("a webhook's URL has up to 2000 printable ASCII characters, and no spaces")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UnsafeAddress("that is not a URL") from None
    if parts.scheme != "https" and not (private and parts.scheme == "http"):
        raise UnsafeAddress("a webhook's URL begins with https://")
    if not host or parts.username is not None or parts.password is not None:
        raise UnsafeAddress("a webhook's URL names a host, and no user")
    if port == 0 or parts.fragment:
        raise UnsafeAddress("a webhook's URL has no fragment, and no port 0")


async def check_reachable(url: str, *, private: bool = False) -> None:
    """Raise UnsafeAddress where a URL's host does not resolve, or to something that is not public."""
    check_url(url, private=private)
    parts = urlsplit(url)
    await vetted(parts.hostname or "", parts.port or 443, private=private)


async def vetted(host: str, port: int, *, private: bool = False) -> list[str]:
    """Return the addresses of a host, all of them vetted; raises UnsafeAddress."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UnsafeAddress("the host of the URL does not resolve") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not private:
        for address in addresses:
            if not is_public(ipaddress.ip_address(address.split("%")[0])):
                raise UnsafeAddress("the host of the URL is not a public address")
    return addresses


def is_public(address: Address) -> bool:
    """Return whether an address is one of the public Internet, and not another in disguise."""
    if isinstance(address, ipaddress.IPv6Address):
        inside = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inside is None and address in _NAT64:
            inside = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inside is not None:
            return is_public(inside)
        if address.is_site_local or any(address in network for network in _INSIDE):
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved and not address.is_unspecified


class VettedNetwork(httpcore.AsyncNetworkBackend):
    """Opens connections for httpcore, to vetted addresses only. TLS still checks the certificate by the name."""

    def __init__(self, *, private: bool = False) -> None:
        self._private = private
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, local_address: str | None = None,  # noqa: ASYNC109 - httpcore's
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:  # fmt: skip
        addresses = await vetted(host, port, private=self._private)
        return await self._network.connect_tcp(addresses[0], port, timeout, local_address, socket_options)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        del path, timeout, socket_options
        raise UnsafeAddress("a webhook is not a file")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
