"""The schema: read in its forms, its history, and extended by the four rules; and the operators beside it.

Extending the schema by request: extensions as documents, all of a list or none; and whom a change would affect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta
from starlette.requests import Request
from starlette.responses import Response

from tocsin.broker import Broker
from tocsin.broker.changes import Acceptance
from tocsin.documents import StoredInt
from tocsin.documents.schema import (
    Extension,
    ExtensionRequest,
    ExtensionResponse,
    OperatorList,
    OperatorView,
    ProposalAnswer,
    ProposalList,
    ProposalView,
    SchemaHistory,
    SchemaVersionView,
)
from tocsin.errors import BadDefinition, UnknownName
from tocsin.schema import Schema, TypeAttribute
from tocsin.schema.document import domain_from, to_document
from tocsin.schema.files import dumps
from tocsin.schema.growth import moved
from tocsin.schema.json_schema import json_schema
from tocsin.service.problems import Conflict, NotFound, Stale
from tocsin.service.routing import JSON, Principal, Routes, etag, expected, json_response, service_of
from tocsin.store import accounts, schema_history
from tocsin.store.store import instant
from tocsin.store.subscriptions import leases_since

if TYPE_CHECKING:
    from tocsin.service.service import Service

_SHOWN = 100
_MOST_WAITING = 100  # proposals of one account


def apply_changes(schema: Schema, changes: Sequence[Extension]) -> Schema:
    """Return the schema with all changes; raises a SchemaError."""
    for change in changes:
        if change.add_domain is not UNSET:
            spec = dict(change.add_domain)
            name = spec.pop("name", None)
            if not isinstance(name, str):
                raise BadDefinition('add_domain: give it a name: {"name": "money", "kind": "numeric"}')
            schema = schema.add_domain(domain_from(name, spec, "add_domain"))
        elif change.add_attribute is not UNSET:
            schema = schema.add_attribute(change.add_attribute.name, change.add_attribute.domain)
        elif change.extend_event_type is not UNSET:
            extended = change.extend_event_type
            schema = schema.extend_event_type(extended.event_type, extended.attribute, multiple=extended.multiple)
        elif change.add_event_type is not UNSET:
            new = change.add_event_type
            entries = [TypeAttribute(one.attribute, one.mandatory, one.multiple) for one in new.attributes]
            schema = schema.add_event_type(new.name, entries)
        elif change.add_values is not UNSET:
            more = change.add_values
            schema = schema.add_values(more.domain, more.values, below=more.below, less=more.less)
        elif change.add_alias is not UNSET:
            alias = change.add_alias
            schema = (
                schema.add_alias(alias.alias, alias.means)
                if alias.domain is None
                else schema.add_value_alias(alias.domain, alias.alias, alias.means)
            )
        elif change.deprecate is not UNSET:
            schema = schema.deprecate(change.deprecate.name, change.deprecate.words)
    return schema


def extend_schema(
    broker: Broker, changes: Sequence[Extension], words: str, expected: int | None, *, dry_run: bool, by: str = ""
) -> ExtensionResponse:
    """Put the extended schema in force and return it; a dry run returns it with whom it would affect."""

    def change(schema: Schema) -> Schema:
        if expected is not None and schema.version != expected:
            raise Stale(f"the schema is at version {schema.version}, and the change was made for {expected}")
        return apply_changes(schema, changes)

    if not dry_run:
        extended = broker.extend_schema(change, words=words, by=by)
        return ExtensionResponse(extended.version, dry_run=False, schema=dict(to_document(extended)))
    before = broker.schema
    extended = replace(change(before), version=before.version + 1)
    found = affected(broker, before, extended)
    return ExtensionResponse(extended.version, dry_run=True, schema=dict(to_document(extended)), affected=found)


_BY_PUBLISHERS = ("add_domain", "add_attribute", "extend_event_type", "add_event_type", "add_values")


def waits_for_yes(service: Service, principal: Principal, changes: Sequence[Extension]) -> bool:
    """Return whether somebody's extensions wait for an admin's yes.

    Those of publishers do where the operator wants it, and always where they change what others' names mean: aliases, and
    what should no longer be used.
    """
    if principal.role == "admin":
        return False
    given = [name for change in changes for name in change.__struct_fields__ if getattr(change, name) is not UNSET]
    return service.settings.schema_additions != "at-once" or any(name not in _BY_PUBLISHERS for name in given)


def propose(
    service: Service, principal: Principal, changes: Sequence[Extension], words: str, expected: int | None
) -> ExtensionResponse:
    """Store extensions that wait for an admin's yes; raises a SchemaError where they could not be put in force now."""
    would = extend_schema(service.broker, changes, words, expected, dry_run=True)
    text = msgspec.json.encode(list(changes)).decode()
    with service.broker.store.write() as turn:
        mine = schema_history.list_proposals(turn.connection, principal.number, _MOST_WAITING + 1)
        if sum(one.state == "waiting" for one in mine) >= _MOST_WAITING:
            raise Conflict(f"{_MOST_WAITING} proposals wait already; ask an admin to answer them first")
        made = schema_history.add_proposal(turn, principal.number, text, words)
        accounts.note_action(turn, principal.actor, "schema.proposed", f"proposal {made.number}", principal.number)
    version = service.broker.schema.version
    return ExtensionResponse(version, False, would.schema, would.affected, made.number)


def accept_proposal(service: Service, principal: Principal, number: int, words: str) -> ExtensionResponse:
    """Put what a proposal asks for in force; raises UnknownProposal, SchemaError."""
    with service.broker.store.read() as connection:
        found = schema_history.waiting_proposal(connection, number)
    changes = msgspec.json.decode(found.changes, type=list[Extension])
    why = "; ".join(part for part in (found.words, f"accepted by {principal.name}", words) if part)
    extended = service.broker.extend_schema(
        lambda schema: apply_changes(schema, changes), words=why, by=found.who,
        accepts=Acceptance(number, principal.name, words),
    )  # fmt: skip
    return ExtensionResponse(extended.version, dry_run=False, schema=dict(to_document(extended)))


def refuse_proposal(service: Service, principal: Principal, number: int, words: str) -> None:
    """Say no to a proposal; raises UnknownProposal."""
    with service.broker.store.write() as turn:
        schema_history.decide_proposal(turn, number, "refused", principal.name, words)
        accounts.note_action(turn, principal.actor, "schema.refused", f"proposal {number}")


def find_proposals(service: Service, principal: Principal, limit: int = 100) -> list[ProposalView]:
    """Return proposals, the newest first: one's own, or all for an admin."""
    account = None if principal.role == "admin" else principal.number
    with service.broker.store.read() as connection:
        found = schema_history.list_proposals(connection, account, limit)
    return [
        ProposalView(
            one.number, one.who, msgspec.json.decode(one.changes), one.words, instant(one.at_us), one.state,  # type: ignore[arg-type]
            one.decided_by, None if one.decided_us is None else instant(one.decided_us), one.answer, one.version,
        )
        for one in found
    ]  # fmt: skip


def affected(broker: Broker, before: Schema, after: Schema) -> dict[str, Any]:
    """Return which subscriptions' views gain attributes, or ask about what gets values or becomes one; all stay valid.

    Those that name no event type see all, so every new event type and every extension is in their view.
    """
    gained = {
        name for name, event_type in after.event_types.items()
        if name not in before.event_types or event_type != before.event_types[name]
    }  # fmt: skip
    changed = moved(before, after)
    count = 0
    ids: list[int] = []
    if gained or changed:
        with broker.store.read() as connection:
            for rows in leases_since(connection, 0, 0, trees=True):
                for row in rows:
                    if row.deleted_seq is not None:
                        continue
                    named = msgspec.json.decode(row.tree or b"{}").get("event_types")
                    if (gained and (not named or gained & set(named))) or changed.concerns(row.tree or b""):
                        count += 1
                        if len(ids) < _SHOWN:
                            ids.append(row.id)
    return {"event_types": sorted(gained), "subscriptions": count, "first": ids}


# --- Routes -----------------------------------------------------------------------------------------------------------


routes = Routes("schema")
Format = Literal["json", "xml", "toml"]
_MEDIA = {"xml": "application/xml", "toml": "application/toml"}
_ARROW, _DTD = "application/vnd.apache.arrow.stream", "application/xml-dtd"


@routes.on("GET", "/v1/schema", "The schema in force", media={JSON: {}} | {one: {} for one in _MEDIA.values()})
async def read(request: Request, format: Format = "json") -> Response:
    """Return the schema as JSON, TOML, or the thesis's XML."""
    found = await asyncio.to_thread(lambda: service_of(request).broker.schema)
    headers = {"etag": etag(found.version)}
    if format == "json":
        return json_response(to_document(found), headers=headers)
    return Response(dumps(found, format), 200, headers, media_type=_MEDIA[format])


@routes.on("GET", "/v1/schema/history", "All versions of the schema, oldest first", answer=SchemaHistory)
async def history(request: Request) -> object:
    """Return what was changed, when, and from which seq on it holds."""
    found = await asyncio.to_thread(service_of(request).broker.schema_history)
    return SchemaHistory([SchemaVersionView(one.version, one.seq, instant(one.at_us), one.change) for one in found])


@routes.on("GET", "/v1/schema/versions/{version}", "One version", media={JSON: {}})
async def version(request: Request, version: int) -> Response:
    """Return the schema as it was."""
    found = await asyncio.to_thread(service_of(request).broker.schema_history)
    for one in found:
        if one.version == version:
            return json_response(to_document(one.schema), headers={"etag": etag(version)})
    raise NotFound(f"there is no version {version} of the schema")


@routes.on(
    "GET", "/v1/schema/view", "The view over some event types, as JSON Schema or Arrow", media={JSON: {}, _ARROW: {}}
)
async def view(
    request: Request,
    event_type: Annotated[list[str], Meta(max_length=100)] | None = None,
    format: Literal["json-schema", "arrow"] = "json-schema",
) -> Response:
    """Return what events of these types look like; of all types where none is named."""
    found = await asyncio.to_thread(lambda: service_of(request).broker.schema)
    try:
        if format == "json-schema":
            return json_response(json_schema(found, event_type or ()), headers={"etag": etag(found.version)})
        from tocsin.schema.arrow import to_arrow

        body = (await asyncio.to_thread(to_arrow, found, event_type or ())).serialize().to_pybytes()
    except UnknownName as error:
        raise NotFound(str(error)) from None
    return Response(body, media_type=_ARROW)


@routes.on("GET", "/v1/schema/dtd/{kind}", "The DTD of one of the thesis's XML requests", media={_DTD: {}})
async def document_type(request: Request, kind: Annotated[str, Meta(max_length=40)]) -> Response:
    """Return the DTD as the schema stands; by the kind's name (ADD_EVENT) or its file's (add_event.dtd, reply.dtd)."""
    from tocsin.xml.replies import dtd_file
    from tocsin.xml.requests import DTD_FILES

    found = dtd_file(kind, await asyncio.to_thread(lambda: service_of(request).broker.schema))
    if found is None:
        raise NotFound(f"there is no such kind of request; there are {', '.join(DTD_FILES)}")
    return Response(found, media_type=_DTD)


@routes.on(
    "POST", "/v1/schema/extensions", "Extend the schema by the four rules", answer=ExtensionResponse,
    responses={
        202: ("It waits for an admin's yes, as a proposal", ExtensionResponse), 409: "That name is taken",
        412: "The schema has changed since",
    },
)  # fmt: skip
async def extend(
    request: Request,
    body: ExtensionRequest,
    principal: Principal,
    dry_run: bool = False,
    if_match: Annotated[str, Meta(max_length=50)] | None = None,
) -> Response:
    """Put all changes in force as one version, or none; a dry run says which subscriptions would be affected.

    A publisher's wait for an admin's yes where the operator wants it, and always where they are aliases or deprecations.
    """
    wanted = expected(if_match)
    service = service_of(request)
    if not dry_run and waits_for_yes(service, principal, body.changes):
        proposed = await asyncio.to_thread(propose, service, principal, body.changes, body.words, wanted)
        return json_response(proposed, 202)
    answer = await asyncio.to_thread(
        extend_schema, service.broker, body.changes, body.words, wanted, dry_run=dry_run, by=principal.name
    )
    if not dry_run:
        await service.identities.note(principal, "schema.extended", f"version {answer.version}")
    return json_response(answer, headers={"etag": etag(answer.version)})


@routes.on("GET", "/v1/schema/proposals", "Extensions that wait for an admin's yes, or had it", answer=ProposalList)
async def proposals(request: Request, principal: Principal, limit: Annotated[int, Meta(ge=1, le=1000)] = 100) -> object:
    """Return the account's proposals, the newest first; an admin sees everybody's."""
    return ProposalList(await asyncio.to_thread(find_proposals, service_of(request), principal, limit))


@routes.on(
    "POST", "/v1/schema/proposals/{number}/accept", "Put what a proposal asks for in force", answer=ExtensionResponse
)
async def accept(
    request: Request, number: StoredInt, principal: Principal, body: ProposalAnswer | None = None
) -> Response:
    """Extend the schema; the history says who asked, what, why, and who said yes."""
    service = service_of(request)
    words = "" if body is None else body.words
    answer = await asyncio.to_thread(accept_proposal, service, principal, number, words)
    await service.identities.note(principal, "schema.extended", f"version {answer.version}, by proposal {number}")
    return json_response(answer, headers={"etag": etag(answer.version)})


@routes.on("POST", "/v1/schema/proposals/{number}/refuse", "Say no to a proposal", status=204)
async def refuse(request: Request, number: StoredInt, principal: Principal, body: ProposalAnswer | None = None) -> None:
    """Let it be; whoever proposed it sees why."""
    words = "" if body is None else body.words
    await asyncio.to_thread(refuse_proposal, service_of(request), principal, number, words)


@routes.on("GET", "/v1/operators", "The operators that subscriptions may call", answer=OperatorList)
async def operators(request: Request) -> object:
    """Return each with its signature and its help; none where the service has no operators."""
    documents: list[dict[str, Any]] = [each.as_document() for each in service_of(request).broker.operators]
    return OperatorList([OperatorView(**one) for one in documents])
