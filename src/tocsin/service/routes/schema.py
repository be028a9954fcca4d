"""The schema: read in its forms, its history, and extended by the four rules; and the operators beside it."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from tocsin.documents.schema import (
    ExtensionRequest,
    ExtensionResponse,
    OperatorList,
    OperatorView,
    SchemaHistory,
    SchemaVersionView,
)
from tocsin.errors import UnknownName
from tocsin.schema.document import to_document
from tocsin.schema.files import dumps
from tocsin.schema.json_schema import json_schema
from tocsin.service import schema_changes
from tocsin.service.principal import Principal, service_of
from tocsin.service.problems import NotFound
from tocsin.service.routing import JSON, Routes, etag, expected, json_response
from tocsin.store.store import instant

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
    """Return the DTD as the schema stands; by the kind's name (ADD_EVENT) or its file's (add_event.dtd)."""
    from tocsin.xml.dtd import DTD_FILES, dtd

    kinds = {file: name for name, file in DTD_FILES.items()} | {name: name for name in DTD_FILES}
    if kind not in kinds:
        raise NotFound(f"there is no such kind of request; there are {', '.join(DTD_FILES)}")
    found = await asyncio.to_thread(lambda: service_of(request).broker.schema)
    return Response(dtd(found, kinds[kind]), media_type=_DTD)


@routes.on(
    "POST", "/v1/schema/extensions", "Extend the schema by the four rules", answer=ExtensionResponse,
    responses={409: "That name is taken", 412: "The schema has changed since"},
)  # fmt: skip
async def extend(
    request: Request,
    body: ExtensionRequest,
    principal: Principal,
    dry_run: bool = False,
    if_match: Annotated[str, Meta(max_length=50)] | None = None,
) -> Response:
    """Put all changes in force as one version, or none; a dry run says which subscriptions would be affected."""
    wanted = expected(if_match)
    service = service_of(request)
    answer = await asyncio.to_thread(
        schema_changes.extend, service.broker, body.changes, body.words, wanted, dry_run=dry_run, by=principal.name
    )
    if not dry_run:
        await service.identities.note(principal, "schema.extended", f"version {answer.version}")
    return json_response(answer, headers={"etag": etag(answer.version)})


@routes.on("GET", "/v1/operators", "The operators that subscriptions may call", answer=OperatorList)
async def operators(request: Request) -> object:
    """Return each with its signature and its help; none where the service has no operators."""
    documents: list[dict[str, Any]] = [each.as_document() for each in service_of(request).broker.operators]
    return OperatorList([OperatorView(**one) for one in documents])
