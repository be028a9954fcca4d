"""The plain TCP port of the thesis's daemon: XML requests in, XML replies out.

A connection carries documents one after the other; each is answered before the next is read. Whoever connects is a guest. Where the daemon was given a way to authenticate, the element of the
thesis's user log logs in for the rest of the connection:

    <USER username="ada" password="…"/>

As in the thesis a fixed number of threads does the work. Everything is bounded: connections, also of one address; the
size of a document; how long a client may take to send one or to read its reply; requests and failed logins of a
connection.

Where one document ends and the next begins, in the bytes of a connection.

The thesis does not say how its daemon knows; its client opens a connection for each request (section 5.5). Here a
document ends with its root element, so a client may close its side after it, as that one, or wait for the reply and
send the next. This module only looks for the end of the root: each byte is looked at once, however the bytes come.
Whether the document is good is for handle.py to say.
"""

from __future__ import annotations

import asyncio
import codecs
import ipaddress
import logging
import re
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tocsin.broker import Broker
from tocsin.xml.handle import LOGIN, MAX_ELEMENTS, answer, root_of
from tocsin.xml.replies import GUEST, XmlPrincipal, XmlRefused, XmlReply, accepted, refused, rejected
from tocsin.xml.safe_xml import MAX_BYTES, MAX_DEPTH, Element

_IN_TAG = re.compile(rb"""[>"'\[]""")
# What an opening is closed by; a tag and a document type by '>', outside quotes.
_CLOSED_BY = ((b"<!--", b"-->"), (b"<![CDATA[", b"]]>"), (b"<?", b"?>"))
_LONGEST_OPENING = len(b"<![CDATA[")
_MOST_PIECES = 6 * MAX_ELEMENTS  # tags, texts, comments of one document
_BLANK = b" \t\r\n"
_OPEN, _SLASH = b"</"


class Framer:
    """Cuts a stream of bytes into documents. After it has raised, the rest of the stream cannot be cut."""

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        self._most_bytes = most_bytes
        self._held = bytearray()
        self._restart()

    def _restart(self) -> None:
        self._at = 0  # everything before this was looked at
        self._searched = 0  # where looking for the end of what starts at _at goes on
        self._quote = b""  # the quotation mark within which that is
        self._depth = 0
        self._pieces = 0

    @property
    def empty(self) -> bool:
        """Whether nothing of a document was seen since the last one ended."""
        return not self._held.strip(_BLANK)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the documents that are complete with this data; raises XmlRefused where none can follow."""
        self._held += data
        found = []
        while (end := self._end_of_root()) is not None:
            found.append(self._take(end))
        if len(self._held) > self._most_bytes:
            raise refused(413, "too-large", f"a document has at most {self._most_bytes:,} bytes")
        return found

    def rest(self) -> bytes:
        """Return what is held: at the end of the stream, a document that is not complete, or blanks."""
        return bytes(self._held)

    def _take(self, end: int) -> bytes:
        document = bytes(self._held[:end])
        del self._held[:end]
        self._restart()
        if len(document) > self._most_bytes:
            raise refused(413, "too-large", f"a document has at most {self._most_bytes:,} bytes")
        return document

    def _end_of_root(self) -> int | None:
        """Return where the root element ends; None where more is needed."""
        if self._at == 0 and self._searched == 0 and not self._begin():
            return None
        while (end := self._end_of_piece()) is not None:
            held, start = self._held, self._at
            self._at = self._searched = end
            self._pieces += 1
            if self._pieces > _MOST_PIECES:
                raise refused(400, "malformed", f"the document has more than {MAX_ELEMENTS:,} elements")
            if held[start] != _OPEN or held[start + 1] in b"!?":
                continue
            if held[start + 1] == _SLASH:
                self._depth -= 1
            elif held[end - 2] != _SLASH:
                self._depth += 1
                if self._depth > MAX_DEPTH:
                    raise refused(400, "malformed", f"the document is nested deeper than {MAX_DEPTH}")
            if self._depth <= 0:
                return end
        return None

    def _begin(self) -> bool:
        """Drop blanks between documents, for an XML declaration must come first; return whether one begins."""
        held = self._held
        held[:] = held.lstrip(_BLANK)
        if held.startswith(codecs.BOM_UTF8):
            del held[: len(codecs.BOM_UTF8)]
        if not held or codecs.BOM_UTF8.startswith(held):
            return False
        if held[0] != _OPEN:
            raise refused(400, "malformed", "what was sent does not begin with '<'; send XML in UTF-8")
        return True

    def _end_of_piece(self) -> int | None:
        """Return the end of the text, tag, comment or other piece that starts at _at; None where it is not here yet."""
        held, at = self._held, self._at
        if at >= len(held):
            return None
        if held[at] != _OPEN:
            end = held.find(b"<", self._searched)
            self._searched = len(held)
            return end if end >= 0 else None
        if len(held) - at < _LONGEST_OPENING and b">" not in held[at:]:
            return None  # too short to know what it is
        for opening, closing in _CLOSED_BY:
            if held.startswith(opening, at):
                return self._find(closing, at + len(opening))
        return self._end_of_tag()

    def _find(self, closing: bytes, first: int) -> int | None:
        end = self._held.find(closing, max(first, self._searched - len(closing) + 1))
        self._searched = len(self._held)
        return end + len(closing) if end >= 0 else None

    def _end_of_tag(self) -> int | None:
        """Return the end of a tag or document type; a '>' within quotes does not end it."""
        held = self._held
        position = max(self._searched, self._at + 1)
        while position < len(held):
            if self._quote:
                closing = held.find(self._quote, position)
                if closing < 0:
                    break
                self._quote, position = b"", closing + 1
            found = _IN_TAG.search(held, position)
            if found is None:
                break
            mark, position = found[0], found.end()
            if mark == b">":
                return position
            if mark == b"[":
                if held.startswith(b"<!", self._at):
                    raise refused(400, "malformed", "declarations inside the document are not accepted")
            else:
                self._quote = bytes(mark)
        self._searched = len(held)
        return None


# The plain TCP port of the thesis's daemon.


log = logging.getLogger(__name__)
Authenticate = Callable[[str, str, str], Awaitable[XmlPrincipal | None]]  # username, password, address

_READ_BYTES = 64 << 10
_LINGER_BYTES = 8 << 20
_LINGER_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class DaemonLimits:
    """The bounds of a daemon."""

    connections: int = 256
    connections_per_address: int = 64
    document_bytes: int = MAX_BYTES
    receive_seconds: float = 30.0  # for a whole document, from the end of the last
    send_seconds: float = 10.0  # for a reply
    requests: int = 10_000  # on one connection
    failed_logins: int = 3  # on one connection
    threads: int = 8


async def serve_xml(
    broker: Broker,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    guest: XmlPrincipal = GUEST,
    authenticate: Authenticate | None = None,
    trust_usernames: bool = False,
    limits: DaemonLimits | None = None,
    tls: ssl.SSLContext | None = None,
) -> XmlDaemon:
    """Return a daemon that listens; port 0 takes a free one. Stop it with `await daemon.stop()`.

    `guest` says what those who have not logged in may do. `trust_usernames` believes the username of a PUBLISH_SUB,
    as the thesis's daemon did; only on a loopback address, since anyone could subscribe as anyone.
    """
    if trust_usernames and not _is_loopback(host):
        raise ValueError(f"usernames are only to be trusted on a loopback address, such as 127.0.0.1, not on {host!r}")
    daemon = XmlDaemon(broker, guest, authenticate, trust_usernames, limits or DaemonLimits())
    await daemon.start(host, port, tls)
    return daemon


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class XmlDaemon:
    """A listening daemon; made by serve_xml."""

    def __init__(
        self,
        broker: Broker,
        guest: XmlPrincipal,
        authenticate: Authenticate | None,
        trust_usernames: bool,
        limits: DaemonLimits,
    ) -> None:
        self.broker, self.guest, self.limits = broker, guest, limits
        self.authenticate, self.trust_usernames = authenticate, trust_usernames
        self.stopping = False
        self._pool = ThreadPoolExecutor(limits.threads, thread_name_prefix="tocsin-xml")
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._addresses: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self.port = 0  # on which it listens

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, host, port, limit=_READ_BYTES, ssl=tls)
        self.port = int(self._server.sockets[0].getsockname()[1])

    @property
    def connections(self) -> int:
        """How many connections there are."""
        return len(self._connections)

    async def stop(self, grace_seconds: float = 10.0) -> None:
        """Stop listening; let the requests that are being done end and be answered, then close all connections."""
        self.stopping = True
        if self._server is not None:
            self._server.close()
        for task, connection in list(self._connections.items()):
            if not connection.busy:
                task.cancel()
        if self._connections:
            await asyncio.wait(list(self._connections), timeout=grace_seconds)
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()
        await asyncio.to_thread(self._pool.shutdown)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= 2 * self.limits.connections:  # too many even to tell them so
            writer.transport.abort()
            return
        peer = writer.get_extra_info("peername")
        connection = Connection(self, reader, writer, str(peer[0]) if peer else "")
        self._addresses[connection.address] += 1
        task = asyncio.get_running_loop().create_task(connection.run())
        self._connections[task] = connection
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        address = self._connections.pop(task).address
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a connection of the XML port failed", exc_info=error)

    def refusal(self, connection: Connection) -> XmlRefused | None:
        """Return why a connection cannot be served."""
        limits = self.limits
        if self.stopping:
            return refused(503, "overloaded", "the daemon is stopping")
        if len(self._connections) > limits.connections:
            return refused(503, "overloaded", f"there are {limits.connections} connections, the most at a time")
        if self._addresses[connection.address] > limits.connections_per_address:
            most = limits.connections_per_address
            return refused(429, "quota", f"your address has {most} connections, the most at a time")
        return None

    async def work(self, root: Element, principal: XmlPrincipal) -> XmlReply:
        """Return the reply to a request, made by one of the threads."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, answer, root, self.broker, principal)

    async def read(self, document: bytes) -> Element:
        """Return the root of a document, read by one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, root_of, document)


class Connection:
    """One client's connection: who it is, and what it may still do."""

    def __init__(
        self, daemon: XmlDaemon, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str
    ) -> None:
        self.daemon, self.address = daemon, address
        self.busy = False  # a request is being done
        self._reader, self._writer = reader, writer
        self._principal = daemon.guest
        self._framer = Framer(daemon.limits.document_bytes)
        self._failed_logins = 0
        self._requests = 0

    async def run(self) -> None:
        """Serve the connection to its end."""
        try:
            await self._converse()
            await self._linger()
        except (ConnectionError, ssl.SSLError, TimeoutError) as error:
            log.debug("the connection of %s broke: %s", self.address, error)
        finally:
            self._writer.close()

    async def _converse(self) -> None:
        if (turned_away := self.daemon.refusal(self)) is not None:
            await self._send(rejected(turned_away))
            return
        try:
            while documents := await self._receive():
                for document in documents:
                    if not await self._serve(document):
                        return
        except XmlRefused as refusal:
            await self._send(rejected(refusal))

    async def _receive(self) -> list[bytes]:
        """Return the next documents; none at the end. Raises XmlRefused where what comes is no document."""
        try:
            async with asyncio.timeout(self.daemon.limits.receive_seconds):
                while data := await self._reader.read(_READ_BYTES):
                    if documents := self._framer.feed(data):
                        return documents
        except TimeoutError:
            if self._framer.empty:
                return []
            seconds = self.daemon.limits.receive_seconds
            raise refused(408, "timeout", f"the document was not complete after {seconds:g} seconds") from None
        if not self._framer.empty:
            await self._serve(self._framer.rest())  # not complete: the parser says where it breaks off
        return []

    async def _serve(self, document: bytes) -> bool:
        """Answer a document; return whether there may be another."""
        self._requests += 1
        if self._requests > self.daemon.limits.requests:
            raise refused(429, "quota", f"a connection serves {self.daemon.limits.requests} requests; open another")
        self.busy = True
        try:
            await self._send(await self._reply(document))
        finally:
            self.busy = False
        return not self.daemon.stopping and self._failed_logins < self.daemon.limits.failed_logins

    async def _reply(self, document: bytes) -> XmlReply:
        try:
            root = await self.daemon.read(document)
            if root.tag == LOGIN:
                return await self._log_in(root)
            return await self.daemon.work(root, self._principal_for(root))
        except XmlRefused as refusal:
            return rejected(refusal)
        except Exception:
            log.exception("an XML request failed")
            return rejected(refused(500, "internal", "something went wrong here; the request may not have been done"))

    def _principal_for(self, root: Element) -> XmlPrincipal:
        username = root.get("username")
        if self.daemon.trust_usernames and self._principal.account is None and root.tag == "PUBLISH_SUB" and username:
            return XmlPrincipal(username, self._principal.roles | {"member"})
        return self._principal

    async def _log_in(self, root: Element) -> XmlReply:
        username, password = root.get("username"), root.get("password")
        if username is None or password is None or len(root.attrib) > 2 or len(root) or (root.text or "").strip():
            raise refused(422, "invalid", '<USER username="…" password="…"/> logs in')
        if self.daemon.authenticate is None:
            raise refused(403, "forbidden", "nobody can log in on this port")
        principal = await self.daemon.authenticate(username, password, self.address)
        if principal is None:
            self._failed_logins += 1
            self._principal = self.daemon.guest
            raise refused(401, "login", "the username or the password is wrong")
        self._principal = principal
        return accepted(LOGIN, id=principal.account)

    async def _send(self, reply: XmlReply) -> None:
        self._writer.write(reply.body)
        async with asyncio.timeout(self.daemon.limits.send_seconds):
            await self._writer.drain()

    async def _linger(self) -> None:
        """Let the client read the last reply: closing while it still sends would take the reply away from it."""
        if self._writer.can_write_eof():
            self._writer.write_eof()
        async with asyncio.timeout(_LINGER_SECONDS):
            left = _LINGER_BYTES
            while left > 0 and (data := await self._reader.read(_READ_BYTES)):
                left -= len(data)
