"""The store as a sink: the matches of a micro-batch in one transaction, each stored once however often it comes.

The transaction that writes matches moves `matched_through` past their events, from where it stood and only forward
(store/notifications.py). So a replayed micro-batch, whether cut as before or otherwise, writes nothing; a batch that
would leave a gap is refused. Dead letters go into the same transaction, under the same rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tocsin.pipeline.crash import reach
from tocsin.store import Store
from tocsin.store.letters import NewDeadLetter, add_dead_letters
from tocsin.store.notifications import Matches, record_matches

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Stored:
    """What a micro-batch brought that was not there."""

    events: int
    matches: int
    dead_letters: int
    through_seq: int


def store_batch(store: Store, rows: pa.Table) -> Stored:
    """Store the matches and dead letters of a batch of stored_matching.py's rows; return what was new."""
    if not rows.num_rows:
        return Stored(0, 0, 0, store.meta().matched_through)
    after_seq = min(rows.column("after_seq").to_pylist())
    seqs = np.sort(rows.column("seq").combine_chunks().to_numpy())
    matches = _matches(rows)
    with store.write() as transaction:
        done = transaction.matched_through
        through = max(done, int(seqs[-1]))
        stored = record_matches(transaction, after_seq, through, matches)
        letters = _letters(rows, done)
        if letters:
            first = transaction.draw(len(letters))
            add_dead_letters(transaction, [(first + at, letter) for at, letter in enumerate(letters)])
        reach("pipeline.before-sink-commit")
    return Stored(int((seqs > done).sum()), stored, len(letters), through)


def _matches(rows: pa.Table) -> Matches:
    from pyarrow import compute

    lists = rows.column("subscriptions").combine_chunks()
    seqs = rows.column("seq").combine_chunks().to_numpy()
    parents = compute.list_parent_indices(lists).to_numpy()
    owners = compute.list_flatten(rows.column("owners").combine_chunks())
    return Matches.of(seqs[parents], compute.list_flatten(lists).to_numpy(), owners.to_numpy())


def _letters(rows: pa.Table, done: int) -> list[NewDeadLetter]:
    from pyarrow import compute

    dead = rows.filter(compute.is_valid(rows.column("reason"))).select(["seq", "reason", "body"]).sort_by("seq")
    return [
        NewDeadLetter(
            "match",
            "",
            str(row["reason"])[:2000],
            msgspec.json.encode([["match", None, f"event {row['seq']}: {row['reason']}"[:2000]]]),
            (row["body"] or "").encode(),
        )
        for row in dead.to_pylist()
        if row["seq"] > done
    ]
