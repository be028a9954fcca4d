"""The routes of the API, by resource: each passes the guard of routing.py, and has a row in its table."""

from starlette.routing import BaseRoute

from tocsin.service.routes import accounts, events, operations, schema, sites, subscriptions, webhooks

# Those that are asked most come first: routes are tried in order.
API_ROUTES: list[BaseRoute] = [
    *events.routes.routes,
    *events.notification_routes.routes,
    *subscriptions.routes.routes,
    *operations.routes.routes,
    *schema.routes.routes,
    *subscriptions.offer_routes.routes,
    *subscriptions.draft_routes.routes,
    *webhooks.routes.routes,
    *sites.routes.routes,
    *events.dead_letter_routes.routes,
    *accounts.routes.routes,
    *operations.xml_routes.routes,
]
