"""Ingest: events from outside (files, Kafka) into the store's log, each once however often it comes.

Every event has a key made from where it comes from (topic, partition and offset; file, content and occurrence; or an
id that it carries). An event may be an offer. The key is kept as an idempotency key of the publisher `pipeline:<name>`,
in the transaction that stores the event, so a replayed batch, a lost checkpoint or a file read twice stores nothing again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy import select

from tocsin.broker.admission import Admitted, OfferAdmission, PublishedOffer, Rejected, admit_all
from tocsin.broker.cursors import id_text, new_event_ids
from tocsin.broker.publishing import violation_parts
from tocsin.broker.receipts import PublishReceipt
from tocsin.broker.settings import BrokerSettings
from tocsin.errors import EventRejected, SchemaError, Violation
from tocsin.pipeline.crash import reach
from tocsin.schema import Schema
from tocsin.store import Store, Transaction, events, letters, schema_history
from tocsin.store.letters import NewDeadLetter
from tocsin.store.offers import StoredOffer, add_offers
from tocsin.store.tables import idempotency

_KEYS_AT_A_TIME = 500
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Incoming:
    """An event from outside: its key, its JSON, and the version of the schema that its sender meant, if it says so."""

    key: str
    body: str
    schema_version: int | None = None


@dataclass(frozen=True, slots=True)
class Ingested:
    """What a batch brought."""

    events: int
    dead_letters: int
    repeated: int  # known already


def ingest(
    store: Store,
    name: str,
    incoming: Sequence[Incoming],
    *,
    wait_for_schema_seconds: float = 0.0,
    settings: BrokerSettings | None = None,
    offers: OfferAdmission | None = None,
) -> Ingested:
    """Store events in the log, and what is no event in the dead letters; in one transaction.

    `offers` judges those, with its programs; without it there are none. An event for a version of the schema that the
    store does not have waits for it so long, then it is a dead letter.
    """
    _wait_for_schema(store, incoming, wait_for_schema_seconds)
    most_bytes = (settings or BrokerSettings()).event_bytes
    publisher = f"pipeline:{name}"
    distinct = {one.key: one for one in incoming}
    with store.write() as transaction:
        schema = _schema(transaction)
        known = _known_keys(transaction, publisher, list(distinct))
        new = [one for key, one in distinct.items() if key not in known]
        items = _judge(new, schema, most_bytes, offers)
        dead = _store(transaction, publisher, schema, new, items)
        reach("pipeline.before-sink-commit")
    return Ingested(len(new) - dead, dead, len(incoming) - len(new))


def occurrence_keys(places: Sequence[str], bodies: Sequence[str]) -> list[str]:
    """Return a key for each row of files: the file, what the row says, and which of its like it is there.

    Row numbers would do, had Spark any; these are the same in whatever order the rows come.
    """
    seen: dict[tuple[str, str], int] = {}
    keys = []
    for place, body in zip(places, bodies, strict=True):
        count = seen[(place, body)] = seen.get((place, body), 0) + 1
        digest = hashlib.blake2b(f"{place}\0{count}\0{body}".encode("utf-8", "surrogatepass"), digest_size=16)
        keys.append(digest.hexdigest())
    return keys


def _wait_for_schema(store: Store, incoming: Sequence[Incoming], seconds: float) -> None:
    wanted = max((one.schema_version or 0 for one in incoming), default=0)
    deadline = time.monotonic() + seconds
    while store.meta().schema_version < wanted and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _schema(transaction: Transaction) -> Schema:
    newest = schema_history.newest(transaction.connection)
    if newest is None:
        raise SchemaError("the store has no schema yet: tocsin pipeline run --schema FILE gives it one")
    return newest.schema


def _known_keys(transaction: Transaction, publisher: str, keys: list[str]) -> set[str]:
    known: set[str] = set()
    for start in range(0, len(keys), _KEYS_AT_A_TIME):
        query = select(idempotency.c.key).where(
            idempotency.c.publisher == publisher, idempotency.c.key.in_(keys[start : start + _KEYS_AT_A_TIME])
        )
        known.update(transaction.connection.execute(query).scalars())
    return known


def _judge(
    new: Sequence[Incoming], schema: Schema, most_bytes: int, offers: OfferAdmission | None
) -> list[Admitted | Rejected]:
    items = admit_all([one.body for one in new], schema, most_bytes, offers)
    for at, one in enumerate(new):
        if one.schema_version is not None and one.schema_version > schema.version:
            why = f"it was made for version {one.schema_version} of the schema; the store has {schema.version}"
            items[at] = Rejected((Violation("unknown schema version", None, why),), one.body.encode())
    return items


def _store(
    transaction: Transaction, publisher: str, schema: Schema, new: Sequence[Incoming], items: list[Admitted | Rejected]
) -> int:
    """Store the items, their keys with them; return how many are dead letters."""
    if not new:
        return 0
    if transaction.start.matching == "inline":
        raise SchemaError("the store's broker matches events itself; the pipeline must be asked to (matching=pipeline)")
    first = transaction.draw(len(new))
    good, dead, answers = [], [], []
    offers: list[StoredOffer] = []
    ids = new_event_ids(len(new), transaction.now_us)
    for at, (one, item, id) in enumerate(zip(new, items, ids, strict=True)):
        if isinstance(item, Admitted):
            good.append((first + at, id, item.body))
            if isinstance(item.event, PublishedOffer):
                ends_us = transaction.now_us + item.event.ttl_us
                offers.append(StoredOffer(first + at, publisher, ends_us, item.event.document))
            receipt = PublishReceipt(first + at, id_text(id))
        else:
            dead.append((first + at, _letter(publisher, item)))
            receipt = PublishReceipt(first + at, None, item.violations)
        answers.append((publisher, one.key, hashlib.sha256(one.body.encode()).digest(), msgspec.json.encode([receipt])))
    events.add_events(transaction, schema.version, good)
    add_offers(transaction, offers)
    letters.add_dead_letters(transaction, dead)
    letters.add_answers(transaction, answers)
    return len(dead)


def _letter(publisher: str, item: Rejected) -> NewDeadLetter:
    reason = str(EventRejected(item.violations))[:2000]
    violations = msgspec.json.encode([list(violation_parts(one)) for one in item.violations[:100]])
    return NewDeadLetter("event", publisher, reason, violations, item.body)
