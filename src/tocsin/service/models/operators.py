"""Documents about the operators that subscriptions may call."""

from __future__ import annotations

from typing import Literal

from tocsin.service.models.base import Told


class OperatorTold(Told):
    name: str
    signature: str
    parameters: list[dict[str, str]]
    reads: list[str]
    cost_seconds: float
    timeout_seconds: float | None
    pure: bool
    runs: Literal["here", "thread", "process"]
    batches: bool
    help: str


class OperatorsTold(Told):
    items: list[OperatorTold]
