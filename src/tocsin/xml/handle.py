"""One XML request, from its bytes to its reply. HTTP mounts `handle`; the daemon calls it for each document.

Whatever the bytes are, the reply is a well-formed document; only failures that nobody foresaw raise.

From bytes to a request, or to everything that is wrong with them, by line.

First the bytes must be UTF-8 and safe XML (safe_xml.py: no declarations, no entities, nothing fetched, bounds on
all sizes). Then the document must be valid by the live DTD of its kind; all its violations are told. What DTDs cannot
say is checked element by element, so that these errors come together and with their lines as well.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator

from tocsin.broker import Broker
from tocsin.errors import BadDefinition, BadValue, DuplicateName, EventRejected, TocsinError, UnknownEventType, shown
from tocsin.language import And, Node, Op, Predicate, Subscription, bind
from tocsin.schema import EVENT_TYPE, Schema
from tocsin.xml.replies import (
    Problem,
    Right,
    XmlPrincipal,
    XmlRefused,
    XmlReply,
    accepted,
    code_of,
    problem_of,
    refusal_of,
    refused,
    rejected,
)
from tocsin.xml.requests import (
    DTD_FILES,
    AddAttribute,
    AddDomain,
    AddEventType,
    ExtendEventType,
    Extension,
    PublishEvent,
    PublishSubscription,
    Request,
    Triple,
    invalid_places,
    request_of,
    triple_of,
)
from tocsin.xml.safe_xml import MAX_BYTES, Element, elements, line_of, parse, text_of
from tocsin.xml.schema_form import read_type_attribute, to_xml

MAX_ELEMENTS = 2_000  # each may be wrong, and telling so costs more than reading it
READ_SCHEMA = "IESCHEMA"  # the request to read the schema: its root, with nothing in it
LOGIN = "USER"  # the element of the thesis's user log; only the daemon knows it as a request

_ENCODING = re.compile(r"""<\?xml[^>?]*?\sencoding\s*=\s*["']([^"']*)["']""")


def root_of(body: bytes) -> Element:
    """Return the root of a document that a stranger sent; raises XmlRefused."""
    if len(body) > MAX_BYTES:
        raise refused(413, "too-large", f"the document has {len(body):,} bytes; at most {MAX_BYTES:,} are read")
    text = _decoded(body)
    try:
        return parse(text, system_ids=DTD_FILES, max_elements=MAX_ELEMENTS)
    except TocsinError as error:
        raise refusal_of(error) from None


def _decoded(body: bytes) -> str:
    """Return the text of a document in UTF-8. Others are refused, so that no two parsers can read one differently."""
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise refused(400, "encoding", "the document is UTF-16; send UTF-8")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise refused(400, "encoding", f"byte {error.start} is not UTF-8; send UTF-8", line=line) from None
    declared = _ENCODING.match(text)
    if declared and declared[1].lower() not in ("utf-8", "utf8", "us-ascii", "ascii"):
        raise refused(400, "encoding", f"the encoding {declared[1][:40]!r} is not read; send UTF-8", line=1)
    return text


def read(root: Element, schema: Schema) -> Request:
    """Return the request that a document makes; raises XmlRefused with all that is wrong."""
    try:
        if places := invalid_places(root, schema):
            raise XmlRefused(422, [Problem("invalid", message, line) for line, message in places])
        return request_of(root, schema)
    except TocsinError as error:
        raise in_full(error, root, schema) from None


def in_full(error: TocsinError, root: Element, schema: Schema) -> XmlRefused:
    """Return the refusal that tells, beside the first error that was found, all others of its kind, with their lines."""
    if isinstance(error, XmlRefused):
        return error
    if isinstance(error, EventRejected):
        return refusal_of(error, _violations(error, root, schema))
    collect = _COLLECTORS.get(str(root.tag))
    return refusal_of(error, collect(root, schema) if collect else ())


def expression_of(request: PublishSubscription) -> Subscription:
    """Return the subscription in the language's own terms."""
    return Subscription(request.event_types, _conjunction([_predicate(one) for one in request.predicates]))


def _predicate(triple: Triple) -> Predicate:
    attribute, operator, operand = triple
    return Predicate(attribute, Op(operator), operand)  # type: ignore[arg-type]  # a domain's from_text gives literals


def _conjunction(parts: list[Predicate]) -> Node:
    return parts[0] if len(parts) == 1 else And(tuple(parts))


# --- all errors of a kind ---------------------------------------------------------------------------------------------


def _problem(check: Callable[[], object], element: Element) -> Iterator[Problem]:
    """Yield what is wrong with an element, if the check raises."""
    try:
        check()
    except TocsinError as error:
        yield problem_of(error, line_of(element))


def _types(element: Element, schema: Schema) -> Iterator[Problem]:
    for child in elements(element):
        name = child.get("type", "")
        if name not in schema.event_types:
            yield problem_of(UnknownEventType(name, schema.event_types), line_of(child))


def _of_subscription(root: Element, schema: Schema) -> list[Problem]:
    types, attributes = list(elements(root))[:2]
    if found := list(_types(types, schema)):
        return found
    names = tuple(dict.fromkeys(child.get("type", "") for child in elements(types)))

    def check(element: Element) -> None:
        bind(Subscription(names, _predicate(triple_of(element, schema, names))), schema)

    return [problem for child in elements(attributes) for problem in _problem(lambda c=child: check(c), child)]  # type: ignore[misc]


def _of_event(root: Element, schema: Schema) -> list[Problem]:
    types, attributes = elements(root)
    unknown = [
        problem
        for child in elements(attributes)
        for problem in _problem(lambda c=child: schema.domain_of(c.get("type", "")), child)  # type: ignore[misc]
    ]
    return [*_types(types, schema), *unknown]


def _of_extension(root: Element, schema: Schema) -> list[Problem]:
    def check(element: Element) -> None:
        entry = read_type_attribute(element, schema.attributes, {name: name for name in schema.domains})
        schema.extend_event_type(root.get("type", ""), entry.attribute, multiple=entry.multiple)

    return [problem for child in elements(root) for problem in _problem(lambda c=child: check(c), child)]  # type: ignore[misc]


def _of_new_type(root: Element, schema: Schema) -> list[Problem]:
    (element,) = elements(root)
    name = element.get("type", "").strip()
    taken = [problem_of(DuplicateName("event type", name), line_of(element))] if name in schema.event_types else []
    oids = {domain: domain for domain in schema.domains}
    wrong = [
        problem
        for child in elements(element)
        for problem in _problem(lambda c=child: read_type_attribute(c, schema.attributes, oids), child)  # type: ignore[misc]
    ]
    return [*taken, *wrong]


_COLLECTORS: dict[str, Callable[[Element, Schema], list[Problem]]] = {
    "PUBLISH_SUB": _of_subscription,
    "PUBLISH_EVENT": _of_event,
    "EXTENT_SCHEMA": _of_extension,
    "ADD_EVENT": _of_new_type,
}


def _violations(error: EventRejected, root: Element, schema: Schema) -> list[Problem]:
    """Return the violations of an event, each with the line of the value that it is about."""
    _, attributes = elements(root)
    lines: dict[tuple[str, bool], list[int | None]] = {}  # (attribute, its value is bad) -> lines, in order
    for child in elements(attributes):
        name = child.get("type", "")
        lines.setdefault((name, _is_bad(child, schema)), []).append(line_of(child))
    found = []
    for violation in error.violations:
        name = violation.attribute or ""
        own = lines.get((name, violation.rule == "bad value")) or lines.get((name, False))
        line = line_of(attributes)
        if own:
            line = own.pop(0) if violation.rule == "bad value" and len(own) > 1 else own[0]
        found.append(Problem(code_of(violation.rule), violation.message, line, violation.attribute))
    return found


def _is_bad(element: Element, schema: Schema) -> bool:
    domain = schema.domain_of(element.get("type", EVENT_TYPE))
    try:
        domain.admit(domain.from_text(text_of(element)))
    except BadValue:
        return True
    return False


# --- Handling ---------------------------------------------------------------------------------------------------------


CONTACT = "contact"
_NEEDS: dict[str, Right] = {
    "ADD_DOMAIN": "extend",
    "ADD_ATTRIBUTE": "extend",
    "EXTENT_SCHEMA": "extend",
    "ADD_EVENT": "extend",
    "PUBLISH_EVENT": "publish",
    "PUBLISH_SUB": "subscribe",
}
_DENIED: dict[Right, str] = {
    "extend": "extending the schema needs an account that may do that",
    "publish": "publishing needs an account",
    "subscribe": "a subscription belongs to an account; log in first",
}


def handle(body: bytes, broker: Broker, principal: XmlPrincipal, *, idempotency_key: str | None = None) -> XmlReply:
    """Return the reply to a request in XML; what was asked is done, and durable, if the reply says so.

    Blocks while the broker writes: call it in a thread from asyncio. With an idempotency key an event that is sent
    again is not published again.
    """
    try:
        root = root_of(body)
    except XmlRefused as refusal:
        return rejected(refusal)
    return answer(root, broker, principal, idempotency_key=idempotency_key)


def answer(root: Element, broker: Broker, principal: XmlPrincipal, *, idempotency_key: str | None = None) -> XmlReply:
    """Return the reply to a request whose document was read."""
    kind = str(root.tag)
    try:
        if kind == READ_SCHEMA:
            return _schema(root, broker)
        if kind == LOGIN:
            raise refused(422, "invalid", "log in as the address you are sending this to has it; USER is for the port")
        if kind in _NEEDS:  # before anything else is looked at: who may not ask learns nothing
            _check_right(principal, _NEEDS[kind])
        schema = broker.schema
        request = read(root, schema)
        try:
            match request:
                case PublishEvent():
                    return _publish(request, broker, schema, principal, idempotency_key)
                case PublishSubscription():
                    return _subscribe(request, broker, principal)
                case _:
                    return _extend(kind, request, broker, principal.account or "a guest")
        except TocsinError as error:
            raise in_full(error, root, schema) from None
    except TocsinError as error:
        return rejected(refusal_of(error), kind if len(kind) <= 100 else None)


def _check_right(principal: XmlPrincipal, right: Right) -> None:
    if principal.may(right) and (principal.account is not None or right != "subscribe"):
        return
    if principal.account is None:
        raise refused(401, "login", _DENIED[right])
    raise refused(403, "forbidden", f"the account {shown(principal.account)} may not {right}")


def _schema(root: Element, broker: Broker) -> XmlReply:
    if len(root) or root.attrib or (root.text or "").strip():
        raise refused(422, "invalid", f"<{READ_SCHEMA}/> with nothing in it asks for the schema")
    return XmlReply(200, to_xml(broker.schema).encode())


# --- events and subscriptions -----------------------------------------------------------------------------------------


def _publish(
    request: PublishEvent, broker: Broker, schema: Schema, principal: XmlPrincipal, key: str | None
) -> XmlReply:
    """Publish an event. Its contact is delivered where its event types have an attribute of that name."""
    event = request.event
    notes: tuple[str, ...] = ()
    view = schema.view(request.event["event_type"])  # type: ignore[arg-type]
    if CONTACT not in view.attributes:
        notes = (f"the contact is not delivered: the event types have no attribute {CONTACT}",)
    elif CONTACT not in event:
        event = {**event, CONTACT: view[CONTACT].domain.from_text(request.contact)}
    receipt = broker.publish(event, publisher=principal.account or "", idempotency_key=key)
    return accepted("PUBLISH_EVENT", id=receipt.event_id, seq=receipt.seq, notes=notes)


def _subscribe(request: PublishSubscription, broker: Broker, principal: XmlPrincipal) -> XmlReply:
    owner = principal.account or ""
    if request.username is not None and request.username != owner:
        raise refused(403, "forbidden", f"username is {shown(request.username)}, and you are {shown(owner)}")
    receipt = broker.subscribe(expression_of(request), owner=owner, lease=_lease(request.lease_seconds))
    return accepted(
        "PUBLISH_SUB",
        id=receipt.id,
        seq=receipt.seq,
        ticket=receipt.ticket,
        lease_end=receipt.lease_end.isoformat(),
        generation=receipt.generation,
        reference=request.id,
    )


def _lease(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise BadDefinition(f"lease {shown(text)} is not a number of seconds") from None


# --- the schema -------------------------------------------------------------------------------------------------------


def _extend(kind: str, request: Extension, broker: Broker, by: str) -> XmlReply:
    extended = broker.extend_schema(request.apply, words=f"{kind} in XML", by=by)
    [seq] = [entry.seq for entry in broker.schema_history() if entry.version == extended.version]
    return accepted(kind, id=_name_of(request, extended), version=extended.version, seq=seq)


def _name_of(request: Extension, extended: Schema) -> str:
    """Return the name of what was added or extended; that of a domain may have been given when it was added."""
    match request:
        case AddDomain():
            return list(extended.domains)[-1]
        case AddAttribute() | AddEventType():
            return request.name
        case ExtendEventType():
            return request.event_type
