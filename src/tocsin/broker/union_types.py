"""Which stored subscriptions are of a union's event type, told by their bytes: the live index asks it of every one."""

from __future__ import annotations

import msgspec

from tocsin.language import parse
from tocsin.schema import Schema
from tocsin.symmetric.unions import meetings


def two_sided(text: str, schema: Schema) -> bool:
    """Return whether a subscription is of a union's event type, so that it may speak of its own properties."""
    types = parse(text).event_types if schema.unions else ()
    return len(types) == 1 and types[0] in meetings(schema)


class UnionTypes:
    """Tells by its bytes whether a stored subscription is one of a union's; follows the schema."""

    def __init__(self) -> None:
        self._beginnings: tuple[bytes, ...] = ()

    def follow(self, schema: Schema) -> bool:
        """Go on with a schema; return whether other subscriptions are taken now."""
        before = self._beginnings
        self._beginnings = tuple(
            msgspec.json.encode({"event_types": [name]})[:-1] + end for name in meetings(schema) for end in (b",", b"}")
        )
        return before != self._beginnings

    def takes(self, tree: bytes) -> bool:
        return bool(self._beginnings) and tree.startswith(self._beginnings)
