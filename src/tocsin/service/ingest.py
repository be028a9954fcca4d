"""Reading events from requests: JSON, NDJSON, and CloudEvents 1.0 in their structured, batched and binary forms.

A CloudEvent's data is the event. Where the data names no event type, the CloudEvent's type does: the whole of it, or
what follows its last dot (`com.example.car`). Source and id make a retry harmless, as an Idempotency-Key does.
Bodies go to the broker as bytes wherever they can: it decodes each event once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tocsin.broker.admission import RawEvent
from tocsin.schema import EVENT_TYPE, Schema
from tocsin.service.refusals import BadRequest, Invalid, WrongMediaType

JSON, NDJSON = "application/json", "application/x-ndjson"
CLOUDEVENT, CLOUDEVENTS = "application/cloudevents+json", "application/cloudevents-batch+json"
MEDIA_TYPES = (JSON, NDJSON, "application/ndjson", "application/jsonl", CLOUDEVENT, CLOUDEVENTS)
_LONGEST_KEY = 200


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


def read_events(headers: Mapping[str, str], body: bytes, schema: Schema) -> Incoming:
    """Return the events of a request; raises WrongMediaType, BadRequest, Invalid."""
    kind = headers.get("content-type", JSON).split(";")[0].strip().lower()
    key = _key(headers)
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


def _key(headers: Mapping[str, str]) -> str | None:
    key = headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= _LONGEST_KEY and key.isprintable()):
        raise Invalid(f"an Idempotency-Key has 1 to {_LONGEST_KEY} printable characters")
    return key


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
    events = [_event(one, schema) for one in found]
    keys = [_key_of(one) for one in found]
    if single:
        return Incoming(events, single, key or keys[0])
    return Incoming(events, single, key, keys)


def _key_of(one: _CloudEvent) -> str:
    name = f"{len(one.source)} {one.source} {one.id}"
    return f"cloudevents {hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _event(one: _CloudEvent, schema: Schema) -> dict[str, Any]:
    if not one.specversion.startswith("1."):
        raise Invalid(f"CloudEvents of version {one.specversion[:10]!r}; send 1.0")
    if not one.id or not one.source:
        raise Invalid("a CloudEvent has an id and a source")
    if not isinstance(one.data, dict):
        raise Invalid("a CloudEvent's data is the event: a JSON object")
    if EVENT_TYPE in one.data:
        return one.data
    last = one.type.rpartition(".")[2]
    return {EVENT_TYPE: one.type if one.type in schema.event_types else last, **one.data}
