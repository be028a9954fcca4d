"""The schema, its extensions and its history; the operators that subscriptions may call, the programs that offers may."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from tocsin.documents import Instant, RequestDocument, ResponseDocument


class NewAttribute(RequestDocument, frozen=True):
    """An attribute, and the domain of its values."""

    name: str
    domain: str


class TypeExtension(RequestDocument, frozen=True):
    """An optional attribute for an event type that is there."""

    event_type: str
    attribute: str
    multiple: bool = False


class NewEventTypeEntry(RequestDocument, frozen=True):
    """An attribute of a new event type."""

    attribute: str
    mandatory: bool = True
    multiple: bool = False


class NewEventType(RequestDocument, frozen=True):
    """An event type with its attributes."""

    name: str
    attributes: Annotated[list[NewEventTypeEntry], Meta(max_length=1000)]


class NewValues(RequestDocument, frozen=True):
    """Values for a domain that is there: after those that it has, or below one of a hierarchy."""

    domain: str
    values: Annotated[list[str], Meta(min_length=1, max_length=10_000)]
    below: str | None = None
    less: Annotated[tuple[tuple[str, str], ...], Meta(max_length=10_000)] = ()


class NewAlias(RequestDocument, frozen=True):
    """Another name for an attribute; with a domain, for one of its values. What was apart becomes one."""

    alias: str
    means: str
    domain: str | None = None


class Deprecation(RequestDocument, frozen=True):
    """What should no longer be used: an attribute, an event type or DOMAIN.VALUE; without words, it may be again."""

    name: str
    words: Annotated[str, Meta(max_length=500)] = ""


class Extension(RequestDocument, frozen=True, omit_defaults=True):
    """One extension, by one of the four rules, or of what is there; exactly one of the fields is given."""

    add_domain: (
        Annotated[dict[str, Any], Meta(description='{"name": "money", "kind": "numeric", …}, as in a schema document')]
        | UnsetType
    ) = UNSET
    add_attribute: NewAttribute | UnsetType = UNSET
    extend_event_type: TypeExtension | UnsetType = UNSET
    add_event_type: NewEventType | UnsetType = UNSET
    add_values: NewValues | UnsetType = UNSET
    add_alias: NewAlias | UnsetType = UNSET
    deprecate: Deprecation | UnsetType = UNSET

    def __post_init__(self) -> None:
        if sum(getattr(self, name) is not UNSET for name in self.__struct_fields__) != 1:
            raise ValueError(f"an extension is one of {', '.join(self.__struct_fields__)}")


OneExtension = Annotated[Extension, Meta(extra_json_schema={"minProperties": 1, "maxProperties": 1})]


class ExtensionRequest(RequestDocument, frozen=True):
    """Extensions that come into force together, as one version, or not at all."""

    changes: Annotated[list[OneExtension], Meta(min_length=1, max_length=100)]
    words: Annotated[str, Meta(max_length=500)] = ""


class ExtensionResponse(ResponseDocument, frozen=True, omit_defaults=True):
    """The extended schema; of a dry run, whom it would affect."""

    version: int
    dry_run: bool
    schema: dict[str, Any]
    affected: dict[str, Any] | None = None
    proposal: int | None = None  # it waits for an admin's yes under this number; the schema is as it was


class ProposalView(ResponseDocument, frozen=True):
    """Extensions that somebody asks for, and what an admin said to them; `version` has them, once they were accepted."""

    number: int
    who: str
    changes: list[dict[str, Any]]
    words: str
    at: Instant
    state: Literal["waiting", "accepted", "refused"]
    decided_by: str
    decided: Instant | None
    answer: str
    version: int | None


class ProposalList(ResponseDocument, frozen=True):
    """Proposals, the newest first."""

    items: list[ProposalView]


class ProposalAnswer(RequestDocument, frozen=True):
    """What an admin says to a proposal."""

    words: Annotated[str, Meta(max_length=500)] = ""


class SchemaVersionView(ResponseDocument, frozen=True):
    """One version of the schema: what was changed, when, and from which seq on it holds."""

    version: int
    seq: int
    at: Instant
    change: str


class SchemaHistory(ResponseDocument, frozen=True):
    """All versions, oldest first."""

    items: list[SchemaVersionView]


class OperatorView(ResponseDocument, frozen=True):
    """An operator that subscriptions may call."""

    name: str
    signature: str
    parameters: list[dict[str, str]]
    reads: list[str]
    cost_seconds: float
    timeout_seconds: float | None
    pure: bool
    runs: Literal["auto", "here", "thread", "process"]
    remembers: bool
    batches: bool
    help: str


class OperatorList(ResponseDocument, frozen=True):
    """The operators of a service."""

    items: list[OperatorView]


class ProgramView(ResponseDocument, frozen=True):
    """A program that offers may call: what everybody may know of it."""

    name: str
    version: int
    parameters: dict[str, str]
    returns: str
    expression: str | None
    pure: bool
    time_limit_seconds: float


class ProgramList(ResponseDocument, frozen=True):
    """The programs of a service."""

    items: list[ProgramView]
