"""The store as a sink: the matches of a micro-batch in one transaction, each stored once however often it comes.

The transaction that writes matches moves `matched_through` past their events, from where it stood and only forward
(store/notifications.py). So a replayed micro-batch, whether cut as before or otherwise, writes nothing; a batch that
would leave a gap is refused. Dead letters, and the values that offers computed, go into the same transaction, under the
same rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.pipeline.crash import reach
from tocsin.store import Store
from tocsin.store.letters import NewDeadLetter, add_dead_letters
from tocsin.store.notifications import Block, record_blocks
from tocsin.store.offers import ValueBlock, add_values

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Stored:
    """What a micro-batch brought that was not there."""

    events: int
    matches: int
    dead_letters: int
    through_seq: int
    cache_hits: int = 0  # of the workers' caches of program results, also for what was there
    cache_misses: int = 0


def store_batch(store: Store, rows: pa.Table) -> Stored:
    """Store the matches and dead letters of a batch of stored_matching.BLOCKS; return what was new."""
    if not rows.num_rows:
        return Stored(0, 0, 0, store.meta().matched_through)
    after_seq = min(rows.column("after_seq").to_pylist())
    seqs = np.sort(longs(rows, "seqs"))
    blocks = [block for packed in rows.column("blocks").to_pylist() for block in _read_blocks(packed)]
    letters = [letter for packed in rows.column("letters").to_pylist() for letter in _read_letters(packed)]
    values = [block for packed in rows.column("values").to_pylist() for block in _read_values(packed)]
    with store.write() as transaction:
        done = transaction.matched_through
        through = max(done, int(seqs[-1]))
        stored = record_blocks(transaction, after_seq, through, blocks)
        add_values(transaction, [block for block in values if block.seq > done])
        new = [letter for seq, letter in sorted(letters, key=lambda one: one[0]) if seq > done]
        if new:
            add_dead_letters(transaction, list(enumerate(new, transaction.draw(len(new)))))
        reach("pipeline.before-sink-commit")
    hits, misses = (sum(rows.column(name).to_pylist()) for name in ("cache_hits", "cache_misses"))
    return Stored(int((seqs > done).sum()), stored, len(new), through, hits, misses)


def longs(rows: pa.Table, name: str) -> npt.NDArray[np.int64]:
    """Return the numbers of a column of packed ones."""
    return np.frombuffer(b"".join(rows.column(name).to_pylist()), "<i8")


_read_blocks = msgspec.msgpack.Decoder(list[Block]).decode
_read_letters = msgspec.msgpack.Decoder(list[tuple[int, NewDeadLetter]]).decode
_read_values = msgspec.msgpack.Decoder(list[ValueBlock]).decode
