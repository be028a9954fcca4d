"""The samples of appendices B and C work as they are printed, on a real broker."""

from __future__ import annotations

from pathlib import Path

from lxml import etree

from tests.xml.thesis import (
    ADMIN,
    SBILE,
    THESIS,
    ask,
    before_the_samples,
    errors_of,
    sample,
    thesis_broker,
    user_log,
)
from tocsin.schema import NumericDomain, TypeAttribute
from tocsin.xml.replies import Principal


def test_add_domain_of_appendix_c(tmp_path: Path) -> None:
    with thesis_broker(tmp_path) as broker:
        reply = ask(broker, sample("add_domain"))
        assert (reply.get("status"), reply.get("id"), reply.get("version")) == ("ok", "8", "2")
        assert broker.schema.domains["8"] == NumericDomain(name="8", operators=frozenset({"=", "!="}))
        [_, second] = broker.schema_history()
        assert reply.get("seq") == str(second.seq)
        assert ask(broker, sample("add_domain")).get("id") == "9"


def test_add_attribute_of_appendix_c(tmp_path: Path) -> None:
    with thesis_broker(tmp_path, before_the_samples()) as broker:
        reply = ask(broker, sample("add_attribute"))
        assert (reply.get("status"), reply.get("id")) == ("ok", "artist")
        assert broker.schema.attributes["artist"] == "1"
        again = ask(broker, sample("add_attribute"))
        assert errors_of(again) == [("exists", None)]


def test_extent_schema_of_appendix_c(tmp_path: Path) -> None:
    with thesis_broker(tmp_path, before_the_samples()) as broker:
        reply = ask(broker, sample("extent_schema"))
        assert (reply.get("status"), reply.get("id")) == ("ok", "antique")
        assert broker.schema.event_types["antique"].get("size") == TypeAttribute("size", mandatory=False)
        again = ask(broker, sample("extent_schema"))
        assert errors_of(again) == [("exists", "5")]


def test_add_event_of_appendix_c(tmp_path: Path) -> None:
    with thesis_broker(tmp_path) as broker:
        reply = ask(broker, sample("add_event"))
        assert (reply.get("status"), reply.get("id")) == ("ok", "paint")
        assert [entry.attribute for entry in broker.schema.event_types["paint"].attributes] == [
            *("price", "period", "artist", "size")
        ]
        assert errors_of(ask(broker, sample("add_event"))) == [("exists", "5")]


def test_the_subscriptions_of_appendix_b_are_told_of_the_events_that_it_lists_for_them(tmp_path: Path) -> None:
    log = user_log()
    subscribed: dict[int, etree._Element] = {}
    with thesis_broker(tmp_path) as broker:
        for subscription in log.iter("PUBLISH_SUB"):
            asked = etree.fromstring(etree.tostring(subscription))
            for matched in asked.iter("EVENTS"):
                matched.clear()
            principal = Principal(subscription.get("username"), frozenset({"member"}))
            reply = ask(broker, etree.tostring(asked), principal)
            assert reply.get("status") == "ok"
            assert reply.get("reference") == subscription.get("id")
            subscribed[int(reply.get("id", ""))] = subscription
        for event in log.iter("PUBLISH_EVENT"):
            assert ask(broker, etree.tostring(event), Principal(None, frozenset({"publisher"}))).get("status") == "ok"
        for owner in ("sbile", "automatic"):
            told = [(one.subscription, one.event["price"]) for one in broker.notifications(owner)]
            listed = [
                (id, float(price.text or ""))
                for id, subscription in subscribed.items()
                if subscription.get("username") == owner
                for price in subscription.iterfind("EVENTS/PUBLISH_EVENT/ATTRIBUTES/ATTR[@type='price']")
            ]
            assert told == listed
            assert told


def test_what_the_samples_add_is_in_force_at_once(tmp_path: Path) -> None:
    event = """<PUBLISH_EVENT contact="me">
      <EVENT_TYPE><VALUE type="paint"/></EVENT_TYPE>
      <ATTRIBUTES>
        <ATTR type="price">100</ATTR><ATTR type="period">18th century</ATTR><ATTR type="artist">Turner, J.M.W.</ATTR>
      </ATTRIBUTES>
    </PUBLISH_EVENT>"""
    subscription = """<PUBLISH_SUB>
      <EVENT_TYPE><VALUE type="paint" oper="contains"/></EVENT_TYPE>
      <ATTRIBUTES><ATTR type="artist" oper="contains">Constable,Turner</ATTR></ATTRIBUTES>
    </PUBLISH_SUB>"""
    with thesis_broker(tmp_path) as broker:
        assert errors_of(ask(broker, event)) == [("invalid", "2")]
        assert errors_of(ask(broker, subscription, SBILE)) == [("invalid", "2")]
        ask(broker, sample("add_event"))
        [id] = [ask(broker, subscription, SBILE).get("id")]
        ask(broker, event)
        [told] = broker.notifications("sbile")
        assert str(told.subscription) == id
        assert told.event["artist"] == "Turner, J.M.W."


def test_reading_the_schema_gives_what_appendix_a_prints(tmp_path: Path) -> None:
    from tocsin.xml.schema_form import from_xml

    with thesis_broker(tmp_path) as broker:
        for principal in (Principal(), SBILE, ADMIN):
            assert from_xml(etree.tostring(ask(broker, "<IESCHEMA/>", principal))) == THESIS
