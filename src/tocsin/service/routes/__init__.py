"""The routes, a module a resource. Every router has the guard (principal.py), and every route a row in access.py."""

from fastapi import APIRouter

from tocsin.service.routes import (
    accounts,
    dead_letters,
    drafts,
    events,
    notifications,
    offers,
    operations,
    operators,
    schema,
    subscriptions,
    webhooks,
    xml,
)

# Those that are asked most come first: routes are tried in order.
ROUTERS: tuple[APIRouter, ...] = (
    events.router,
    notifications.router,
    subscriptions.router,
    operations.router,
    schema.router,
    operators.router,
    offers.router,
    drafts.router,
    webhooks.router,
    dead_letters.router,
    accounts.router,
    xml.router,
)
