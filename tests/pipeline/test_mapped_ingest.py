"""Documents of a site on their way into the log: translated, or dead letters that say why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.broker.market import SCHEMA
from tocsin.broker import Broker
from tocsin.errors import UnknownSite
from tocsin.language.mapping import load_mapping
from tocsin.pipeline.ingest import IncomingEvent, compile_mapping, ingest, open_site
from tocsin.pipeline.run import prepare_store
from tocsin.store import Store
from tocsin.store.events import read_dead_letters, read_events

MAPPING = """
site = "s"
event_type = "car"
rules = [{ from = "Preis", to = "price", scale = 0.01 }, { from = "Marke", to = "brand" }]
"""


def test_a_sites_documents_are_translated_or_become_dead_letters(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "t.db")
    prepare_store(store, SCHEMA, matching=True)
    incoming = [IncomingEvent("1", '{"Preis": "12500", "Marke": "mini"}'), IncomingEvent("2", '{"Preis": "viel"}')]
    done = ingest(store, "files", incoming, mapping=compile_mapping(store, load_mapping(MAPPING)))
    assert (done.events, done.dead_letters) == (1, 1)
    with store.read() as connection:
        (event,) = read_events(connection, 0, 10)
        (letter,) = read_dead_letters(connection, 0, 10, None)
    assert event.body == b'{"event_type":"car","price":125,"brand":"mini"}'
    assert "price, from Preis" in letter.reason
    store.close()


def test_a_batch_of_documents_is_stored_as_single_ones_are(tmp_path: Path) -> None:
    bodies = [
        f'{{"Preis": {price}, "Marke": "{brand}"}}'
        for price in (100, 250, "1e3", '"x"')
        for brand in ("mini", "bad", "vw")
    ]
    bodies += ["no JSON", "[]", "7"]
    found = []
    for size in (1, len(bodies)):
        store = Store.open(tmp_path / f"{size}.db")
        prepare_store(store, SCHEMA, matching=True)
        mapping = compile_mapping(store, load_mapping(MAPPING))
        for start in range(0, len(bodies), size):
            ingest(
                store, "files", [IncomingEvent(body, body) for body in bodies[start : start + size]], mapping=mapping
            )
        with store.read() as connection:
            events = [each.body for each in read_events(connection, 0, 100)]
            letters = [(each.reason, each.body) for each in read_dead_letters(connection, 0, 100, None)]
        found.append((events, letters))
        store.close()
    assert found[0] == found[1]
    assert len(found[0][0]) > 0
    assert len(found[0][1]) > 3


def test_a_source_is_stored_as_a_site_by_its_stored_mapping(tmp_path: Path) -> None:
    with Broker.open(tmp_path / "t.db", schema=SCHEMA, matching="pipeline", engine="definition") as broker:
        broker.sites.add("Hammer & Sons", owner="ada", contact="ada@example.org")
        broker.sites.set_mapping("Hammer & Sons", load_mapping(MAPPING + 'id = "nr"\n'), owner="ada")
        store = broker.store
        provenance, mapping = open_site(store, "Hammer & Sons")
        assert mapping is not None
        compiled = compile_mapping(store, mapping)
        bodies = ['{"nr": 7, "Preis": "12500", "Marke": "mini"}', '{"nr": 8, "Preis": "viel"}']
        incoming = [IncomingEvent(body, body) for body in bodies]
        done = ingest(store, "files", incoming, mapping=compiled, provenance=provenance)
        assert (done.events, done.dead_letters) == (1, 1)
        forged = [IncomingEvent("3", '{"event_type": "car", "price": 1, "source.site": "Hammer & Sons"}')]
        assert ingest(store, "other", forged).dead_letters == 1
        with store.read() as connection:
            (event,) = read_events(connection, 0, 10)
            letters = read_dead_letters(connection, 0, 10, None)
        assert json.loads(event.body) == {
            "event_type": "car", "price": 125, "brand": "mini", "source.site": "Hammer & Sons", "source.publisher": "ada",
            "source.contact": "ada@example.org", "source.id": "7", "source.key": "Hammer & Sons/7",
        }  # fmt: skip
        assert [letter.site for letter in letters] == ["Hammer & Sons", ""]
        with pytest.raises(UnknownSite):
            open_site(store, "Nobody")
