"""The packaged examples load, and the auction has what the demo needs."""

from __future__ import annotations

import pytest

from tocsin.errors import FileError
from tocsin.schema import EnumeratedDomain, HierarchicalDomain
from tocsin.schema.examples import example_names, example_path, load_example
from tocsin.schema.files import FORMATS, Format, dumps, loads

AUCTION_ITEM = {
    "event_type": "item",
    "item": "i1",
    "title": "Oak dining table, restored",
    "category": "dining table",
    "price": "199.90",
    "closes": "2026-11-20T18:00:00+01:00",
    "seller": {"name": "Möbelhof", "rating": 4.7},
    "condition": "very good",
    "colour": ["brown"],
    "tags": ["vintage", "restored"],
    "location": {"lat": 48.2, "lon": 16.37},
    "size": "freight",
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ["auction", "dynamic", "thesis"])
def test_every_example_loads_and_reads_back_in_every_format(name: str, format: Format) -> None:
    assert name in example_names()
    schema = load_example(name)
    assert loads(dumps(schema, format), format) == schema


def test_an_unknown_example_names_the_nearest() -> None:
    with pytest.raises(FileError, match="did you mean auction"):
        example_path("auktion")


def test_the_auction_admits_an_item() -> None:
    event = load_example("auction").admit(AUCTION_ITEM)
    assert event.values["seller.name"] == ("Möbelhof",)
    assert event.values["tags"] == ("vintage", "restored")


def test_the_auction_has_all_kinds_of_domains_and_orders() -> None:
    schema = load_example("auction")
    assert {domain.kind for domain in schema.domains.values()} == {
        *("numeric", "text", "enumerated", "hierarchical", "boolean", "time", "point")
    }
    assert {domain.order for domain in schema.domains.values() if isinstance(domain, EnumeratedDomain)} == {
        *("none", "total", "partial")
    }
    category = schema.domains["category"]
    assert isinstance(category, HierarchicalDomain)
    assert len(category.values) >= 40
    assert category.ancestors("dining table") == ("home and garden", "furniture", "dining room")
