"""The operators that subscriptions may call: which there are, how they are called, and what they say."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from tocsin.service.documents import json_response
from tocsin.service.models.operators import OperatorsTold
from tocsin.service.principal import service_of
from tocsin.service.routes.router import guarded

router = guarded("operators")


@router.get("/v1/operators", summary="The operators that subscriptions may call", response_model=OperatorsTold)
async def read(request: Request) -> Response:
    """Return each with its signature and its help; none where the service has no operators."""
    return json_response({"items": [each.as_document() for each in service_of(request).broker.operators]})
