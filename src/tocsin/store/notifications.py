r"""Stored notifications: the matches of events, many to a row.

An event may match 100,000 subscriptions, and a batch of a thousand events millions; a row for each would cost more than
the matching. So a row holds a block: the matches of the owners of one bucket (the owner's number modulo BUCKETS), of
one transaction, in the order of (seq, owner, subscription), as three flat arrays. A transaction writes at most BUCKETS
rows, or one for each BLOCK matches; an owner reads one bucket, from a cursor on.

Unique: the transaction that writes the matches of events also moves `meta.matched_through` past them, and only from
where it stood (`record_matches`); what lies below is never written again. The id of a notification is not stored, it
is made from the event's id and the subscription's: `notification_id`.

    block = b"\x01" owners: uint32[n] seqs - first_seq: uint32[n] subscriptions: int64[n]     little endian
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, delete, func, select

from tocsin.errors import StoreDamaged, StoreError
from tocsin.store.store import Transaction
from tocsin.store.tables import notifications

BUCKETS = 256
BLOCK = 8192  # matches in one row at most
_FORMAT = b"\x01"
_ROWS = 64  # blocks read at a time
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StoredMatches:
    """StoredMatches as columns: event `seq[i]` satisfied `subscription[i]`, which `owner[i]` owns."""

    seq: Longs
    subscription: Longs
    owner: Longs

    def __len__(self) -> int:
        return len(self.seq)

    @classmethod
    def joined(cls, parts: Sequence[StoredMatches]) -> StoredMatches:
        """Return the matches of all parts."""
        none = np.zeros(0, np.int64)
        return cls(
            np.concatenate([none, *(part.seq for part in parts)]),
            np.concatenate([none, *(part.subscription for part in parts)]),
            np.concatenate([none, *(part.owner for part in parts)]),
        )

    @classmethod
    def of(cls, seq: object, subscription: object, owner: object) -> StoredMatches:
        """Return matches from anything that converts to arrays of integers."""
        return cls(*(np.asarray(column, np.int64) for column in (seq, subscription, owner)))


class Block(NamedTuple):
    """A row of the table: some matches of one bucket, in order."""

    bucket: int
    first_seq: int
    part: int
    last_seq: int
    size: int  # how many
    body: bytes


def notification_id(event_id: bytes, subscription: int) -> bytes:
    """Return the id of a notification, 16 bytes: the same on every retry and after every crash."""
    return hashlib.blake2b(event_id + subscription.to_bytes(8, "big"), digest_size=16, person=b"tocsin").digest()


def record_matches(transaction: Transaction, after_seq: int, through_seq: int, matches: StoredMatches) -> int:
    """Store the matches of the events in (after_seq, through_seq]; return how many were new.

    What an earlier transaction has recorded is left out, so that a batch may be replayed, also cut differently; a
    range that would leave a gap raises StoreError.
    """
    done = transaction.matched_through
    if after_seq > done:
        raise StoreError(f"the events up to {after_seq} are not all matched; matching stands at {done}")
    if through_seq <= done:
        return 0
    new = matches.seq > done
    if not new.all():
        matches = StoredMatches(matches.seq[new], matches.subscription[new], matches.owner[new])
    transaction.insert_rows(notifications, encode_blocks(matches))
    transaction.set_meta(matched_through=through_seq)
    return len(matches)


def record_blocks(transaction: Transaction, after_seq: int, through_seq: int, blocks: Sequence[Block]) -> int:
    """Store blocks of the events in (after_seq, through_seq], made by `encode_blocks` elsewhere; as `record_matches`.

    Blocks that were made apart from each other must be of events apart from each other.
    """
    done = transaction.matched_through
    if after_seq > done or through_seq <= done or any(block.first_seq <= done for block in blocks):
        parts = [decode_block(block.first_seq, block.size, block.body) for block in blocks]
        return record_matches(transaction, after_seq, through_seq, StoredMatches.joined(parts))
    transaction.insert_rows(notifications, blocks)
    transaction.set_meta(matched_through=through_seq)
    return sum(block.size for block in blocks)


def encode_blocks(matches: StoredMatches) -> list[Block]:
    """Return matches as the rows that hold them."""
    if not len(matches):
        return []
    ordered = _ordered(matches)
    bucket, seq = ordered.owner % BUCKETS, ordered.seq
    owner, subscription = ordered.owner.astype("<u4"), ordered.subscription.astype("<i8", copy=False)
    starts = _block_starts(bucket)
    ends = np.append(starts[1:], len(bucket))
    since = (seq - np.repeat(seq[starts], ends - starts)).astype("<u4")
    # Columns become bytes as a whole: events that come one by one make many small blocks.
    owners, sinces, subscriptions = owner.tobytes(), since.tobytes(), subscription.tobytes()
    blocks = []
    part, last = 0, (-1, -1)
    at = (starts, ends, bucket[starts], seq[starts], seq[ends - 1])
    for start, end, number, first, final in zip(*(column.tolist() for column in at), strict=True):
        part = part + 1 if (number, first) == last else 0  # blocks of one event, one after the other
        last = (number, first)
        body = b"".join(
            (
                _FORMAT,
                owners[4 * start : 4 * end],
                sinces[4 * start : 4 * end],
                subscriptions[8 * start : 8 * end],
            )
        )
        blocks.append(Block(number, first, part, final, end - start, body))
    return blocks


def _ordered(matches: StoredMatches) -> StoredMatches:
    """Return the matches by bucket, seq, owner and subscription.

    Where all four fit into 64 bits, as they nearly always do, they are sorted as one number, which takes a fraction of
    the time of sorting by four keys.
    """
    first_seq, first_id = int(matches.seq.min()), int(matches.subscription.min())
    spans = (
        int(matches.seq.max()) - first_seq,
        int(matches.owner.max()) // BUCKETS,
        int(matches.subscription.max()) - first_id,
    )
    seq_bits, owner_bits, id_bits = (span.bit_length() for span in spans)
    bucket = matches.owner % BUCKETS
    if BUCKETS.bit_length() + seq_bits + owner_bits + id_bits > 62:
        order = np.lexsort((matches.subscription, matches.owner, matches.seq, bucket))
        return StoredMatches(matches.seq[order], matches.subscription[order], matches.owner[order])
    key = bucket << seq_bits
    key |= matches.seq - first_seq
    key <<= owner_bits
    key |= matches.owner // BUCKETS
    key <<= id_bits
    key |= matches.subscription - first_id
    key.sort()
    subscription = (key & ((1 << id_bits) - 1)) + first_id
    key >>= id_bits
    owner = (key & ((1 << owner_bits) - 1)) * BUCKETS
    key >>= owner_bits
    seq = (key & ((1 << seq_bits) - 1)) + first_seq
    owner += key >> seq_bits
    return StoredMatches(seq, subscription, owner)


def _block_starts(bucket: Longs) -> Longs:
    """Return where blocks start: at each new bucket, and every BLOCK matches within one."""
    new = np.flatnonzero(np.diff(bucket, prepend=-1))
    ends = np.append(new[1:], len(bucket))
    if (ends - new).max() <= BLOCK:
        return new
    return np.concatenate([np.arange(start, end, BLOCK) for start, end in zip(new, ends, strict=True)])


def read_notifications(connection: Connection, owner: int, after_seq: int) -> Iterator[StoredMatches]:
    """Yield an owner's matches from `after_seq` on (itself included), in order of seq, block by block."""
    table = notifications.c
    bucket = owner % BUCKETS
    # The last block that starts before may reach to that seq, or into it.
    before = select(func.coalesce(func.max(table.first_seq), 0)).where(
        table.bucket == bucket, table.first_seq < after_seq
    )
    position = (int(connection.execute(before).scalar_one()), -1)
    while True:
        query = (
            select(table.first_seq, table.part, table.count, table.body)
            .where(
                table.bucket == bucket,
                (table.first_seq > position[0]) | ((table.first_seq == position[0]) & (table.part > position[1])),
            )
            .order_by(table.first_seq, table.part)
            .limit(_ROWS)
        )
        rows = connection.execute(query).all()
        for row in rows:
            found = decode_block(row[0], row[2], row[3])
            chosen = (found.owner == owner) & (found.seq >= after_seq)
            if chosen.any():
                yield StoredMatches(found.seq[chosen], found.subscription[chosen], found.owner[chosen])
        if len(rows) < _ROWS:
            return
        position = (rows[-1].first_seq, rows[-1].part)


def read_newest(connection: Connection, owner: int, before_seq: int) -> Iterator[StoredMatches]:
    """Yield an owner's matches before a seq, the newest block first; within a block in order of seq."""
    table = notifications.c
    position = (before_seq, -1)  # blocks that begin before it; of those that begin together the last part first
    while True:
        query = (
            select(table.first_seq, table.part, table.count, table.body)
            .where(
                table.bucket == owner % BUCKETS,
                (table.first_seq < position[0]) | ((table.first_seq == position[0]) & (table.part < position[1])),
            )
            .order_by(table.first_seq.desc(), table.part.desc())
            .limit(_ROWS)
        )
        rows = connection.execute(query).all()
        for row in rows:
            found = decode_block(row[0], row[2], row[3])
            chosen = (found.owner == owner) & (found.seq < before_seq)
            if chosen.any():
                yield StoredMatches(found.seq[chosen], found.subscription[chosen], found.owner[chosen])
        if len(rows) < _ROWS:
            return
        position = (rows[-1].first_seq, rows[-1].part)


def is_recorded(connection: Connection, owner: int, seq: int, subscription: int) -> bool:
    """Return whether a match is stored."""
    for found in read_notifications(connection, owner, seq):
        if ((found.seq == seq) & (found.subscription == subscription)).any():
            return True
        if found.seq[-1] > seq:
            break
    return False


def owners_since(connection: Connection, after_seq: int) -> list[int]:
    """Return the owners of matches after a seq."""
    table = notifications.c
    # All buckets are named so that the primary key is used: one look for each bucket.
    query = select(table.first_seq, table.count, table.body).where(
        table.bucket.in_(range(BUCKETS)), table.first_seq > after_seq
    )
    owners = [decode_block(*row).owner for row in connection.execute(query)]
    return np.unique(np.concatenate(owners)).tolist() if owners else []


def count_matches(connection: Connection, after_seq: int, through_seq: int) -> int:
    """Return how many matches the blocks hold that begin after a seq and up to another.

    Where the two are what was matched when, at two times, that is how many were recorded between.
    """
    table = notifications.c
    query = select(func.coalesce(func.sum(table.count), 0)).where(
        table.bucket.in_(range(BUCKETS)), table.first_seq > after_seq, table.first_seq <= through_seq
    )
    return int(connection.execute(query).scalar_one())


def all_blocks(connection: Connection) -> Iterator[tuple[int, int, int, StoredMatches]]:
    """Yield bucket, first and last seq, and the matches of every block, for `tocsin db check`."""
    table = notifications.c
    query = select(notifications).order_by(table.bucket, table.first_seq, table.part)
    rows = connection.execute(query.execution_options(yield_per=_ROWS))
    for bucket, first, _, last, count, body in rows:
        yield bucket, first, last, decode_block(first, count, body)


def decode_block(first_seq: int, count: int, body: bytes) -> StoredMatches:
    """Return the matches of a block; raises StoreDamaged."""
    if body[:1] != _FORMAT or len(body) != 1 + 16 * count:
        raise StoreDamaged(f"the block of notifications at seq {first_seq} is not one")
    owner = np.frombuffer(body, "<u4", count, 1).astype(np.int64)
    seq = np.frombuffer(body, "<u4", count, 1 + 4 * count).astype(np.int64) + first_seq
    return StoredMatches(seq, np.frombuffer(body, "<i8", count, 1 + 8 * count).astype(np.int64), owner)


def remove_through(transaction: Transaction, seq: int) -> int:
    """Remove the blocks that lie wholly up to a seq; return how many."""
    return transaction.connection.execute(delete(notifications).where(notifications.c.last_seq <= seq)).rowcount
