"""Connectors: events from message systems into a service, and notifications from it into them. No JVM.

    kafka:SERVERS/TOPIC       topics of Kafka, by commas when read
    nats:SERVER/SUBJECT       a subject of a NATS JetStream stream
    redis:SERVER/STREAM       a stream of Redis
    postgres:ADDRESS/TABLE    a table of PostgreSQL with the columns id and body; NOTIFY on its name wakes the reader

They are named as the sources and sinks of `tocsin pipeline`. Both directions are at least once, and carry ids: a message is
known by its place, and the service stores it once however often it is sent; a notification keeps its id, which Kafka and
Redis carry, and by which NATS and PostgreSQL drop what comes again. What was read is acknowledged when the service has it,
what was written when the other side has it.

A message that is no JSON object becomes a dead letter of the account, like an event that breaks the rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import msgspec

from tocsin import plugins
from tocsin.documents.events import BatchReceipt, Notification
from tocsin.errors import TocsinError

if TYPE_CHECKING:
    from tocsin.client.client import Client

READER = "tocsin"  # the group of consumers, and the durable one of a stream
ANSWER_SECONDS = 30.0  # how long a message system may take to acknowledge
BATCH_BYTES = 8 << 20  # well under what a service takes in one request
T = TypeVar("T")


class ConnectorError(TocsinError):
    """A message system refused something, or could not be reached."""


@dataclass(frozen=True, slots=True)
class SourceMessage:
    """What was read: where it lay, and its bytes."""

    place: str
    body: bytes


class Connector(Protocol):
    """One end of a connector; used as a context manager."""

    def close(self) -> None:
        """Let go of the connection; what was not acknowledged is read again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MessageSource(Connector, Protocol):
    """Where events come from."""

    def read(self, most: int, seconds: float) -> list[SourceMessage]:
        """Return the next messages, waiting for the first at most so long."""

    def acknowledge(self) -> None:
        """Say that all that was read is stored."""


class NotificationSink(Connector, Protocol):
    """Where notifications go."""

    def write(self, notifications: Sequence[Notification]) -> None:
        """Return when the other side has them all."""


# --- the two directions -----------------------------------------------------------------------------------------------


def bring(
    source: MessageSource, client: Client, *, event_type: str = "event", size: int = 1000, until_idle: bool = False
) -> Iterator[BatchReceipt]:
    """Publish what comes from a source; yields what became of each batch, without end unless `until_idle`.

    `event_type` is meant where an event names none.
    """
    while True:
        messages = source.read(size, 1.0)
        if messages:
            for batch in _small_batches([_as_event(one) for one in messages]):
                yield client.publish_messages(batch, event_type=event_type)
            source.acknowledge()
        elif until_idle:
            return


def _as_event(message: SourceMessage) -> tuple[str, bytes]:
    """Return a message's place and JSON; what is none becomes a text, which the service refuses with a reason."""
    try:
        msgspec.json.decode(message.body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError):
        return message.place, msgspec.json.encode(message.body.decode("utf-8", "replace"))
    return message.place, message.body


def _small_batches(events: list[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    """Yield the events in batches that a service takes in one request."""
    batch, bytes_of_batch = list[tuple[str, bytes]](), 0
    for event in events:
        if batch and bytes_of_batch + len(event[1]) > BATCH_BYTES:
            yield batch
            batch, bytes_of_batch = [], 0
        batch.append(event)
        bytes_of_batch += len(event[1])
    if batch:
        yield batch


def carry(client: Client, sink: NotificationSink, *, consumer: str, until_idle: bool = False) -> Iterator[int]:
    """Write notifications to a sink as they come; yields how many each time, without end unless `until_idle`.

    `consumer` names whose place is kept in the service: after a restart this goes on behind what was written.
    """
    while True:
        page = client.notifications(limit=1000, consumer=consumer)
        if page.items:
            sink.write(page.items)
            client.acknowledge(page.items[-1].cursor, consumer=consumer)
            yield len(page.items)
        elif until_idle:
            return
        else:
            next(client.listen(consumer=consumer))  # waits until there is something


# --- addresses --------------------------------------------------------------------------------------------------------


def open_source(address: str) -> MessageSource:
    """Return the source at an address, such as kafka:localhost:9092/cars."""
    return _opened(address, {"kafka": KafkaReader, "nats": NatsReader, "redis": RedisReader, "postgres": TableReader})


def open_sink(address: str) -> NotificationSink:
    """Return the sink at an address, such as nats:localhost:4222/alerts."""
    return _opened(address, {"kafka": KafkaWriter, "nats": NatsWriter, "redis": RedisWriter, "postgres": TableWriter})


def is_address(text: str) -> bool:
    """Return whether a text names a message system rather than a file."""
    return text.partition(":")[0] in ("kafka", "nats", "redis", "postgres") and "/" in text


def _opened(address: str, kinds: dict[str, Callable[[str, str], T]]) -> T:
    kind, _, rest = address.partition(":")
    server, _, name = rest.rpartition("/")
    if kind not in kinds or not server or not name:
        raise ConnectorError(
            f"{address} is no address; write kafka:SERVERS/TOPIC, nats:SERVER/SUBJECT, redis:SERVER/STREAM or "
            "postgres:ADDRESS/TABLE"
        )
    plugins.require("postgres" if kind == "postgres" else "connectors")
    return kinds[kind](server, name)


def _json(notification: Notification) -> bytes:
    return msgspec.json.encode(notification)


# --- Kafka ------------------------------------------------------------------------------------------------------------


class KafkaReader(MessageSource):
    """Topics, read by a group of consumers; the group's offsets are committed when the service has the events."""

    def __init__(self, servers: str, topics: str) -> None:
        from confluent_kafka import Consumer

        self._consumer = Consumer(
            {
                "bootstrap.servers": servers, "group.id": READER, "enable.auto.commit": False,
                "auto.offset.reset": "earliest", "error_cb": lambda _: None,  # what matters comes with a message
            }
        )  # fmt: skip
        self._consumer.subscribe(topics.split(","))

    def read(self, most: int, seconds: float) -> list[SourceMessage]:
        found = self._consumer.consume(most, seconds)
        for one in found:
            if (error := one.error()) is not None:
                raise ConnectorError(f"kafka: {error.str()}")
        return [SourceMessage(f"{one.topic()}/{one.partition()}/{one.offset()}", one.value() or b"") for one in found]

    def acknowledge(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class KafkaWriter(NotificationSink):
    """A topic; the key is the subscription, so that its notifications stay in order, and a header is the id."""

    def __init__(self, servers: str, topic: str) -> None:
        from confluent_kafka import Producer

        self._producer = Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "acks": "all", "error_cb": lambda _: None}
        )
        self._topic, self._failed = topic, list[str]()

    def write(self, notifications: Sequence[Notification]) -> None:
        for one in notifications:
            self._producer.produce(
                self._topic, _json(one), str(one.subscription), headers={"id": one.id}, on_delivery=self._delivered
            )
            self._producer.poll(0)
        left = self._producer.flush(ANSWER_SECONDS)
        if left or self._failed:
            raise ConnectorError(
                f"kafka: {self._failed[0] if self._failed else f'{left} were not taken in {ANSWER_SECONDS:g} s'}"
            )

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failed.append(error.str())

    def close(self) -> None:
        self._producer.flush(5.0)


# --- NATS -------------------------------------------------------------------------------------------------------------


class _Nats(Connector):
    """A connection to NATS, whose library is asynchronous: its loop runs while something is asked."""

    def __init__(self, server: str, subject: str) -> None:
        import nats

        self._subject, self._runner = subject, asyncio.Runner()
        try:
            self._connection = self._run(nats.connect(f"nats://{server}", connect_timeout=5, max_reconnect_attempts=1))
            self._stream = self._connection.jetstream(timeout=ANSWER_SECONDS)
        except ConnectorError:
            self._runner.close()
            raise

    def _run(self, doing: Any) -> Any:
        import nats.errors
        import nats.js.errors

        try:
            return self._runner.run(doing)
        except (nats.js.errors.NoStreamResponseError, nats.js.errors.NotFoundError):
            raise ConnectorError(f"nats: no stream has the subject {self._subject}; make one that has it") from None
        except (nats.errors.Error, OSError) as error:
            raise ConnectorError(f"nats: {str(error) or type(error).__name__}") from error

    def close(self) -> None:
        self._run(self._connection.close())
        self._runner.close()


class NatsReader(_Nats, MessageSource):
    """A subject of a stream, by a durable consumer."""

    def __init__(self, server: str, subject: str) -> None:
        super().__init__(server, subject)
        self._read = list[Any]()
        try:
            self._pull = self._run(self._stream.pull_subscribe(subject, durable=READER))
        except ConnectorError:
            self.close()
            raise

    def read(self, most: int, seconds: float) -> list[SourceMessage]:
        self._read = self._run(self._fetch(most, seconds))
        return [
            SourceMessage(f"{one.metadata.stream}/{one.metadata.sequence.stream}", one.data) for one in self._read
        ]  # fmt: skip

    async def _fetch(self, most: int, seconds: float) -> list[Any]:
        try:
            found: list[Any] = await self._pull.fetch(most, timeout=seconds)
        except TimeoutError:  # nothing came
            return []
        return found

    def acknowledge(self) -> None:
        async def all_of_them() -> None:
            await asyncio.gather(*(one.ack_sync(timeout=ANSWER_SECONDS) for one in self._read))

        self._run(all_of_them())


class NatsWriter(_Nats, NotificationSink):
    """A subject of a stream; the stream drops a notification that it had within its window of duplicates."""

    def write(self, notifications: Sequence[Notification]) -> None:
        async def all_of_them() -> None:
            for one in notifications:  # one after the other: the stream keeps this order
                await self._stream.publish(
                    self._subject, _json(one), headers={"Nats-Msg-Id": one.id}, timeout=ANSWER_SECONDS
                )

        self._run(all_of_them())


# --- Redis ------------------------------------------------------------------------------------------------------------


def _redis(server: str) -> Any:
    import redis

    if server.startswith("/"):
        return redis.Redis(unix_socket_path=server)
    return redis.Redis.from_url(f"redis://{server}")


class RedisReader(MessageSource):
    """A stream, by a group of consumers. An event is the field `body`, or all fields as texts where there is none."""

    def __init__(self, server: str, stream: str) -> None:
        self._redis, self._stream, self._ids = _redis(server), stream, list[bytes]()
        self._pending = True  # what a reader before us had not acknowledged comes first
        self._asked(self._make_group)

    def _asked(self, doing: Callable[[], T]) -> T:
        import redis

        try:
            return doing()
        except redis.RedisError as error:
            raise ConnectorError(f"redis: {error}") from error

    def _make_group(self) -> None:
        import redis

        try:
            self._redis.xgroup_create(self._stream, READER, id="0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):  # it is there already
                raise

    def read(self, most: int, seconds: float) -> list[SourceMessage]:
        start = "0" if self._pending else ">"
        found = self._asked(
            lambda: self._redis.xreadgroup(
                READER, READER, {self._stream: start}, most, None if self._pending else max(1, int(seconds * 1000))
            )
        )
        entries = found[0][1] if found else []
        if self._pending and not entries:
            self._pending = False
            return self.read(most, seconds)
        self._ids = [id for id, _ in entries]
        return [SourceMessage(f"{self._stream}/{id.decode()}", _body(fields or {})) for id, fields in entries]

    def acknowledge(self) -> None:
        self._asked(lambda: self._redis.xack(self._stream, READER, *self._ids))

    def close(self) -> None:
        self._redis.close()


def _body(fields: dict[bytes, bytes]) -> bytes:
    if b"body" in fields:
        return fields[b"body"]
    texts = {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in fields.items()}
    return msgspec.json.encode(texts)


class RedisWriter(NotificationSink):
    """A stream, with the fields id and body."""

    def __init__(self, server: str, stream: str) -> None:
        self._redis, self._stream = _redis(server), stream

    def write(self, notifications: Sequence[Notification]) -> None:
        import redis

        with self._redis.pipeline(transaction=True) as pipeline:
            for one in notifications:
                pipeline.xadd(self._stream, {"id": one.id, "body": _json(one)})
            try:
                pipeline.execute()
            except redis.RedisError as error:
                raise ConnectorError(f"redis: {error}") from error

    def close(self) -> None:
        self._redis.close()


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


class _Table(Connector):
    """A table of a database, and the channel of its name."""

    def __init__(self, address: str, table: str) -> None:
        import psycopg
        from psycopg import sql

        self._name, self._table = table, sql.Identifier(*table.split("."))
        self._channel = sql.Identifier(table)
        try:
            self._connection = psycopg.connect(address, autocommit=True, connect_timeout=5)
        except psycopg.Error as error:
            raise ConnectorError(f"postgres: {error}") from None

    def _execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        import psycopg
        from psycopg import sql

        written = sql.SQL(statement).format(table=self._table, channel=self._channel)
        try:
            cursor = self._connection.execute(written, parameters)
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise ConnectorError(f"postgres, {self._name}: {error}") from error

    def close(self) -> None:
        self._connection.close()


class TableReader(_Table, MessageSource):
    """Rows in the order of their ids, taken out of the table when the service has them (an outbox)."""

    def __init__(self, address: str, table: str) -> None:
        super().__init__(address, table)
        self._ids = list[Any]()
        self._execute("LISTEN {channel}")

    def read(self, most: int, seconds: float) -> list[SourceMessage]:
        rows = self._rows(most)
        if not rows:
            for _ in self._connection.notifies(timeout=seconds, stop_after=1):
                pass
            rows = self._rows(most)
        self._ids = [id for id, _ in rows]
        return [SourceMessage(f"{self._name}/{id}", body.encode()) for id, body in rows]

    def _rows(self, most: int) -> list[Any]:
        return self._execute("SELECT id, body::text FROM {table} ORDER BY id LIMIT %s", [most])

    def acknowledge(self) -> None:
        self._execute("DELETE FROM {table} WHERE id = ANY(%s)", [self._ids])


class TableWriter(_Table, NotificationSink):
    """Rows (id, body), each once; the table is made where it is missing. NOTIFY on its name tells the last id."""

    def __init__(self, address: str, table: str) -> None:
        super().__init__(address, table)
        self._execute(
            "CREATE TABLE IF NOT EXISTS {table} "
            "(place bigint GENERATED ALWAYS AS IDENTITY, id text PRIMARY KEY, body jsonb NOT NULL)"
        )

    def write(self, notifications: Sequence[Notification]) -> None:
        with self._connection.transaction():
            for one in notifications:
                self._execute(
                    "INSERT INTO {table} (id, body) VALUES (%s, %s::jsonb) ON CONFLICT (id) DO NOTHING",
                    [one.id, _json(one).decode()],
                )
            self._execute("SELECT pg_notify(%s, %s)", [self._name, notifications[-1].id])
