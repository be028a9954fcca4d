"""Publishing in two steps: of which types the event is, then a form of their view.

A form can be filled with an example, also one that a given subscription would match: a proposal that people can change,
never stored by itself.
"""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from tocsin.errors import EventRejected, Violation
from tocsin.schema import Schema, View
from tocsin.service.routes import events, subscriptions
from tocsin.service.routes.events import Incoming
from tocsin.service.web.event_form import fields_of, given_values, read_event
from tocsin.service.web.examples import example_values, fitting
from tocsin.service.web.visit import Pages, Visit

pages = Pages()


@pages.get("/publish", "publisher")
async def show(visit: Visit) -> Response:
    """Ask for the types; with types, show the form of their view."""
    schema = await asyncio.to_thread(lambda: visit.service.broker.schema)
    types = [name for name in visit.request.query_params.getlist("type") if name in schema.event_types]
    fits = visit.query("fits")
    if fits.isdigit() and len(fits) < 19:
        return await _fitting(visit, schema, int(fits))
    if not types:
        return visit.page("publish_types.html", schema=schema, action="/publish", title="Publish an event", example="")
    view = schema.view(types)
    given = example_values(view) if visit.query("example") else {}
    return visit.page("publish.html", types=types, fields=fields_of(view, given), others=[], told=None, fits=None)


async def _fitting(visit: Visit, schema: Schema, id: int) -> Response:
    """Show the form filled in so that a subscription of the visitor would match, as far as its text tells."""
    found = await subscriptions.find_subscription(visit.service, visit.principal, id)
    types, given = fitting(schema, found.text)
    view = schema.view(types)
    return visit.page("publish.html", types=types, fields=fields_of(view, given), others=[], told=None, fits=id)


@pages.post("/publish", "publisher")
async def publish(visit: Visit) -> Response:
    """Publish the event; or say at each field what is wrong. A dry run tells how many it would match."""
    schema = await asyncio.to_thread(lambda: visit.service.broker.schema)
    types = [name for name in visit.texts("type") if name in schema.event_types]
    if not types:
        return visit.go("/publish")
    view = schema.view(types)
    given = given_values(
        [(name, text) for name, text in visit.form.multi_items() if isinstance(text, str)],
        {name: entry.multiple for name, entry in view.attributes.items()},
    )
    incoming = Incoming([read_event(view, given)], single=True, key=None)
    try:
        if visit.text("dry_run"):
            told = (await events.try_out(visit.service, visit.principal, incoming)).items[0]
            return visit.page(
                "publish.html", types=types, fields=fields_of(view, given), others=[], told=told, fits=None
            )
        await events.publish_incoming(visit.service, visit.principal, incoming)
    except EventRejected as error:
        return _again(visit, types, view, given, error.violations)
    return visit.go("/publish", done="published", type=types[0])


def _again(
    visit: Visit, types: list[str], view: View, given: dict[str, list[str]], violations: tuple[Violation, ...]
) -> Response:
    others = [one.message for one in violations if one.attribute not in view.attributes]
    return visit.page(
        "publish.html", 422, types=types, fields=fields_of(view, given, violations), others=others, told=None, fits=None
    )
