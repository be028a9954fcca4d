"""Documents: what goes over the wire, each described once.

The broker returns them, the service sends them and derives OpenAPI from them, the client reads them. Only msgspec is
needed to have them.

A request forbids what it does not know, so that `owner` or `is_admin` in a body is refused rather than ignored. Of a
response fields that later versions add are passed over.

events.py    receipts, notifications, webhooks         subscriptions.py   subscriptions, drafts, held offers
accounts.py  accounts, sessions, tokens, the audit     schema.py          the schema, operators, programs
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

AccountName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")]
Password = Annotated[str, Meta(min_length=10, max_length=200)]
Label = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
Cursor = Annotated[str, Meta(min_length=1, max_length=100)]
Consumer = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
StoredInt = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # what the store holds as a number
Instant = Annotated[datetime, Meta(tz=True)]
LeaseSeconds = Annotated[float, Meta(gt=0, le=1e10)]


class RequestDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request's body."""


class ResponseDocument(msgspec.Struct, frozen=True):
    """A response's body; more fields may come with later versions."""


class ProblemDocument(ResponseDocument, frozen=True):
    """RFC 9457: why a request was refused."""

    type: str
    title: str
    status: int
    detail: str | None = None
    instance: str | None = None
