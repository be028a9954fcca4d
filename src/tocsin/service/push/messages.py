"""What is sent to webhooks, signed as Standard Webhooks has it.

{"type": "tocsin.notification", "timestamp": "…", "data": {notification}}
{"type": "tocsin.digest", "timestamp": "…", "data": {"subscription": 3, "count": 2, "notifications": [{…}, {…}]}}

The header webhook-id is the same on every retry: the notification's id, or for a digest a hash of its notifications'.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from standardwebhooks.webhooks import Webhook as Signer

from tocsin.broker import Notification
from tocsin.service.documents import notification_document, to_json

SECRET_PREFIX = "whsec_"  # noqa: S105 - how Standard Webhooks writes secrets
MOST_IN_DIGEST = 500


@dataclass(frozen=True, slots=True)
class Message:
    """One request to a webhook."""

    id: str
    body: bytes
    headers: dict[str, str]


def new_secret() -> str:
    """Return a secret to sign with."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def message_of(notifications: Sequence[Notification], secret: str, now: datetime, *, digest: bool) -> Message:
    """Return what is sent for notifications of one subscription."""
    if digest:
        listed = [notification_document(one) for one in notifications[:MOST_IN_DIGEST]]
        data = {"subscription": notifications[0].subscription, "count": len(notifications), "notifications": listed}
        joined = ",".join(one.id for one in notifications)
        id = f"digest_{hashlib.sha256(joined.encode()).hexdigest()[:32]}"
    else:
        data, id = notification_document(notifications[0]), notifications[0].id
    body = to_json({"type": "tocsin.digest" if digest else "tocsin.notification", "timestamp": now, "data": data})
    return sign(id, body, secret, now)


def sign(id: str, body: bytes, secret: str, now: datetime) -> Message:
    """Return the message with its headers."""
    signature = Signer(secret).sign(id, now, body.decode())
    headers = {
        "content-type": "application/json",
        "user-agent": "tocsin-webhooks",
        "webhook-id": id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": signature,
    }
    return Message(id, body, headers)
