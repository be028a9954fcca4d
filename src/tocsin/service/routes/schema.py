"""The schema: read in its forms, its history, and extended by the four rules."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import Header, Path, Query, Request
from starlette.responses import Response

from tocsin.broker.cursors import instant
from tocsin.errors import UnknownName
from tocsin.schema.document import to_document
from tocsin.schema.files import dumps
from tocsin.schema.json_schema import json_schema
from tocsin.service import schema_changes
from tocsin.service.documents import json_response
from tocsin.service.models.schema import Extensions, ExtensionTold, SchemaHistoryTold
from tocsin.service.principal import Someone, service_of
from tocsin.service.problems import NotFound
from tocsin.service.routes.router import etag, expected, guarded

router = guarded("schema")
Format = Literal["json", "xml", "toml"]
_MEDIA = {"xml": "application/xml", "toml": "application/toml"}
_ARROW, _DTD = "application/vnd.apache.arrow.stream", "application/xml-dtd"
_VERSION = Header(alias="If-Match", max_length=50)


def _also(*media_types: str) -> dict[int | str, dict[str, Any]]:
    """Describe an answer that comes in other forms than JSON as well."""
    return {200: {"content": {one: {} for one in media_types}}}


@router.get("/v1/schema", summary="The schema in force", responses=_also(*_MEDIA.values()))
async def read(request: Request, format: Format = "json") -> Response:
    """Return the schema as JSON, TOML, or the thesis's XML."""
    found = await asyncio.to_thread(lambda: service_of(request).broker.schema)
    headers = {"etag": etag(found.version)}
    if format == "json":
        return json_response(to_document(found), headers=headers)
    return Response(dumps(found, format), 200, headers, media_type=_MEDIA[format])


@router.get("/v1/schema/history", summary="All versions of the schema, oldest first", response_model=SchemaHistoryTold)
async def history(request: Request) -> Response:
    """Return what was changed, when, and from which seq on it holds."""
    found = await asyncio.to_thread(service_of(request).broker.schema_history)
    items = [{"version": one.version, "seq": one.seq, "at": instant(one.at_us), "change": one.change} for one in found]
    return json_response({"items": items})


@router.get(
    "/v1/schema/versions/{version}", summary="One version", responses={404: {"description": "There is no such version"}}
)
async def version(request: Request, version: int) -> Response:
    """Return the schema as it was."""
    found = await asyncio.to_thread(service_of(request).broker.schema_history)
    for one in found:
        if one.version == version:
            return json_response(to_document(one.schema), headers={"etag": etag(version)})
    raise NotFound(f"there is no version {version} of the schema")


@router.get(
    "/v1/schema/view", summary="The view over some event types, as JSON Schema or Arrow", responses=_also(_ARROW)
)
async def view(
    request: Request,
    event_type: Annotated[list[str] | None, Query(max_length=100)] = None,
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


@router.get(
    "/v1/schema/dtd/{kind}", summary="The DTD of one of the thesis's XML requests", response_class=Response,
    responses=_also(_DTD),
)  # fmt: skip
async def document_type(request: Request, kind: Annotated[str, Path(max_length=40)]) -> Response:
    """Return the DTD as the schema stands; by the kind's name (ADD_EVENT) or its file's (add_event.dtd)."""
    from tocsin.xml.dtd import DTD_FILES, dtd

    kinds = {file: name for name, file in DTD_FILES.items()} | {name: name for name in DTD_FILES}
    if kind not in kinds:
        raise NotFound(f"there is no such kind of request; there are {', '.join(DTD_FILES)}")
    found = await asyncio.to_thread(lambda: service_of(request).broker.schema)
    return Response(dtd(found, kinds[kind]), media_type=_DTD)


@router.post(
    "/v1/schema/extensions",
    summary="Extend the schema by the four rules",
    response_model=ExtensionTold,
    responses={409: {"description": "That name is taken"}, 412: {"description": "The schema has changed since"}},
)
async def extend(
    request: Request,
    body: Extensions,
    principal: Someone,
    dry_run: bool = False,
    if_match: Annotated[str | None, _VERSION] = None,
) -> Response:
    """Put all changes in force as one version, or none; a dry run says which subscriptions would be affected."""
    wanted = expected(if_match)
    broker = service_of(request).broker
    answer = await asyncio.to_thread(schema_changes.extend, broker, body.changes, body.words, wanted, dry_run=dry_run)
    if not dry_run:
        await service_of(request).identities.note(principal, "schema.extended", f"version {answer['version']}")
    return json_response(answer, headers={"etag": etag(answer["version"])})
