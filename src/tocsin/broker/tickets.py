"""Tickets: the secret that authorises renewing and unsubscribing (Liu et al., section 5.1).

Theirs was an MD5 of the subscription and a random number; ours is 256 random bits, and the store has its SHA-256 only.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets


def new_ticket() -> tuple[str, bytes]:
    """Return a ticket and what the store keeps of it."""
    ticket = secrets.token_urlsafe(32)
    return ticket, ticket_hash(ticket)


def ticket_hash(ticket: str) -> bytes:
    """Return what the store keeps of a ticket. A plain hash does: there is nothing to guess in 256 random bits."""
    return hashlib.sha256(ticket.encode("utf-8", "surrogatepass")).digest()


def is_ticket(ticket: str, kept: bytes) -> bool:
    """Return whether the ticket is the one; takes the same time wherever it differs."""
    return hmac.compare_digest(ticket_hash(ticket), kept)
