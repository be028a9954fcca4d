"""How routers are made: every route is guarded."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from tocsin.service.principal import guard


def guarded(tag: str) -> APIRouter:
    """Return a router whose routes all pass the guard first."""
    return APIRouter(tags=[tag], dependencies=[Depends(guard)])
