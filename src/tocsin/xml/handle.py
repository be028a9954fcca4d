"""One XML request, from its bytes to its reply. HTTP mounts `handle`; the daemon calls it for each document.

Whatever the bytes are, the reply is a well-formed document; only failures that nobody foresaw raise.
"""

from __future__ import annotations

from tocsin.broker import Broker
from tocsin.errors import BadDefinition, TocsinError, shown
from tocsin.schema import Schema
from tocsin.xml.reading import LOGIN, READ_SCHEMA, expression_of, in_full, read, root_of
from tocsin.xml.replies import Right, XmlPrincipal, XmlRefused, XmlReply, accepted, refusal_of, refused, rejected
from tocsin.xml.requests import (
    AddAttribute,
    AddDomain,
    AddEventType,
    ExtendEventType,
    Extension,
    PublishEvent,
    PublishSubscription,
)
from tocsin.xml.safe_xml import Element
from tocsin.xml.schema_form import to_xml

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
