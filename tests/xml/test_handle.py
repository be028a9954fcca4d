"""Replies: who may ask what, what is told of a request that is wrong, and what is kept of one that is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.xml.thesis import ADMIN, SBILE, THESIS, ask, errors_of, reply_of, sample, thesis_broker, words_of
from tocsin.broker import BrokerSettings
from tocsin.schema import Schema
from tocsin.xml.handle import handle
from tocsin.xml.replies import GUEST, XmlPrincipal, dtd_file

PUBLISHER = XmlPrincipal(None, frozenset({"publisher"}))
AS_IN_THE_THESIS = XmlPrincipal(None, frozenset({"publisher", "extender"}))

EVENT = """<PUBLISH_EVENT contact="sbile@hotmail.com">
  <EVENT_TYPE><VALUE type="car"/></EVENT_TYPE>
  <ATTRIBUTES>
    <ATTR type="price">4</ATTR>
    <ATTR type="quantity">1</ATTR>
    <ATTR type="year">1</ATTR>
    <ATTR type="cc">22</ATTR>
    <ATTR type="brand">bmw</ATTR>
  </ATTRIBUTES>
</PUBLISH_EVENT>"""
SUBSCRIPTION = """<PUBLISH_SUB>
  <EVENT_TYPE><VALUE type="car" oper="contains"/></EVENT_TYPE>
  <ATTRIBUTES>
    <ATTR type="price" oper="gteq">3</ATTR>
    <ATTR type="brand" oper="eq">bmw</ATTR>
  </ATTRIBUTES>
</PUBLISH_SUB>"""


# --- who may ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("principal", "event", "subscription", "extension"),
    [
        (GUEST, 401, 401, 401),
        (PUBLISHER, 200, 401, 401),
        (AS_IN_THE_THESIS, 200, 401, 200),
        (XmlPrincipal(None, frozenset({"member"})), 200, 401, 401),
        (SBILE, 200, 200, 403),
        (XmlPrincipal("eve", frozenset({"extender"})), 403, 403, 200),
        (XmlPrincipal("eve", frozenset({"no such role"})), 403, 403, 403),
        (ADMIN, 200, 200, 200),
    ],
    ids=lambda one: f"{one.account} {sorted(one.roles)}" if isinstance(one, XmlPrincipal) else str(one),
)
def test_a_request_is_done_for_whoever_may_ask_and_for_no_other(
    tmp_path: Path, principal: XmlPrincipal, event: int, subscription: int, extension: int
) -> None:
    with thesis_broker(tmp_path) as broker:
        bodies = (EVENT.encode(), SUBSCRIPTION.encode(), sample("add_domain"))
        replies = [handle(body, broker, principal) for body in bodies]
        assert [reply.http_status for reply in replies] == [event, subscription, extension]
        assert handle(b"<IESCHEMA/>", broker, principal).http_status == 200
        for reply in replies:
            reply_of(reply)


def test_a_subscription_in_another_s_name_is_refused(tmp_path: Path) -> None:
    with thesis_broker(tmp_path) as broker:
        own = SUBSCRIPTION.replace("<PUBLISH_SUB", '<PUBLISH_SUB username="sbile"', 1)
        assert ask(broker, own, SBILE).get("status") == "ok"
        reply = handle(own.encode(), broker, ADMIN)
        assert reply.http_status == 403
        assert len(broker.subscriptions("sbile")) == 1
        assert broker.subscriptions("root") == []


def test_who_may_not_ask_learns_nothing_of_the_schema(tmp_path: Path) -> None:
    with thesis_broker(tmp_path) as broker:
        wrong = SUBSCRIPTION.replace("car", "plane")
        assert errors_of(ask(broker, wrong, GUEST)) == errors_of(ask(broker, SUBSCRIPTION, GUEST)) == [("login", None)]


# --- what is told -----------------------------------------------------------------------------------------------------


def test_all_that_the_dtd_does_not_allow_is_told_at_once_with_its_lines(tmp_path: Path) -> None:
    body = EVENT.replace('type="car"', 'type="plane"').replace('"price"', '"prise"').replace(' type="cc"', "")
    with thesis_broker(tmp_path) as broker:
        reply = ask(broker, body)
        assert [line for _, line in errors_of(reply)] == ["2", "4", "7"]
        assert "prise" in words_of(reply)


def test_all_violations_of_an_event_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    body = EVENT.replace(">4<", ">cheap<").replace("bmw", "bwm").replace('    <ATTR type="cc">22</ATTR>\n', "")
    body = body.replace("</ATTRIBUTES>", '  <ATTR type="year">2</ATTR>\n<ATTR type="size">1</ATTR></ATTRIBUTES>')
    with thesis_broker(tmp_path) as broker:
        reply = ask(broker, body)
        assert sorted(errors_of(reply)) == [
            ("bad-value", "4"),
            ("bad-value", "7"),
            ("missing-mandatory-attribute", "3"),
            ("several-values-for-a-unique-attribute", "6"),
            ("unknown-attribute", "9"),
        ]
        assert {error.get("attribute") for error in reply} == {"price", "brand", "cc", "year", "size"}
        assert broker.dead_letters() == []


def test_all_wrong_predicates_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    body = SUBSCRIPTION.replace(">3<", ">three<").replace('"eq">bmw', '"gt">bmw')
    body = body.replace("</ATTRIBUTES>", '<ATTR type="size" oper="eq">1</ATTR></ATTRIBUTES>')
    with thesis_broker(tmp_path) as broker:
        reply = ask(broker, body, SBILE)
        assert errors_of(reply) == [("predicate", "4"), ("predicate", "5"), ("predicate", "6")]
        assert "three" in (reply[0].text or "")
        assert broker.subscriptions("sbile") == []


def test_an_extension_tells_all_that_is_wrong_and_adds_nothing(tmp_path: Path) -> None:
    body = """<EXTENT_SCHEMA type="antique">
      <E_ATTR unique="true" type="price"/>
      <E_ATTR unique="true" type="brand"/>
      <E_ATTR unique="true" type="size"/>
    </EXTENT_SCHEMA>"""
    with thesis_broker(tmp_path) as broker:
        reply = handle(body.encode(), broker, ADMIN)
        assert reply.http_status == 409
        assert errors_of(reply_of(reply)) == [("exists", "2"), ("exists", "4")]
        assert broker.schema == THESIS


def test_names_that_no_dtd_can_list_are_checked_all_the_same(tmp_path: Path) -> None:
    attribute = '<ADD_ATTRIBUTE><ATTR_DOM name="top speed" type="1"/></ADD_ATTRIBUTE>'
    with thesis_broker(tmp_path) as broker:
        assert ask(broker, attribute).get("status") == "ok"
        assert errors_of(ask(broker, EVENT.replace('"price"', '"prise"').replace('"cc"', '"ccc"'))) == [
            ("unknown", "4"),
            ("unknown", "7"),
        ]
        assert errors_of(ask(broker, SUBSCRIPTION.replace('"price"', '"prise"'), SBILE)) == [("invalid", "4")]


@pytest.mark.parametrize(
    ("body", "status", "code", "message"),
    [
        (b"", 400, "malformed", "no element"),
        (b"<ADD_DOMAN/>", 422, "invalid", "ADD_DOMAIN"),
        (b"<USER username='a' password='b'/>", 422, "invalid", "USER"),
        (b"<IESCHEMA><A/></IESCHEMA>", 422, "invalid", "nothing in it"),
        (sample("add_domain").replace(b"add_dom.dtd", b"evil.dtd"), 400, "malformed", "not known"),
        (SUBSCRIPTION.replace("<PUBLISH_SUB", '<PUBLISH_SUB lease="soon"', 1).encode(), 422, "invalid", "soon"),
        (SUBSCRIPTION.replace("<PUBLISH_SUB", '<PUBLISH_SUB lease="nan"', 1).encode(), 422, "invalid", "lease"),
    ],
)
def test_a_request_that_is_refused_says_why(tmp_path: Path, body: bytes, status: int, code: str, message: str) -> None:
    with thesis_broker(tmp_path) as broker:
        reply = handle(body, broker, ADMIN)
        root = reply_of(reply)
        assert reply.http_status == status
        assert [error.get("code") for error in root] == [code]
        assert message in words_of(root)


def test_of_very_many_errors_the_first_are_told(tmp_path: Path) -> None:
    body = EVENT.replace("</ATTRIBUTES>", '<ATTR type="x"/>' * 500 + "</ATTRIBUTES>")
    with thesis_broker(tmp_path) as broker:
        reply = ask(broker, body)
        assert len(reply) == 101
        assert reply[-1].text == "and 400 more"


def test_a_quota_is_told_with_when_to_ask_again(tmp_path: Path) -> None:
    with thesis_broker(tmp_path, settings=BrokerSettings(subscriptions_per_owner=1)) as broker:
        assert ask(broker, SUBSCRIPTION, SBILE).get("status") == "ok"
        reply = handle(SUBSCRIPTION.encode(), broker, SBILE)
        assert (reply.http_status, reply.retry_after_seconds) == (429, 1.0)
        assert reply_of(reply).get("retry_after") == "1"


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_the_receipt_of_a_subscription_renews_and_ends_it(tmp_path: Path) -> None:
    with thesis_broker(tmp_path) as broker:
        reply = ask(broker, SUBSCRIPTION.replace("<PUBLISH_SUB", '<PUBLISH_SUB lease="60"', 1), SBILE)
        id, ticket = int(reply.get("id", "")), reply.get("ticket")
        view = broker.subscription(id, owner="sbile")
        assert reply.get("lease_end") == view.lease_end.isoformat()
        assert (view.lease_end - view.lease_start).total_seconds() == 60
        broker.renew(id, ticket=ticket, generation=int(reply.get("generation", "")))
        broker.unsubscribe(id, ticket=ticket)
        assert broker.subscriptions("sbile") == []


def test_several_event_types_of_a_subscription_must_all_hold(tmp_path: Path) -> None:
    two = '<VALUE type="antique" oper="contains"/><VALUE type="car" oper="contains"/>'
    subscription = SUBSCRIPTION.replace('<VALUE type="car" oper="contains"/>', two)
    both = EVENT.replace('<VALUE type="car"/>', '<VALUE type="antique"/><VALUE type="car"/>')
    both = both.replace("</ATTRIBUTES>", '<ATTR type="period">old</ATTR><ATTR type="size">1</ATTR></ATTRIBUTES>')
    with thesis_broker(tmp_path) as broker:
        ask(broker, subscription, SBILE)
        ask(broker, EVENT)
        seq = ask(broker, both).get("seq")
        assert [str(one.seq) for one in broker.notifications("sbile")] == [seq]


@pytest.mark.parametrize(
    ("words", "period", "told"),
    [
        ("van gogh", "after Gogh", True),
        ("van,gogh", "a van", True),
        ("van.gogh, ", "VAN", True),
        ("van gogh", "vangogh", False),
        ("18th century", "the 18th", True),
        ("van", "van", True),
    ],
)
def test_contains_asks_for_any_of_the_words(tmp_path: Path, words: str, period: str, told: bool) -> None:
    subscription = f"""<PUBLISH_SUB><EVENT_TYPE><VALUE type="painting" oper="contains"/></EVENT_TYPE>
      <ATTRIBUTES><ATTR type="period" oper="contains">{words}</ATTR></ATTRIBUTES></PUBLISH_SUB>"""
    event = f"""<PUBLISH_EVENT contact=""><EVENT_TYPE><VALUE type="painting"/></EVENT_TYPE><ATTRIBUTES>
      <ATTR type="price">1</ATTR><ATTR type="quantity">1</ATTR><ATTR type="material">paper</ATTR>
      <ATTR type="size">1</ATTR><ATTR type="period">{period}</ATTR></ATTRIBUTES></PUBLISH_EVENT>"""
    with thesis_broker(tmp_path) as broker:
        assert ask(broker, subscription, SBILE).get("status") == "ok"
        assert ask(broker, event).get("status") == "ok"
        assert bool(broker.notifications("sbile")) is told


def test_a_contact_is_delivered_where_the_event_type_has_one(tmp_path: Path) -> None:
    with thesis_broker(tmp_path) as broker:
        assert ask(broker, EVENT)[0].tag == "NOTE"
        ask(broker, '<ADD_ATTRIBUTE><ATTR_DOM name="contact" type="2"/></ADD_ATTRIBUTE>')
        ask(broker, '<EXTENT_SCHEMA type="car"><E_ATTR unique="true" type="contact"/></EXTENT_SCHEMA>')
        ask(broker, SUBSCRIPTION, SBILE)
        assert len(ask(broker, EVENT)) == 0
        [told] = broker.notifications("sbile")
        assert told.event["contact"] == "sbile@hotmail.com"


def test_an_event_with_an_idempotency_key_is_published_once(tmp_path: Path) -> None:
    with thesis_broker(tmp_path) as broker:
        ask(broker, SUBSCRIPTION, SBILE)
        replies = [handle(EVENT.encode(), broker, SBILE, idempotency_key="k").body for _ in range(2)]
        assert replies[0] == replies[1]
        assert len(broker.notifications("sbile")) == 1
        other = handle(EVENT.replace(">4<", ">5<").encode(), broker, SBILE, idempotency_key="k")
        assert other.http_status == 409


def test_the_dtds_that_are_served_follow_the_schema(tmp_path: Path) -> None:
    with thesis_broker(tmp_path) as broker:
        assert "paint |" not in (dtd_file("pub_event.dtd", broker.schema) or "")
        ask(broker, sample("add_event"))
        assert "painting | paint )" in (dtd_file("pub_event.dtd", broker.schema) or "")
        assert "REPLY" in (dtd_file("reply.dtd", broker.schema) or "")
        assert dtd_file("../../etc/passwd", broker.schema) is None


def test_arrays_of_objects_are_refused_by_xml_with_the_reason(tmp_path: Path) -> None:
    schema = Schema.infer([{"event_type": "order", "items": [{"sku": "A", "qty": 1}]}], mandatory=False)
    head = '<EVENT_TYPE><VALUE type="order"{}/></EVENT_TYPE><ATTRIBUTES><ATTR type="items"{}>A</ATTR></ATTRIBUTES>'
    operators = ' oper="contains"', ' oper="eq"'
    asked = f"<PUBLISH_SUB>{head.format(*operators)}</PUBLISH_SUB>"
    told = f'<PUBLISH_EVENT contact="a@b.c">{head.format("", "")}</PUBLISH_EVENT>'
    with thesis_broker(tmp_path, schema) as broker:
        for body, said in ((asked, "ask about its elements: some items"), (told, "'A' is not an object")):
            reply = handle(body.encode(), broker, ADMIN)
            assert reply.http_status == 422
            assert said in words_of(reply_of(reply))
