"""Sites: what accounts publish as, and the mappings that translate their documents."""

from __future__ import annotations

import asyncio
from typing import Annotated

from msgspec import Meta
from starlette.requests import Request

from tocsin.broker.sites import read_mapping
from tocsin.documents.sites import (
    MappingList,
    MappingView,
    NewMapping,
    SiteChange,
    SiteName,
    SitePage,
    SiteRequest,
    SiteView,
)
from tocsin.service.routes.events import Limit
from tocsin.service.routing import Principal, Routes, service_of

routes = Routes("sites")
Version = Annotated[int, Meta(ge=1, le=2**31 - 1)]


@routes.on(
    "POST", "/v1/sites", "Make a site", status=201, answer=SiteView, responses={409: "There is, or was, one of that name"}
)  # fmt: skip
async def create(request: Request, body: SiteRequest, principal: Principal) -> object:
    """Make a site of the account; what is published as it says so. Names that only look alike are the same."""
    service = service_of(request)
    added = await asyncio.to_thread(
        service.broker.sites.add, body.name, owner=principal.name, contact=body.contact, home_page=body.home_page
    )
    await service.identities.note(principal, "site.added", body.name)
    return added


@routes.on("GET", "/v1/sites", "Sites, by name", answer=SitePage)
async def listed(
    request: Request,
    principal: Principal,
    own: Annotated[bool, Meta(description="Only those of the account")] = False,
    cursor: Annotated[str, Meta(max_length=100)] = "",
    limit: Limit = 100,
) -> object:
    """Return sites with how to reach them, everybody's or one's own."""
    owner = principal.name if own else None
    found = await asyncio.to_thread(service_of(request).broker.sites.list, owner=owner, after=cursor, limit=limit)
    return SitePage(found, found[-1].name if len(found) == limit else None)


@routes.on("GET", "/v1/sites/{name}", "A site", answer=SiteView)
async def read(request: Request, name: SiteName) -> object:
    """Return a site of anybody's."""
    return await asyncio.to_thread(service_of(request).broker.sites.get, name)


@routes.on("PATCH", "/v1/sites/{name}", "Say how to reach a site", answer=SiteView)
async def change(request: Request, name: SiteName, body: SiteChange, principal: Principal) -> object:
    """Set a site's contact and home page; events that come from now on have them."""
    service = service_of(request)
    changed = await asyncio.to_thread(
        service.broker.sites.change, name, owner=principal.name, contact=body.contact, home_page=body.home_page
    )
    await service.identities.note(principal, "site.changed", name)
    return changed


@routes.on("DELETE", "/v1/sites/{name}", "End a site", status=204)
async def end(request: Request, name: SiteName, principal: Principal) -> None:
    """Let nobody publish as it any more; its name stays taken, since its events stay."""
    service = service_of(request)
    await asyncio.to_thread(service.broker.sites.end, name, owner=principal.name)
    await service.identities.note(principal, "site.ended", name)


@routes.on("PUT", "/v1/sites/{name}/mapping", "Store a mapping of a site as its next version", answer=MappingView)
async def store_mapping(request: Request, name: SiteName, body: NewMapping, principal: Principal) -> object:
    """Translate the site's documents by this mapping from now on; earlier versions are kept."""
    service = service_of(request)
    document = read_mapping(body.mapping)
    stored = await asyncio.to_thread(
        service.broker.sites.set_mapping, name, document, owner=principal.name, words=body.words
    )
    await service.identities.note(principal, "mapping.stored", f"{name}: version {stored.version}")
    return stored


@routes.on("GET", "/v1/sites/{name}/mapping", "A version of a site's mapping", answer=MappingView)
async def mapping(request: Request, name: SiteName, principal: Principal, version: Version | None = None) -> object:
    """Return a mapping of a site of the account's, the newest by default."""
    return await asyncio.to_thread(service_of(request).broker.sites.mapping, name, version, owner=principal.name)


@routes.on("GET", "/v1/sites/{name}/mappings", "All versions of a site's mapping, oldest first", answer=MappingList)
async def mappings(request: Request, name: SiteName, principal: Principal) -> object:
    """Return who stored which version, when and why."""
    return MappingList(await asyncio.to_thread(service_of(request).broker.sites.mappings, name, owner=principal.name))
