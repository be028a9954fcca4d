"""Sites: publishing as one, where events come from, and that nobody can forge it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.market import SCHEMA
from tocsin.broker import Broker
from tocsin.errors import (
    BadDefinition,
    BatchRejected,
    EventRejected,
    NotYourSite,
    QuotaExceeded,
    SchemaError,
    SiteExists,
    UnknownSite,
)
from tocsin.language.mapping import load_mapping
from tocsin.schema import EventType, NumericDomain, Schema, TextDomain, TypeAttribute
from tocsin.schema.sources import SOURCE_ATTRIBUTES, with_sources

CAR = {"event_type": "car", "brand": "mini", "price": 900}
MAPPING = """
site = "x"
event_type = "car"
id = "nr"
link = "url"
rules = [{ from = "Preis", to = "price", scale = 0.01 }, { from = "Marke", to = "brand" }]
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker.open(tmp_path / "t.db", schema=SCHEMA, engine="definition") as broker:
        yield broker


@pytest.fixture
def hammer(broker: Broker) -> str:
    return broker.sites.add("Hammer & Sons", owner="ada", contact="ada@example.org").name


def events_of(broker: Broker, owner: str) -> list[dict[str, Any]]:
    return [dict(one.event) for one in broker.notifications(owner).items]


def test_an_event_of_a_site_says_where_it_comes_from_and_can_be_asked_about_so(broker: Broker, hammer: str) -> None:
    broker.subscribe("car where source.site = 'Hammer & Sons'", owner="bob")
    broker.subscribe("car where source.site = 'Other'", owner="eve")
    broker.publish(CAR, publisher="ada", site=hammer)
    broker.publish(CAR, publisher="ada")
    (told,) = events_of(broker, "bob")
    assert told == CAR | {
        "source.site": "Hammer & Sons", "source.publisher": "ada", "source.contact": "ada@example.org",
    }  # fmt: skip
    assert events_of(broker, "eve") == []


def test_only_its_owner_publishes_as_a_site(broker: Broker, hammer: str) -> None:
    for publisher in ("eve", "", "Ada"):
        with pytest.raises(NotYourSite):
            broker.publish(CAR, publisher=publisher, site=hammer)
    for name in ("hammer & sons", "Hammer  & Sons", "Nobody"):
        with pytest.raises(UnknownSite):
            broker.publish(CAR, publisher="ada", site=name)


@pytest.mark.parametrize("forged", [
    {"source.site": "Hammer & Sons"}, {"source": {"site": "Hammer & Sons"}}, {"source.key": "Hammer & Sons/17"},
    {"source.publisher": "ada"}, {"source": {"contact": "eve@example.org"}}, {"source.id": "17"}, {"source.link": "https://x"},
])  # fmt: skip
def test_an_event_cannot_say_itself_where_it_comes_from(broker: Broker, hammer: str, forged: dict[str, Any]) -> None:
    with pytest.raises(EventRejected, match="is said by the service, not by the event"):
        broker.publish(CAR | forged, publisher="eve")
    with pytest.raises(BatchRejected):
        broker.publish([CAR, CAR | forged], publisher="eve")
    (receipt,) = broker.publish([CAR | forged], publisher="eve", atomic=False)
    assert not receipt.accepted
    assert broker.dry_run([CAR | forged])[0].accepted is False


@pytest.mark.parametrize("forged", [
    {"source.site": "Other"}, {"source": {"site": "Other"}}, {"source": {"publisher": "eve"}}, {"source.key": "Other/17"},
    {"source": {"key": "Other/17"}},
])  # fmt: skip
def test_nor_can_one_that_is_published_as_another_site(broker: Broker, hammer: str, forged: dict[str, Any]) -> None:
    broker.sites.add("Other", owner="eve")
    broker.subscribe("car", owner="bob")
    try:
        broker.publish(CAR | forged, publisher="ada", site=hammer)
    except EventRejected:
        return
    (told,) = events_of(broker, "bob")  # what the service says has taken its place
    assert told["source.site"] == "Hammer & Sons"
    assert "Other" not in str(told)


def test_an_offer_cannot_compute_where_it_comes_from(tmp_path: Path) -> None:
    from tests.broker.test_offers import SCHEMA as INSURANCE

    with Broker.open(tmp_path / "o.db", schema=INSURANCE, engine="definition") as broker:
        broker.sites.add("Sure", owner="ada")
        (kind,) = {union.event for union in INSURANCE.unions.values()}
        offer = {"event": {"event_type": kind}, "rules": [], "dynamic": {"source.site": "'Sure'"}}
        (receipt,) = broker.publish([offer], publisher="eve", atomic=False)
        assert not receipt.accepted


def test_no_alias_leads_to_where_events_come_from(broker: Broker, hammer: str) -> None:
    for alias, means in (("seller", "source.site"), ("source.site", "brand")):
        with pytest.raises(SchemaError):
            broker.extend_schema(lambda schema, a=alias, m=means: schema.add_alias(a, m))  # type: ignore[misc]


def test_ids_are_unique_over_sites(broker: Broker, hammer: str) -> None:
    broker.sites.add("Other", owner="ada")
    broker.subscribe("car", owner="bob")
    for site in (hammer, "Other"):
        event = CAR | {"source": {"id": 17, "link": "https://example.org/17"}}
        broker.publish(event, publisher="ada", site=site, idempotency_key="17")
    told = events_of(broker, "bob")
    assert [one["source.key"] for one in told] == ["Hammer & Sons/17", "Other/17"]
    assert {one["source.id"] for one in told} == {"17"}
    assert {one["source.link"] for one in told} == {"https://example.org/17"}
    with pytest.raises(EventRejected, match="an address such as"):
        broker.publish(CAR | {"source.link": "javascript:alert(1)"}, publisher="ada", site=hammer)


def test_names_that_look_alike_are_one_and_stay_taken(broker: Broker, hammer: str) -> None:
    for name in ("hammer & sons", "Hammer & Ｓons", "HAMMER  &  SONS"):
        with pytest.raises(SiteExists):
            broker.sites.add(name, owner="eve")
    for name in ("", "a/b", "a\n", " a", "x" * 101):
        with pytest.raises(BadDefinition):
            broker.sites.add(name, owner="eve")
    with pytest.raises(UnknownSite):
        broker.sites.end(hammer, owner="eve")
    broker.sites.end(hammer, owner="ada")
    with pytest.raises(UnknownSite):
        broker.publish(CAR, publisher="ada", site=hammer)
    with pytest.raises(SiteExists):
        broker.sites.add(hammer, owner="eve")


def test_a_site_is_changed_by_its_owner_and_what_comes_then_tells_so(broker: Broker, hammer: str) -> None:
    broker.subscribe("car", owner="bob")
    with pytest.raises(UnknownSite):
        broker.sites.change(hammer, owner="eve", contact="eve@example.org")
    with pytest.raises(BadDefinition, match="a home page is an address"):
        broker.sites.change(hammer, owner="ada", home_page="javascript:alert(1)")
    changed = broker.sites.change(hammer, owner="ada", contact="office@example.org", home_page="https://example.org/")
    assert broker.sites.get(hammer) == changed
    broker.publish(CAR, publisher="ada", site=hammer)
    assert events_of(broker, "bob")[0]["source.contact"] == "office@example.org"


def test_types_that_come_later_tell_it_too_and_old_events_stay_valid(broker: Broker) -> None:
    before = broker.publish(CAR)
    mine = broker.subscribe("car where price < 1000", owner="bob")
    broker.sites.add("Hammer & Sons", owner="ada")
    assert "the first site" in broker.schema_history()[-1].change
    broker.extend_schema(lambda schema: schema.add_event_type("boat", [TypeAttribute("price")]))
    broker.subscribe("boat where source.publisher = 'ada'", owner="bob")
    boat = broker.publish({"event_type": "boat", "price": 3}, publisher="ada", site="Hammer & Sons")
    plain = broker.publish(CAR)
    found = [(one.seq, one.subscription) for one in broker.notifications("bob").items]
    assert [seq for seq, _ in found] == [boat.seq, plain.seq]
    assert found[1][1] == mine.id
    assert before.seq not in [seq for seq, _ in found]
    assert set(SOURCE_ATTRIBUTES) <= set(broker.schema.view(["boat"]).attributes)


def test_a_schema_that_means_something_else_by_these_names_has_no_sites(tmp_path: Path) -> None:
    domains = {"number": NumericDomain(name="number"), "text": TextDomain(name="text")}
    own = Schema(domains, {"source.site": "number"}, {"log": EventType("log", (TypeAttribute("source.site"),))})
    with Broker.open(tmp_path / "t.db", schema=own, engine="definition") as broker:
        with pytest.raises(SchemaError, match="means something else"):
            broker.sites.add("Hammer & Sons", owner="ada")
        assert broker.sites.list() == []
        assert broker.publish({"event_type": "log", "source.site": 7}).accepted
    assert with_sources(with_sources(SCHEMA)) == with_sources(SCHEMA)


def test_an_account_has_so_many_sites(tmp_path: Path) -> None:
    from tocsin.broker import BrokerSettings

    with Broker.open(
        tmp_path / "t.db", schema=SCHEMA, engine="definition", settings=BrokerSettings(sites_per_owner=1)
    ) as broker:
        broker.sites.add("one", owner="ada")
        with pytest.raises(QuotaExceeded):
            broker.sites.add("two", owner="ada")
        broker.sites.end("one", owner="ada")
        broker.sites.add("two", owner="ada")
        assert [site.name for site in broker.sites.list(owner="ada")] == ["two"]


# --- mappings ---------------------------------------------------------------------------------------------------------


def test_a_sites_documents_are_translated_by_its_newest_mapping(broker: Broker, hammer: str) -> None:
    broker.subscribe("car where source.id = '7'", owner="bob")
    first = broker.sites.set_mapping(hammer, load_mapping(MAPPING), owner="ada")
    second = broker.sites.set_mapping(hammer, load_mapping(MAPPING.replace("0.01", "0.1")), owner="ada", words="tenths")
    assert (first.version, second.version, second.words) == (1, 2, "tenths")
    assert (second.mapping["site"], second.mapping["version"]) == (hammer, 2)
    document = {"nr": 7, "url": "https://example.org/7", "Preis": "9000", "Marke": "mini"}
    broker.publish(document, publisher="ada", site=hammer)
    broker.publish([document] * 5, publisher="ada", site=hammer, site_mapping=1)
    broker.publish(CAR | {"source.id": "7"}, publisher="ada", site=hammer, site_mapping="none")
    told = events_of(broker, "bob")
    assert [one["price"] for one in told] == [900, 90, 90, 90, 90, 90, 900]
    assert told[0] == CAR | {
        "source.site": hammer, "source.publisher": "ada", "source.contact": "ada@example.org", "source.id": "7",
        "source.link": "https://example.org/7", "source.key": f"{hammer}/7",
    }  # fmt: skip
    assert [one.version for one in broker.sites.mappings(hammer, owner="ada")] == [1, 2]
    assert broker.sites.mapping(hammer, 1, owner="ada") == first
    with pytest.raises(UnknownSite, match="version 9"):
        broker.publish(document, publisher="ada", site=hammer, site_mapping=9)


def test_a_mapping_that_does_not_fit_or_forges_is_not_stored(broker: Broker, hammer: str) -> None:
    for wrong in (MAPPING.replace('"price"', '"prize"'), MAPPING.replace('"brand"', '"source.site"')):
        with pytest.raises(BadDefinition):
            broker.sites.set_mapping(hammer, load_mapping(wrong), owner="ada")
    with pytest.raises(UnknownSite):
        broker.sites.set_mapping(hammer, load_mapping(MAPPING), owner="eve")
    with pytest.raises(UnknownSite):
        broker.sites.mapping(hammer, owner="ada")


def test_a_dead_letter_of_a_site_is_replayed_as_of_the_site(broker: Broker, hammer: str) -> None:
    broker.subscribe("car", owner="bob")
    broker.sites.set_mapping(hammer, load_mapping(MAPPING), owner="ada")
    (receipt,) = broker.publish(
        [{"nr": 1, "Preis": "viel", "Marke": "mini"}], publisher="ada", site=hammer, atomic=False
    )
    assert "price, from Preis" in receipt.violations[0].message
    with pytest.raises(EventRejected):
        broker.replay_dead_letter(receipt.seq)
    lenient = MAPPING.replace("scale = 0.01", "table = { viel = 900 }")
    broker.sites.set_mapping(hammer, load_mapping(lenient), owner="ada")
    broker.replay_dead_letter(receipt.seq)
    assert events_of(broker, "bob")[0]["source.key"] == f"{hammer}/1"


def test_a_mapping_goes_on_when_the_schema_grows(broker: Broker, hammer: str) -> None:
    broker.sites.set_mapping(hammer, load_mapping(MAPPING), owner="ada")
    document = {"Preis": "9000", "Marke": "mini"}
    assert broker.publish(document, publisher="ada", site=hammer).accepted
    broker.extend_schema(lambda schema: schema.add_event_type("boat", [TypeAttribute("price")]))
    assert broker.publish(document, publisher="ada", site=hammer).accepted
    assert broker.dry_run([document], publisher="ada", site=hammer)[0].accepted
