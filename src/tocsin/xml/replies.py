"""Reply documents. The thesis says that the server replies with XML, and prints no reply: these are ours.

<REPLY status="ok" request="PUBLISH_SUB" id="17" ticket="…" seq="17" lease_end="…" generation="1"/>
<REPLY status="refused" request="PUBLISH_EVENT">
  <ERROR code="bad-value" line="7" attribute="price">price: 'cheap' is not a number</ERROR>
</REPLY>
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lxml import etree

from tocsin.schema import Schema
from tocsin.xml.dtd import DTD_FILES, dtd
from tocsin.xml.problems import XmlRefused

CONTENT_TYPE = "application/xml; charset=utf-8"

REPLY_DTD = """<?xml version="1.0" encoding="UTF-8"?>
<!ELEMENT REPLY ( NOTE*, ERROR* )>
<!ATTLIST REPLY status ( ok | refused ) #REQUIRED>
<!ATTLIST REPLY request CDATA #IMPLIED>
<!ATTLIST REPLY id CDATA #IMPLIED>
<!ATTLIST REPLY seq CDATA #IMPLIED>
<!ATTLIST REPLY version CDATA #IMPLIED>
<!ATTLIST REPLY ticket CDATA #IMPLIED>
<!ATTLIST REPLY lease_end CDATA #IMPLIED>
<!ATTLIST REPLY generation CDATA #IMPLIED>
<!ATTLIST REPLY reference CDATA #IMPLIED>
<!ATTLIST REPLY retry_after CDATA #IMPLIED>
<!ELEMENT NOTE (#PCDATA)>
<!ELEMENT ERROR (#PCDATA)>
<!ATTLIST ERROR code CDATA #REQUIRED>
<!ATTLIST ERROR line CDATA #IMPLIED>
<!ATTLIST ERROR attribute CDATA #IMPLIED>
"""
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class XmlReply:
    """A reply: its document, and what HTTP says beside it."""

    http_status: int
    body: bytes
    retry_after_seconds: float | None = None


def accepted(request: str, *, notes: tuple[str, ...] = (), **fields: object) -> XmlReply:
    """Return the reply to a request that was done; fields that are None are left out."""
    root = _root("ok", request)
    for name, value in fields.items():
        if value is not None:
            root.set(name, _clean(str(value)))
    for note in notes:
        etree.SubElement(root, "NOTE").text = _clean(note)
    return XmlReply(200, _written(root))


def rejected(refusal: XmlRefused, request: str | None = None) -> XmlReply:
    """Return the reply to a request of which nothing was done."""
    root = _root("refused", request)
    retry = refusal.retry_after_seconds
    if retry is not None:
        root.set("retry_after", f"{retry:g}")
    for problem in refusal.shown:
        element = etree.SubElement(root, "ERROR", code=problem.code)
        if problem.line is not None:
            element.set("line", str(problem.line))
        if problem.attribute is not None:
            element.set("attribute", _clean(problem.attribute))
        element.text = _clean(problem.message)
    return XmlReply(refusal.status, _written(root), retry)


def dtd_file(name: str, schema: Schema) -> str | None:
    """Return the DTD of that file name, as the schema stands: pub_event.dtd and the like, reply.dtd; None for another."""
    if name == "reply.dtd":
        return REPLY_DTD
    kinds = {file: kind for kind, file in DTD_FILES.items()}
    return dtd(schema, kinds[name]) if name in kinds else None


def _root(status: str, request: str | None) -> etree._Element:
    root = etree.Element("REPLY", status=status)
    if request is not None:
        root.set("request", _clean(request))
    return root


def _clean(text: str) -> str:
    """Return the text without the characters that XML cannot have."""
    return _NOT_XML.sub("\ufffd", text)


def _written(root: etree._Element) -> bytes:
    etree.indent(root)
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + etree.tostring(root, encoding="utf-8") + b"\n"
