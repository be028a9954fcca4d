"""How the two sites' events become events of one schema, for people to read: what each adds, the mapping, an example."""

from __future__ import annotations

import json

from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from tocsin_examples.bazaar import SITES, Bazaar
from tocsin_examples.integration import Raw, Site, extended, missing


def show_sites(seed: int, console: Console) -> None:
    """Print what each site adds to the schema, how its attributes are translated, and one of its events both ways."""
    bazaar = Bazaar(seed)
    schema = bazaar.first_schema
    firsts: dict[str, Raw] = {}
    for site, own in bazaar.own_events(50):
        if site.mappings[own["event_type"]].event_type == "item":
            firsts.setdefault(site.name, own)
    for site in SITES:
        added = [_change(change) for change in missing(schema, site.extensions)]
        schema = extended(schema, site.extensions)
        console.rule(site.name)
        console.print("It adds to the schema: " + ("; ".join(added) or "nothing") + "\n", highlight=False, markup=False)
        console.print(_mapping(site))
        own = firsts[site.name]
        console.print(
            Columns([_panel("what the site says", own), _panel("what is published", site.translate(own))], equal=True)
        )


def _change(change: Raw) -> str:
    ((rule, body),) = change.items()
    if rule == "extend_event_type":
        return f"{body['event_type']} may have {body['attribute']}"
    return f"{rule.removeprefix('add_').replace('_', ' ')} {body['name']}"


def _mapping(site: Site) -> Table:
    table = Table("the site's", "integrated", "how")
    for row in site.table():
        table.add_row(*row)
    return table


def _panel(title: str, event: Raw) -> Panel:
    return Panel(json.dumps(event, indent=1, ensure_ascii=False), title=title, title_align="left")
