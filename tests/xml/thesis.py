"""The thesis's samples, as it prints them, and a broker over the schema of its appendix A."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from lxml import etree

from tests.clocks import ManualClock
from tocsin.broker import Broker, BrokerSettings
from tocsin.schema import EventType, Schema
from tocsin.schema.examples import load_example
from tocsin.xml.handle import handle
from tocsin.xml.replies import REPLY_DTD, Principal, XmlReply

SAMPLES = Path(__file__).parent / "samples"
THESIS = load_example("thesis")
ADMIN = Principal("root", frozenset({"admin"}))
SBILE = Principal("sbile", frozenset({"member"}))


def before_the_samples() -> Schema:
    """Return appendix A as it was before the requests of appendix C: no artist, and an antique without a size."""
    antique = THESIS.event_types["antique"]
    smaller = EventType("antique", tuple(entry for entry in antique.attributes if entry.attribute != "size"))
    attributes = {name: domain for name, domain in THESIS.attributes.items() if name != "artist"}
    return replace(THESIS, attributes=attributes, event_types={**THESIS.event_types, "antique": smaller})


def sample(name: str) -> bytes:
    """Return a request of appendix C."""
    return (SAMPLES / f"{name}.xml").read_bytes()


def user_log() -> etree._Element:
    """Return appendix B. Its one `O` where a year should be is taken for the zero that it must have been."""
    text = (SAMPLES / "user_log.xml").read_text(encoding="utf-8")
    return etree.fromstring(text.replace(">O<", ">0<").encode())


@contextmanager
def thesis_broker(
    folder: Path, schema: Schema = THESIS, settings: BrokerSettings | None = None, name: str = "thesis"
) -> Iterator[Broker]:
    """Yield a broker over a new store in a folder."""
    place = folder / f"{name}.db"
    with Broker.open(place, schema=schema, sweep=False, machine=ManualClock(), settings=settings) as broker:
        yield broker


def ask(broker: Broker, body: bytes | str, principal: Principal = ADMIN) -> etree._Element:
    """Return the root of the reply to a request."""
    return reply_of(handle(body.encode() if isinstance(body, str) else body, broker, principal))


def reply_of(reply: XmlReply) -> etree._Element:
    """Return the root of a reply, which is well formed and valid by its DTD."""
    root = etree.fromstring(reply.body)
    if root.tag == "REPLY":
        rules = etree.DTD(BytesIO(REPLY_DTD.encode()))
        assert rules.validate(root), rules.error_log
        assert (root.get("status") == "ok") == (reply.http_status == 200)
    return root


def errors_of(root: etree._Element) -> list[tuple[str | None, str | None]]:
    """Return code and line of the errors in a reply."""
    return [(error.get("code"), error.get("line")) for error in root.iter("ERROR")]


def words_of(root: etree._Element) -> str:
    """Return all text in a reply."""
    return "".join(str(text) for text in root.itertext())


EVENT_OF_APPENDIX_B = etree.tostring(next(user_log().iter("PUBLISH_EVENT")))
