"""Publishing for requests: rates, then the broker's queue.

Reading events from requests: JSON, NDJSON, and CloudEvents 1.0 in their structured, batched and binary forms.

A CloudEvent's data is the event. Where the data names no event type, the CloudEvent's type does: the whole of it, or
what follows its last dot (`com.example.car`). Source and id make a retry harmless, as an Idempotency-Key does.
Bodies go to the broker as bytes wherever they can: it decodes each event once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from tocsin.broker.admission import RawEvent
from tocsin.documents.events import BatchReceipt, DryRunMatches, DryRunResponse, PublishReceipt
from tocsin.errors import BatchRejected, EventRejected
from tocsin.schema import EVENT_TYPE, Schema
from tocsin.service.principal import Principal
from tocsin.service.problems import BadRequest, Invalid, Throttled, TooMuch, WrongMediaType

if TYPE_CHECKING:
    from tocsin.service.service import Service


JSON, NDJSON = "application/json", "application/x-ndjson"
CLOUDEVENT, CLOUDEVENTS = "application/cloudevents+json", "application/cloudevents-batch+json"
MEDIA_TYPES = (JSON, NDJSON, "application/ndjson", "application/jsonl", CLOUDEVENT, CLOUDEVENTS)


@dataclass(frozen=True, slots=True)
class Incoming:
    """What a request publishes: one event, or a batch; with a key where it has one, or one for each event."""

    events: Sequence[RawEvent]
    single: bool
    key: str | None
    keys: Sequence[str] | None = None


class _CloudEvent(msgspec.Struct):
    """The attributes that matter; extensions are let through and not kept."""

    specversion: str
    type: str
    source: str
    id: str
    data: Any = None
    data_base64: str | None = None


def read_events(headers: Mapping[str, str], body: bytes, schema: Schema, key: str | None = None) -> Incoming:
    """Return the events of a request; raises WrongMediaType, BadRequest, Invalid."""
    kind = headers.get("content-type", JSON).split(";")[0].strip().lower()
    if "ce-specversion" in headers:
        return _binary(headers, kind, body, key, schema)
    if kind == CLOUDEVENT:
        return _cloud_events([_decode(body, _CloudEvent)], schema, key, single=True)
    if kind == CLOUDEVENTS:
        return _cloud_events(_decode(body, list[_CloudEvent]), schema, key, single=False)
    if kind in (NDJSON, "application/ndjson", "application/jsonl"):
        lines = body.split(b"\n")
        return Incoming([line for line in lines if line.strip()], single=False, key=key)
    if kind == JSON:
        if body.lstrip()[:1] == b"[":
            raise BadRequest(f"several events are sent one a line, with Content-Type: {NDJSON}")
        if not body.strip():
            raise BadRequest("the body is empty; send an event as JSON")
        return Incoming([body], single=True, key=key)
    raise WrongMediaType(f"events are sent as one of: {', '.join(MEDIA_TYPES)}")


def _decode(body: bytes, wanted: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=wanted)
    except msgspec.ValidationError as error:
        raise Invalid(f"not a CloudEvent: {error}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from None


def _binary(headers: Mapping[str, str], kind: str, body: bytes, key: str | None, schema: Schema) -> Incoming:
    missing = [name for name in ("ce-type", "ce-source", "ce-id") if not headers.get(name)]
    if missing:
        raise Invalid(f"a CloudEvent in binary form has the header {missing[0]}")
    if kind != JSON and not kind.endswith("+json"):
        raise WrongMediaType("a CloudEvent's data is JSON here")
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    event = _CloudEvent(headers["ce-specversion"], headers["ce-type"], headers["ce-source"], headers["ce-id"], data)
    return _cloud_events([event], schema, key, single=True)


def _cloud_events(found: list[_CloudEvent], schema: Schema, key: str | None, *, single: bool) -> Incoming:
    """A CloudEvent is known by its source and id, alone or in whatever batch, and so in whatever request."""
    events = [_event(one, schema, single=single) for one in found]
    keys = [_key_of(one) for one in found]
    if single:
        return Incoming(events, single, key or keys[0])
    return Incoming(events, single, key, keys)


def _key_of(one: _CloudEvent) -> str:
    name = f"{len(one.source)} {one.source} {one.id}"
    return f"cloudevents {hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _event(one: _CloudEvent, schema: Schema, *, single: bool) -> RawEvent:
    if not one.specversion.startswith("1."):
        raise Invalid(f"CloudEvents of version {one.specversion[:10]!r}; send 1.0")
    if not one.id or not one.source:
        raise Invalid("a CloudEvent has an id and a source")
    if not isinstance(one.data, dict):
        if not single:
            return msgspec.json.encode(one.data)  # the broker refuses it, and the others of the batch go on
        raise Invalid("a CloudEvent's data is the event: a JSON object")
    if EVENT_TYPE in one.data:
        return one.data
    last = one.type.rpartition(".")[2]
    return {EVENT_TYPE: one.type if one.type in schema.event_types else last, **one.data}


# Publishing for requests.


async def publish(
    service: Service, principal: Principal, incoming: Incoming, *, atomic: bool = True, receipts: bool = True
) -> PublishReceipt | BatchReceipt:
    """Publish and return the receipts; raises what the broker does."""
    _check(service, principal, incoming)
    key, broker = _own(principal, incoming.key), service.broker
    if incoming.single:
        found = await broker.publish_soon(
            incoming.events[0], idempotency_key=key, atomic=atomic, publisher=principal.name
        )
        service.metrics.published.inc(found.accepted)
        return found
    if incoming.keys is not None:
        keys = [_own(principal, one) or "" for one in incoming.keys]
        many = await asyncio.to_thread(broker.publish_keyed, incoming.events, keys, principal.name, atomic=atomic)
    else:
        many = await asyncio.to_thread(
            broker.publish, list(incoming.events), idempotency_key=key, atomic=atomic, publisher=principal.name
        )
    accepted = sum(one.accepted for one in many)
    service.metrics.published.inc(accepted)
    first, last = (many[0].seq, many[-1].seq) if many else (None, None)
    return BatchReceipt(accepted, len(many) - accepted, first, last, tuple(many) if receipts else ())


def _own(principal: Principal, key: str | None) -> str | None:
    """Return a key as it is stored; guests have no name to keep theirs apart by, so their addresses do."""
    if key is None or not principal.is_guest:
        return key
    return f"guest {hashlib.sha256(f'{principal.address} {key}'.encode('utf-8', 'surrogatepass')).hexdigest()}"


async def try_out(service: Service, principal: Principal, incoming: Incoming) -> DryRunResponse:
    """Return what events would match if they were published now: which of the asker's own, and maybe how many in all.

    Whoever is told how many of others' subscriptions match can find their thresholds by bisection, and leave no trace.
    """
    _check(service, principal, incoming)
    found = await asyncio.to_thread(service.broker.dry_run, list(incoming.events))
    wrong = {at: one.violations for at, one in enumerate(found) if not one.accepted}
    if wrong:
        raise EventRejected(wrong[0]) if incoming.single else BatchRejected(wrong)
    told = service.settings.reveal_counts or principal.role == "admin"
    items = [
        DryRunMatches(
            len(one.reached) if told else None,
            [reached.subscription for reached in one.reached if reached.owner == principal.name],
        )
        for one in found
    ]
    return DryRunResponse(dry_run=True, items=items)


def _check(service: Service, principal: Principal, incoming: Incoming) -> None:
    most = service.settings.events_per_minute
    if len(incoming.events) > service.broker.settings.batch_events:
        raise TooMuch(f"a batch of {len(incoming.events)} events; {service.broker.settings.batch_events} is the most")
    allowed = principal.quotas.get("events_per_minute", most)
    standing = service.events.take(principal.name or principal.address, len(incoming.events), allowed)
    if not standing.granted:
        raise Throttled(f"{allowed} events a minute are the most", standing.again_seconds)
