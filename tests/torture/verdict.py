"""The verdict: what must hold in a store after its process was killed, given what the process had been told."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.broker.market import SCHEMA
from tocsin.broker import Broker
from tocsin.broker.admission import read_stored
from tocsin.broker.expressions import bind_stored
from tocsin.errors import TocsinError
from tocsin.language import evaluate
from tocsin.store import notifications, subscriptions
from tocsin.store.events import read_events
from tocsin.store.seals import check

Lines = list[list[Any]]


@dataclass
class Verdict:
    """What was found after one or many kills."""

    problems: list[str] = field(default_factory=list)
    acknowledged: int = 0
    in_doubt: int = 0
    events: int = 0
    notifications: int = 0
    recovery_seconds: float = 0.0

    def add(self, other: Verdict) -> None:
        self.problems += other.problems
        self.acknowledged += other.acknowledged
        self.in_doubt += other.in_doubt
        self.events += other.events
        self.notifications += other.notifications
        self.recovery_seconds = max(self.recovery_seconds, other.recovery_seconds)


def judge(place: str, lines: Lines, after_seq: int, engine: str) -> tuple[Verdict, int]:
    """Return what is wrong with the store after a kill, and its seq; asks again about what was in doubt."""
    verdict = Verdict(problems=[f"the load failed: {line[1]}" for line in lines if line[0] == "failed"])
    started = time.perf_counter()
    with Broker.open(place, schema=SCHEMA, sweep=False, engine=engine) as broker:  # type: ignore[arg-type]
        verdict.recovery_seconds = time.perf_counter() - started
        _ask_again(broker, lines, verdict)
        _look_for_acknowledged(broker, lines, after_seq, verdict)
        _compare_with_definition(broker, after_seq, verdict)
        verdict.problems += check(broker.store)
        return verdict, broker.store.meta().seq


def _ask_again(broker: Broker, lines: Lines, verdict: Verdict) -> None:
    """Publish again, with its key, what was asked: what had been stored must not be stored twice."""
    told = {line[1]: line[2] for line in lines if line[0] == "published"}
    for line in lines:
        if line[0] == "ask publish":
            try:
                events: list[dict[str, Any]] = line[2]
                seqs = [receipt.seq for receipt in broker.publish(events, idempotency_key=line[1])]
            except TocsinError as error:
                verdict.problems.append(f"publishing {line[1]} again: {error}")
                continue
            if line[1] in told and told[line[1]] != seqs:
                verdict.problems.append(f"{line[1]} was acknowledged under {told[line[1]]} and is under {seqs} now")
            verdict.in_doubt += line[1] not in told


def _look_for_acknowledged(broker: Broker, lines: Lines, after_seq: int, verdict: Verdict) -> None:
    with broker.store.read() as connection:
        stored = read_events(connection, after_seq, 10**9)
        by_seq = {event.seq: read_stored(event.body)["brand"] for event in stored}
        twice = [brand for brand, count in Counter(by_seq.values()).items() if count > 1]
        verdict.problems += [f"event {brand} is stored twice" for brand in twice]
        for kind, *facts in lines:
            verdict.acknowledged += kind in ("published", "subscribed", "renewed", "unsubscribed")
            if kind == "published":
                verdict.problems += [
                    f"event {facts[0]}.{at} was acknowledged as {seq} and is lost"
                    for at, seq in enumerate(facts[1])
                    if by_seq.get(seq) != f"{facts[0]}.{at}"
                ]
            elif kind in ("subscribed", "renewed", "unsubscribed"):
                found = next(iter(subscriptions.find_subscriptions(connection, [facts[0]])), None)
                if found is None:
                    verdict.problems.append(f"subscription {facts[0]} was acknowledged and is lost")
                elif kind == "subscribed" and found.owner_name != facts[1]:
                    verdict.problems.append(f"subscription {facts[0]} is {found.owner_name}'s, not {facts[1]}'s")
                elif kind == "renewed" and found.generation < facts[1]:
                    verdict.problems.append(f"renewal {facts[1]} of {facts[0]} was acknowledged and is lost")
                elif kind == "unsubscribed" and found.deleted_seq != facts[1]:
                    verdict.problems.append(f"unsubscribe of {facts[0]} was acknowledged and is lost")


def _compare_with_definition(broker: Broker, after_seq: int, verdict: Verdict) -> None:
    """Compare the stored notifications of the new events with what the definition and the snapshot rule say."""
    schema = broker.schema
    with broker.store.read() as connection:
        stored = read_events(connection, after_seq, 10**9)
        rows = [row for chunk in subscriptions.leases_since(connection, 0, 0, trees=True) for row in chunk]
        found = Counter(
            (seq, id)
            for _, _, _, block in notifications.all_blocks(connection)
            for seq, id in zip(block.seq.tolist(), block.subscription.tolist(), strict=True)
            if seq > after_seq
        )
    bound = [(row, bind_stored(row.tree or b"", schema)) for row in rows]
    expected = set()
    for event in stored:
        admitted = schema.admit(read_stored(event.body))
        for row, subscription in bound:
            live = row.id < event.seq and (row.deleted_seq is None or event.seq < row.deleted_seq)
            if live and row.start_us <= event.arrival_us < row.end_us and evaluate(subscription, admitted):
                expected.add((event.seq, row.id))
    verdict.events += len(stored)
    verdict.notifications += len(found)
    verdict.problems += [f"notification {one} is stored {count} times" for one, count in found.items() if count > 1]
    verdict.problems += [f"notification {one} is missing" for one in sorted(expected - set(found))]
    verdict.problems += [f"notification {one} should not be" for one in sorted(set(found) - expected)]
