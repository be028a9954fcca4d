"""Cursors: opaque texts that say how far a reader has come, in one incarnation of the store.

They are sealed with a key that only the store knows, and those that an owner got are good for that owner only: made up,
altered or another's, they are refused. A cursor of nobody (the oldest there is, the newest) is good for everybody.

The store's microseconds as datetimes, and event ids as texts.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import struct
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np

from tocsin.errors import BadCursor

_LAYOUT = struct.Struct(">B4sQQQ")
_SEAL_BYTES = 8
_VERSION, _UNSEALED = 2, 1
LAST = 2**63 - 1  # after every subscription
NOBODY = 0  # accounts are numbered from 1


class Position(NamedTuple):
    """After the match of event `seq` with `subscription`; positions order as notifications are delivered."""

    seq: int
    subscription: int


class Decoded(NamedTuple):
    """What a cursor says; whether it is true, `check` knows."""

    position: Position
    incarnation: str  # its beginning
    owner: int


def encode(position: Position, incarnation: str, owner: int = NOBODY) -> str:
    """Return the cursor of a position, for one owner or for everybody."""
    body = _LAYOUT.pack(_VERSION, bytes.fromhex(incarnation[:8]), *position, owner)
    return base64.urlsafe_b64encode(body + _seal(body, incarnation)).decode().rstrip("=")


def decode(cursor: str) -> Decoded:
    """Return what a cursor says; raises BadCursor where it is none."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        version, incarnation, seq, subscription, owner = _LAYOUT.unpack(raw[:-_SEAL_BYTES])
    except (binascii.Error, ValueError, struct.error):
        raise BadCursor("this is no cursor; use one as it came with a page or a notification") from None
    if version != _VERSION or max(seq, subscription, owner) > LAST:
        raise BadCursor("this cursor was altered; use one as it came with a page or a notification")
    return Decoded(Position(seq, subscription), incarnation.hex(), owner)


def check(cursor: str, incarnation: str, owner: int | None) -> None:
    """Raise BadCursor where a cursor of this incarnation was altered, or is another's; `owner` None: whoever asks."""
    found = decode(cursor)
    if not hmac.compare_digest(encode(found.position, incarnation, found.owner).encode(), cursor.encode()):
        raise BadCursor("this cursor was altered; use one as it came with a page or a notification")
    if owner is not None and found.owner not in (NOBODY, owner):
        raise BadCursor("this cursor is another account's")


def is_unsealed(cursor: str) -> bool:
    """Return whether a cursor is of the versions that knew no seal; they cannot be followed any more."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return False
    return len(raw) == 25 and raw[0] == _UNSEALED


def _seal(body: bytes, incarnation: str) -> bytes:
    return hmac.digest(b"tocsin cursor " + incarnation.encode(), body, "sha256")[:_SEAL_BYTES]


# The store's microseconds as datetimes, and event ids as texts.


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATEST_US = 253_402_300_799_999_999  # the end of the year 9999


def instant(us: int) -> datetime:
    """Return a time on the store's clock as a datetime."""
    return _EPOCH + timedelta(microseconds=min(us, LATEST_US))


def new_event_ids(count: int, now_us: int) -> list[bytes]:
    """Return new ids: UUIDs of version 7, which begin with the time, so that they are appended to their index."""
    made = np.empty((count, 16), np.uint8)
    made[:, :6] = np.frombuffer((now_us // 1000).to_bytes(6, "big"), np.uint8)
    made[:, 6:] = np.frombuffer(os.urandom(10 * count), np.uint8).reshape(count, 10)
    made[:, 6] = 0x70 | made[:, 6] & 0x0F
    made[:, 8] = 0x80 | made[:, 8] & 0x3F
    whole = made.tobytes()
    return [whole[at : at + 16] for at in range(0, 16 * count, 16)]


def id_text(id: bytes) -> str:
    """Return an id as a UUID is written."""
    text = id.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
