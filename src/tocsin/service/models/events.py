"""Documents about publishing: receipts, dry runs, dead letters."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from tocsin.service.models.base import Told


class DeadLetterTold(Told):
    seq: int
    kind: str
    reason: str
    violations: list[dict[str, Any]]
    body: str
    at: datetime


class DeadLettersTold(Told):
    items: list[DeadLetterTold]
    cursor: str | None


class ReceiptTold(Told):
    seq: int
    event_id: str | None
    accepted: bool
    violations: list[dict[str, Any]] | None = None
    met: dict[str, Any] | None = None  # of an offer: how many it reached, and how many failed


class BatchTold(Told):
    accepted: Annotated[int, Field(strict=True)]
    rejected: int
    first_seq: int | None = None
    last_seq: int | None = None
    items: list[ReceiptTold] | None = None


class TriedTold(Told):
    matches: int | None  # in all; none: the operator does not tell, since it would show what others ask for
    yours: list[int]


class DryRunTold(Told):
    dry_run: Literal[True]
    items: list[TriedTold]
