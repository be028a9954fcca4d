"""Documents about held offers, and the programs that offers call."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import StringConstraints

from tocsin.service.models.base import Asked, Told


class ProgramTold(Told):
    name: str
    version: int
    parameters: dict[str, str]
    returns: str
    expression: str | None
    pure: bool
    time_limit_seconds: float


class ProgramsTold(Told):
    items: list[ProgramTold]


class OfferQuery(Asked):
    text: Annotated[str, StringConstraints(min_length=1, max_length=65536)]


class OfferFoundTold(Told):
    seq: int
    event: dict[str, Any]
    computed: list[str]
    ends: datetime


class OffersFoundTold(Told):
    items: list[OfferFoundTold]


class OfferTold(Told):
    seq: int
    offer: dict[str, Any]
    ends: datetime


class OffersTold(Told):
    items: list[OfferTold]
