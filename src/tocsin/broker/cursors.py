"""Cursors: opaque texts that say how far a reader has come, in one incarnation of the store."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from typing import NamedTuple

from tocsin.errors import BadCursor

_LAYOUT = struct.Struct(">B4sQQ")
_VERSION = 1
LAST = 2**63 - 1  # after every subscription


class Position(NamedTuple):
    """After the match of event `seq` with `subscription`; positions order as notifications are delivered."""

    seq: int
    subscription: int


def encode(position: Position, incarnation: str) -> str:
    """Return the cursor of a position."""
    body = _LAYOUT.pack(_VERSION, bytes.fromhex(incarnation[:8]), *position)
    return base64.urlsafe_b64encode(body + zlib.crc32(body).to_bytes(4, "big")).decode().rstrip("=")


def decode(cursor: str) -> tuple[Position, str]:
    """Return the position, and the beginning of the incarnation's name; raises BadCursor."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        body, check = raw[:-4], raw[-4:]
        version, incarnation, seq, subscription = _LAYOUT.unpack(body)
    except (binascii.Error, ValueError, struct.error):
        raise BadCursor("this is no cursor; use one as it came with a page or a notification") from None
    altered = zlib.crc32(body).to_bytes(4, "big") != check or max(seq, subscription) > LAST
    if altered or version != _VERSION or encode(Position(seq, subscription), incarnation.hex()) != cursor:
        raise BadCursor("this cursor was altered; use one as it came with a page or a notification")
    return Position(seq, subscription), incarnation.hex()
