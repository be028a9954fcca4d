"""The store's microseconds as datetimes, and event ids as texts."""

from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime, timedelta

import numpy as np

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


def id_bytes(text: str) -> bytes | None:
    """Return the id that a text stands for, None where it is none."""
    try:
        return uuid.UUID(text).bytes
    except ValueError:
        return None
