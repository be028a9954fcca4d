"""Documents of a site on their way into the log: translated, or dead letters that say why."""

from __future__ import annotations

from pathlib import Path

from tests.broker.market import SCHEMA
from tocsin.language.mapping import load_mapping
from tocsin.pipeline.ingest import IncomingEvent, compile_mapping, ingest
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
