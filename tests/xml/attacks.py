"""Documents that attack whoever parses them. `python -m tests.xml.attacks FOLDER` runs them, and watches.

Run as a program it sends every attack to a broker of its own, while the kernel (inotify) and Python (an audit hook)
watch for files that are opened, and a socket on this machine waits for connections; it prints a line of JSON for each:
name, status, milliseconds, what was touched.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import sys
import time
from pathlib import Path

DEPTH = 100_000
_IN_OPEN = 0x20


def attacks(trap: str, port: int) -> dict[str, bytes]:
    """Return attacks by name; those that reach for something reach for the file `trap`, or for the port."""
    url = f"http://127.0.0.1:{port}"
    body = "<EVENT_TYPE><VALUE type='car'/></EVENT_TYPE><ATTRIBUTES><ATTR type='period'>&x;</ATTR></ATTRIBUTES>"
    event = f"<PUBLISH_EVENT contact='x'>{body}</PUBLISH_EVENT>"
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    texts = {
        "external entity, file": f'<!DOCTYPE PUBLISH_EVENT [<!ENTITY x SYSTEM "file://{trap}">]>{event}',
        "external entity, network": f'<!DOCTYPE PUBLISH_EVENT [<!ENTITY x SYSTEM "{url}/x">]>{event}',
        "external entity, public": f'<!DOCTYPE PUBLISH_EVENT [<!ENTITY x PUBLIC "p" "{url}/x">]>{event}',
        "parameter entity": f'<!DOCTYPE PUBLISH_EVENT [<!ENTITY % p SYSTEM "{url}/p"> %p;]>{event}',
        "parameter entity, file": f'<!DOCTYPE PUBLISH_EVENT [<!ENTITY % p SYSTEM "{trap}"> %p;]>{event}',
        "external DTD, network": f'<!DOCTYPE PUBLISH_EVENT SYSTEM "{url}/evil.dtd">{event}',
        "external DTD, file": f'<!DOCTYPE PUBLISH_EVENT SYSTEM "file://{trap}">{event}',
        "external DTD, known name, network": f'<!DOCTYPE PUBLISH_EVENT SYSTEM "{url}/pub_event.dtd">{event}',
        "external DTD, known name, file": f'<!DOCTYPE PUBLISH_EVENT SYSTEM "{trap}">{event}',
        "external DTD, public": f'<!DOCTYPE PUBLISH_EVENT PUBLIC "-//x" "{url}/pub_event.dtd">{event}',
        "external DTD and subset": f'<!DOCTYPE PUBLISH_EVENT SYSTEM "pub_event.dtd" [<!ENTITY x "y">]>{event}',
        "billion laughs": f'<!DOCTYPE PUBLISH_EVENT [<!ENTITY l0 "ha">{laughs}<!ENTITY x "&l9;">]>{event}',
        "quadratic blow-up": f'<!DOCTYPE PUBLISH_EVENT [<!ENTITY x "{"a" * 50_000}">]>{event.replace("&x;", "&x;" * 9000)}',
        "entity in an attribute": f'<!DOCTYPE PUBLISH_EVENT SYSTEM "pub_event.dtd">{event.replace("&x;", "").replace("car", "&x;")}',
        "undeclared entity": f'<!DOCTYPE PUBLISH_EVENT SYSTEM "pub_event.dtd">{event}',
        "empty subset": f"<!DOCTYPE PUBLISH_EVENT []>{event}",
        "attribute list": f'<!DOCTYPE PUBLISH_EVENT [<!ATTLIST ATTR x CDATA "{"y" * 9999}">]>{event}',
        "XInclude": f'<PUBLISH_EVENT xmlns:i="http://www.w3.org/2001/XInclude"><i:include href="{trap}"/></PUBLISH_EVENT>',
        "style sheet": f'<?xml-stylesheet type="text/xsl" href="{url}/x.xsl"?>{event}',
        "schema location": f'<PUBLISH_EVENT xmlns:x="http://www.w3.org/2001/XMLSchema-instance" x:noNamespaceSchemaLocation="{url}/x"/>',
        "depth": "<a>" * DEPTH + "</a>" * DEPTH,
        "depth, not closed": "<PUBLISH_EVENT>" * 60_000,
        "depth, within a request": event.replace("&x;", "<a>" * DEPTH + "</a>" * DEPTH),
        "many attributes": "<PUBLISH_EVENT " + " ".join(f"a{n}=''" for n in range(90_000)) + "/>",
        "many of the same attribute": "<PUBLISH_EVENT " + "a='' " * 150_000 + "/>",
        "many namespaces": "<PUBLISH_EVENT " + " ".join(f"xmlns:a{n}='u{n}'" for n in range(40_000)) + "/>",
        "huge attribute": f'<PUBLISH_EVENT contact="{"x" * 1_000_000}"/>',
        "huge name": f"<{'x' * 1_000_000}/>",
        "many elements": f"<PUBLISH_EVENT>{'<a/>' * 200_000}</PUBLISH_EVENT>",
        "many wrong elements": f"<PUBLISH_EVENT>{'<a/>' * 1_990}</PUBLISH_EVENT>",
        "many comments": f"{'<!---->' * 140_000}<PUBLISH_EVENT/>",
        "NUL": event.replace("&x;", "\0"),
        "control character by reference": event.replace("&x;", "&#8;"),
        "NUL by reference": event.replace("&x;", "&#0;"),
        "surrogate by reference": event.replace("&x;", "&#xD800;"),
        "CDATA that does not end": event.replace("&x;", "<![CDATA["),
        "two roots": "<IESCHEMA/><IESCHEMA/>",
        "XML 1.1": '<?xml version="1.1"?><PUBLISH_EVENT>&#1;</PUBLISH_EVENT>',
        "unknown encoding": '<?xml version="1.0" encoding="x-evil"?><PUBLISH_EVENT/>',
        "encoding UTF-7": '<?xml version="1.0" encoding="UTF-7"?>+ADw-PUBLISH_EVENT/+AD4-',
        "encoding EBCDIC": '<?xml version="1.0" encoding="cp037"?><PUBLISH_EVENT/>',
        "encoding said to be UTF-16": '<?xml version="1.0" encoding="UTF-16"?><PUBLISH_EVENT/>',
    }
    return {name: text.encode() for name, text in texts.items()} | {
        "UTF-16 with an entity": f'<!DOCTYPE a [<!ENTITY x SYSTEM "{url}/x">]>{event}'.encode("utf-16"),
        "UTF-16 without a mark": event.encode("utf-16-le"),
        "UTF-32": event.encode("utf-32"),
        "not UTF-8": event.replace("&x;", "").encode() + b"\xff\xfe",
        "overlong UTF-8": b"<PUBLISH_EVENT contact='\xc0\xbc'/>",
        "lone surrogate": b"<PUBLISH_EVENT contact='\xed\xa0\x80'/>",
        "nothing": b"",
        "only a NUL": b"\0",
        "too large": b"<a>" + b" " * (2 << 20) + b"</a>",
    }


class OpenFiles:
    """Tells by inotify, whoever in the process does it, whether a file was opened."""

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK)
        if self._descriptor < 0 or libc.inotify_add_watch(self._descriptor, bytes(path), _IN_OPEN) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def seen(self) -> int:
        """Return how often it was opened since the last call."""
        try:
            return len(os.read(self._descriptor, 4096)) // struct.calcsize("iIII")
        except BlockingIOError:
            return 0


def main(folder: Path) -> None:
    """Run the attacks."""
    from tests.xml.thesis import ADMIN, EVENT_OF_APPENDIX_B, thesis_broker
    from tocsin.xml.handle import handle

    trap = folder / "pub_event.dtd"
    trap.write_text("<!ELEMENT PUBLISH_EVENT ANY>")
    watch = OpenFiles(trap)
    trap.read_bytes()
    assert watch.seen() == 1  # it does watch
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    touched: list[str] = []
    watching = False

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        if watching and event in ("open", "socket.connect", "socket.getaddrinfo", "urllib.Request", "subprocess.Popen"):
            touched.append(f"{event} {arguments[0]!r}")

    sys.addaudithook(audit)
    with thesis_broker(folder) as broker:
        assert handle(EVENT_OF_APPENDIX_B, broker, ADMIN).http_status == 200  # what is imported lazily is imported
        handle(b"<PUBLISH_EVENT/>", broker, ADMIN)
        for name, body in attacks(str(trap), listener.getsockname()[1]).items():
            watching, started = True, time.perf_counter()
            reply = handle(body, broker, ADMIN)
            took, watching = (time.perf_counter() - started) * 1000, False
            found = list(touched) + (["the trap"] if watch.seen() else [])
            touched.clear()
            try:
                listener.accept()[0].close()
                found.append("the network")
            except BlockingIOError:
                pass
            line = {"name": name, "status": reply.http_status, "ms": round(took, 2), "touched": found}
            sys.stdout.write(json.dumps(line | {"reply": reply.body.decode()}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
