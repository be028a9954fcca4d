"""What all documents share: kinds of values, requests that forbid what they do not know, answers, and problems."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

AccountName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")]
Password = Annotated[str, StringConstraints(min_length=10, max_length=200)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
Cursor = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Consumer = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
Whole = Annotated[int, Field(ge=0, lt=2**63)]  # what the store holds as a number
LeaseSeconds = Annotated[float, Field(gt=0, le=1e10, allow_inf_nan=False)]


class Asked(BaseModel):
    """A request's body."""

    model_config = ConfigDict(extra="forbid")


class Told(BaseModel):
    """An answer's body; more fields may come with later versions."""


class Problem(Told):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str | None = None
    instance: str | None = None
