"""Dead letters: what could not be processed, and why. A member sees their own, an admin those of all."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Path, Query, Request
from starlette.responses import Response

from tocsin.service.documents import dead_letter_document, json_response, receipt_document
from tocsin.service.models.events import DeadLettersTold, ReceiptTold
from tocsin.service.principal import Someone, service_of
from tocsin.service.problems import Forbidden
from tocsin.service.routes.router import guarded
from tocsin.service.routes.subscriptions import read_cursor

router = guarded("dead letters")


@router.get("/v1/dead-letters", summary="What could not be processed", response_model=DeadLettersTold)
async def read(
    request: Request,
    principal: Someone,
    cursor: Annotated[str | None, Query(max_length=40)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    everybody: bool = False,
) -> Response:
    """Return a page of bad events that you published and deliveries that were given up, oldest first."""
    if everybody and principal.role != "admin":
        raise Forbidden("only an admin sees the dead letters of all")
    publisher = None if everybody else principal.name
    found = await asyncio.to_thread(
        service_of(request).broker.dead_letters, publisher=publisher, after=read_cursor(cursor), limit=limit
    )
    following = f"s{found[-1].seq}" if len(found) == limit else None
    return json_response({"items": [dead_letter_document(one) for one in found], "cursor": following})


@router.post(
    "/v1/dead-letters/{seq}/replay",
    summary="Publish a bad event once more",
    status_code=201,
    response_model=ReceiptTold,
)
async def replay(request: Request, seq: Annotated[int, Path(ge=0, lt=2**63)], principal: Someone) -> Response:
    """Publish an event that you had published, as the schema is now; asking twice publishes it once."""
    receipt = await asyncio.to_thread(service_of(request).broker.replay_dead_letter, seq, publisher=principal.name)
    return json_response(receipt_document(receipt), 201)
