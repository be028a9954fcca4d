"""Reply documents. The thesis says that the server replies with XML, and prints no reply: these are ours.

<REPLY status="ok" request="PUBLISH_SUB" id="17" ticket="…" seq="17" lease_end="…" generation="1"/>
<REPLY status="refused" request="PUBLISH_EVENT">
  <ERROR code="bad-value" line="7" attribute="price">price: 'cheap' is not a number</ERROR>
</REPLY>

What is wrong with a request: the statuses, codes and lines of the errors in a reply.

Who makes an XML request, and what they may do.

    role         publish an event   subscribe   extend the schema
    (none)
    publisher    yes
    member       yes                yes
    extender                                    yes
    admin        yes                yes         yes

Everyone may read the schema. A subscription belongs to an account, so a guest cannot have one, whatever the roles. In
the thesis everyone may publish and extend the schema (section 5.4): that is a guest with the roles publisher and extender.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from lxml import etree

from tocsin.errors import (
    AttributeInType,
    BrokerError,
    DuplicateName,
    EventRejected,
    FileError,
    IdempotencyConflict,
    LanguageError,
    LimitExceeded,
    MatchError,
    QuotaExceeded,
    SchemaError,
    StoreError,
    TocsinError,
    UnknownName,
)
from tocsin.schema import Schema
from tocsin.xml.requests import DTD_FILES, dtd

MOST_SHOWN = 100  # problems in one reply


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where."""

    code: str
    message: str
    line: int | None = None
    attribute: str | None = None


class XmlRefused(TocsinError):
    """A request is refused: nothing of it was done. `problems` are all that is wrong with it."""

    def __init__(self, status: int, problems: Iterable[Problem], *, retry_after_seconds: float | None = None) -> None:
        self.status, self.problems, self.retry_after_seconds = status, tuple(problems), retry_after_seconds
        super().__init__("; ".join(problem.message for problem in self.problems))

    @property
    def shown(self) -> tuple[Problem, ...]:
        """The problems, of very many only the first."""
        more = len(self.problems) - MOST_SHOWN
        last = (Problem("more", f"and {more} more"),) if more > 0 else ()
        return (*self.problems[:MOST_SHOWN], *last)


def refused(status: int, code: str, message: str, *, line: int | None = None) -> XmlRefused:
    """Return the refusal for one problem."""
    return XmlRefused(status, [Problem(code, message, line)])


# The first class that fits decides.
_KINDS: tuple[tuple[type[TocsinError], int, str], ...] = (
    (FileError, 400, "malformed"),
    (DuplicateName, 409, "exists"),
    (AttributeInType, 409, "exists"),
    (UnknownName, 422, "unknown"),
    (SchemaError, 422, "invalid"),
    (LanguageError, 422, "predicate"),
    (MatchError, 422, "predicate"),
    (IdempotencyConflict, 409, "idempotency"),
    (QuotaExceeded, 429, "quota"),
    (LimitExceeded, 503, "overloaded"),
    (BrokerError, 422, "invalid"),
    (StoreError, 503, "store"),
    (TocsinError, 422, "invalid"),
)
_LINE = re.compile(r"line (\d+): ")


def problem_of(error: TocsinError, line: int | None = None) -> Problem:
    """Return an error as a problem; `line` is where it belongs, unless its message knows better."""
    message = error.message if isinstance(error, FileError | LanguageError) else str(error)
    if isinstance(error, FileError):
        line = error.line or line
    elif found := _LINE.match(message):
        line, message = int(found[1]), message[found.end() :]
    return Problem(_kind(error)[1], message, line)


def refusal_of(error: TocsinError, problems: Iterable[Problem] = ()) -> XmlRefused:
    """Return an error as a refusal; `problems` are the parts of it, where they are known."""
    if isinstance(error, XmlRefused):
        return error
    if isinstance(error, EventRejected) and not (problems := tuple(problems)):
        problems = [Problem(code_of(one.rule), one.message, None, one.attribute) for one in error.violations]
    retry = error.retry_after_seconds if isinstance(error, LimitExceeded) else None
    return XmlRefused(_kind(error)[0], tuple(problems) or (problem_of(error),), retry_after_seconds=retry)


def code_of(rule: str) -> str:
    """Return the code of a rule that an event breaks: 'bad value' is bad-value."""
    return rule.replace(" ", "-")


def _kind(error: TocsinError) -> tuple[int, str]:
    return next((status, code) for kind, status, code in _KINDS if isinstance(error, kind))


# Reply documents.


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
    """Return a DTD as the schema stands: by a kind of request (PUBLISH_EVENT) or its file's name, or reply.dtd; else None."""
    if name == "reply.dtd":
        return REPLY_DTD
    kinds = {file: kind for kind, file in DTD_FILES.items()} | {kind: kind for kind in DTD_FILES}
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


# Who makes an XML request, and what they may do.


Right = Literal["publish", "subscribe", "extend"]

RIGHTS_OF: dict[str, frozenset[Right]] = {
    "publisher": frozenset({"publish"}),
    "member": frozenset({"publish", "subscribe"}),
    "extender": frozenset({"extend"}),
    "admin": frozenset({"publish", "subscribe", "extend"}),
}


@dataclass(frozen=True, slots=True)
class XmlPrincipal:
    """An account, by its name, or a guest (None), with the roles that it has. A role that is not known gives no right."""

    account: str | None = None
    roles: frozenset[str] = frozenset()

    def may(self, right: Right) -> bool:
        """Return whether one of the roles gives the right."""
        return any(right in RIGHTS_OF.get(role, ()) for role in self.roles)


GUEST = XmlPrincipal()
