"""The right answers, by Tocsin's definition of matching, and the comparison with what a peer answered."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import msgspec

from tocsin.language import bind, evaluate
from tocsin.language.documents import from_document
from tocsin_lab.bench.inferred import schema_of

PAIRS = 1_000_000  # pairs of event and subscription that are checked, about
FEWEST, MOST = 3, 50  # events that are checked

Answers = list[list[int]]


class WrongAnswer(Exception):
    """A peer disagrees with the definition: its times mean nothing."""


def checked_events(subscriptions: int, events: int) -> int:
    """Return how many of the first events to check, each against all subscriptions."""
    return min(events, MOST, max(FEWEST, PAIRS // subscriptions))


def right_answers(subscriptions: Path, events: Path, count: int) -> Answers:
    """Return the ids that match each of the first events."""
    with subscriptions.open("rb") as file, events.open("rb") as occurred:
        schema = schema_of(file, occurred)
    with events.open("rb") as file:
        chosen = [schema.admit(msgspec.json.decode(line)) for line in islice(filter(bytes.strip, file), count)]
    answers: Answers = [[] for _ in chosen]
    with subscriptions.open("rb") as file:
        for line in filter(bytes.strip, file):
            id, tree = from_document(msgspec.json.decode(line))
            bound = bind(tree, schema)
            for event, ids in zip(chosen, answers, strict=True):
                if evaluate(bound, event):
                    ids.append(id)  # type: ignore[arg-type]  # files.read has seen that ids are integers
    return answers


def compare(right: Answers, given: Answers) -> None:
    """Raise WrongAnswer unless a peer gave exactly the right ids, each once, in any order."""
    if len(right) != len(given):
        raise WrongAnswer(f"{len(given)} events answered instead of {len(right)}")
    for number, (expected, found) in enumerate(zip(right, given, strict=True)):
        wanted, got = Counter(expected), Counter(found)
        if wanted != got:
            missing, extra = sorted((wanted - got).elements()), sorted((got - wanted).elements())
            raise WrongAnswer(f"event {number}: {_some('missing', missing)}, {_some('too many', extra)}")


def _some(what: str, ids: list[int]) -> str:
    return f"{what}: {len(ids)} ids" + (f" ({', '.join(map(str, ids[:5]))} …)" if ids else "")
