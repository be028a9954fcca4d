"""Offers and subscriptions with properties in the broker: durable, private, and the same after a restart."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from sqlalchemy import update

from tests.offers.worlds import MARKET, Random, random_offer, random_subscription
from tests.offers.worlds import programs as market_programs
from tocsin.broker import Broker, BrokerSettings
from tocsin.errors import BindError, EventRejected, StoreDamaged, UnknownNotification, UnknownOffer, UnknownSubscription
from tocsin.language import bind
from tocsin.language.explain import HIDDEN_RULE
from tocsin.language.formula import FLOAT, INT
from tocsin.offers import Program, Programs
from tocsin.schema import Schema, Union
from tocsin.schema.examples import load_example
from tocsin.store.tables import subscriptions

SCHEMA = load_example("insurance")
EngineName = Literal["columnar", "definition"]
A2: dict[str, Any] = {
    "event": {"event_type": "insurance", "name": "Company B", "cover": "Full"},
    "rules": ["age >= 40 and years_ncd >= 3"],
    "dynamic": {"price": "case when years_ncd > 7 then 900 else 1200 end"},
}
Q1 = "insurance where cover = 'Full' and price <= 1000 with name = 'Amy', age = 25, years_ncd = 2"
Q2 = "insurance with name = 'Bob', age = 48, years_ncd = 8"
Q3 = "insurance where price <= 700 with name = 'Chris', age = 42, years_ncd = 8"


def programs(version: int = 1, factor: int = 1) -> Programs:
    parameters = {"age": INT, "years_ncd": INT}
    return Programs(
        [
            Program("auto_price", version, parameters, FLOAT, f"{factor} * (age * 10 + years_ncd)"),
            Program("share", version, parameters, FLOAT, "age / years_ncd"),
        ]
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "market.db"


@pytest.fixture(params=["definition", "columnar"])
def engine(request: pytest.FixtureRequest) -> EngineName:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def broker(place: Path, engine: EngineName) -> Iterator[Broker]:
    with Broker.open(place, schema=SCHEMA, programs=programs(), engine=engine) as broker:
        yield broker


def told(broker: Broker, owner: str) -> list[tuple[Any, Any]]:
    return [(one.event["name"], one.event.get("price")) for one in broker.notifications(owner)]


def test_an_offer_reaches_whom_both_sides_want_with_the_computed_value(broker: Broker) -> None:
    for owner, text in (("amy", Q1), ("bob", Q2), ("chris", Q3)):
        broker.subscribe(text, owner=owner)
    receipt = broker.publish(A2, publisher="company b")
    assert receipt.met is not None
    assert (receipt.met.matches, receipt.met.failures, receipt.met.subscriptions) == (1, 0, None)
    assert [told(broker, owner) for owner in ("amy", "bob", "chris")] == [[], [("Company B", 900.0)], []]
    (notification,) = broker.notifications("bob")
    assert notification.computed == ("price",)


def test_plain_events_and_plain_subscriptions_go_on_as_before(broker: Broker) -> None:
    broker.subscribe("insurance where price <= 700", owner="eve")
    broker.subscribe("true", owner="all")
    broker.subscribe(Q3, owner="chris")
    broker.publish({"event_type": "insurance", "name": "A", "cover": "Basic", "price": 650})
    broker.publish({"event": A2["event"], "dynamic": {"price": "600"}})
    broker.publish(A2)  # has rules: only those with properties can satisfy them
    broker.publish({"event_type": "driver", "name": "D", "age": 30, "years_ncd": 1})
    assert told(broker, "eve") == [("A", 650), ("Company B", 600.0)]
    assert told(broker, "chris") == [("A", 650), ("Company B", 600.0)]
    assert told(broker, "all") == [("A", 650), ("Company B", 600.0), ("D", None)]


def test_a_condition_may_speak_of_both_sides(broker: Broker) -> None:
    broker.subscribe("insurance where price <= 20 * age with name = 'Bob', age = 48, years_ncd = 8", owner="bob")
    broker.subscribe("insurance where price <= 10 * age with name = 'Al', age = 48, years_ncd = 8", owner="al")
    broker.publish(A2)
    assert (told(broker, "bob"), told(broker, "al")) == ([("Company B", 900.0)], [])


def test_matching_is_as_of_the_seq_and_survives_a_restart(place: Path, engine: EngineName) -> None:
    with Broker.open(place, schema=SCHEMA, programs=programs(), engine=engine) as broker:
        early = broker.subscribe(Q2, owner="bob")
        gone = broker.subscribe(Q2, owner="gone")
        broker.unsubscribe(gone)
        broker.publish(A2)
    with Broker.open(place, programs=programs(), engine=engine) as broker:
        broker.subscribe(Q2, owner="late")
        assert (told(broker, "late"), told(broker, "gone")) == ([], [])
        broker.publish({**A2, "dynamic": {"price": "program('auto_price', age, years_ncd)"}})
        broker.unsubscribe(early, owner=None)
        broker.publish(A2)
        assert told(broker, "late") == [("Company B", 488.0), ("Company B", 900.0)]
        broker.save_index()
    with Broker.open(place, programs=programs(version=2, factor=3), engine=engine) as broker:
        assert told(broker, "late") == [("Company B", 488.0), ("Company B", 900.0)]  # as it was told
        broker.publish({**A2, "dynamic": {"price": "program('auto_price', age, years_ncd)"}})
        assert told(broker, "late")[-1] == ("Company B", 1464.0)


def test_replaced_and_paused_subscriptions_follow(broker: Broker) -> None:
    receipt = broker.subscribe(Q3, owner="chris")
    broker.replace(receipt, "insurance where price <= 950 with name = 'Chris', age = 42, years_ncd = 8")
    broker.publish(A2)
    broker.pause(receipt)
    broker.publish(A2)
    broker.resume(receipt)
    broker.publish(A2)
    assert [one.subscription for one in broker.notifications("chris")] == [receipt.id] * 2
    assert told(broker, "chris") == [("Company B", 900.0)] * 2


def test_a_failure_is_counted_and_becomes_the_operators_dead_letter(broker: Broker) -> None:
    zero = broker.subscribe("insurance with name = 'Zoe', age = 50, years_ncd = 0", owner="zoe")
    broker.subscribe(Q2, owner="bob")
    broker.unsubscribe(broker.subscribe("insurance with name = 'X', age = 50, years_ncd = 0", owner="x"))
    offer = {**A2, "rules": ["age >= 40"], "dynamic": {"price": "program('share', age, years_ncd)"}}
    receipt = broker.publish(offer, publisher="company b")
    assert receipt.met is not None
    assert (receipt.met.matches, receipt.met.failures) == (1, 1)
    assert broker.dead_letters(publisher="company b") == []
    (letter,) = broker.dead_letters()
    assert letter.kind == "match"
    assert "division by zero" in letter.reason
    listed = msgspec.json.decode(letter.body)
    assert listed["first"] == [{"subscription": zero.id, "reason": "division by zero"}]
    assert told(broker, "bob") == [("Company B", 6.0)]


def test_the_publisher_learns_who_only_where_the_operator_allows_it(place: Path, engine: EngineName) -> None:
    with Broker.open(place, schema=SCHEMA, settings=BrokerSettings(reveal_subscribers=True), engine=engine) as broker:
        bob = broker.subscribe(Q2, owner="bob")
        receipt = broker.publish(A2, idempotency_key="k")
        assert receipt.met is not None
        assert receipt.met.subscriptions == (bob.id,)
        assert broker.publish(A2, idempotency_key="k") == receipt  # the same answer to the same key


def test_a_bad_offer_is_refused_with_all_that_is_wrong(broker: Broker) -> None:
    with pytest.raises(EventRejected) as caught:
        broker.publish({**A2, "rules": ["aeg > 3"], "ttl_seconds": 5})
    assert "did you mean age" in str(caught.value)
    for wrong in ({**A2, "ttl_seconds": -1}, {**A2, "event": {"event_type": "driver"}}, {**A2, "extra": 1}):
        with pytest.raises(EventRejected):
            broker.publish(wrong)
    receipts = broker.publish([A2, {**A2, "rules": "no ("}], atomic=False, publisher="b")
    assert [one.accepted for one in receipts] == [True, False]
    assert len(broker.dead_letters(publisher="b")) == 1


def test_offers_that_waited_for_the_pipeline_are_matched_as_of_their_seqs(place: Path, engine: EngineName) -> None:
    with Broker.open(place, schema=SCHEMA, matching="pipeline", programs=programs(), engine=engine) as broker:
        zero = broker.subscribe("insurance with name = 'Zoe', age = 50, years_ncd = 0", owner="zoe")
        broker.subscribe(Q2, owner="bob")
        receipt = broker.publish({**A2, "ttl_seconds": 3600}, publisher="company b", idempotency_key="k")
        assert receipt.accepted
        assert receipt.met is None  # nobody knows yet
        assert broker.publish({**A2, "ttl_seconds": 3600}, publisher="company b", idempotency_key="k") == receipt
        broker.subscribe(Q2, owner="late")
        broker.publish({"event_type": "insurance", "name": "A", "cover": "Basic", "price": 650})
        failing = {**A2, "rules": ["age >= 50"], "dynamic": {"price": "program('share', age, years_ncd)"}}
        broker.publish(failing)
        assert [one.seq for one in broker.held_offers.query(Q2)] == [receipt.seq]
        assert broker.match_backlog() == 3
        assert told(broker, "bob") == [("Company B", 900.0), ("A", 650)]
        assert told(broker, "late") == [("A", 650)]
        assert broker.explain(receipt.seq, zero.id + 1, owner="bob").computed == {"price": 900.0}
        (letter,) = broker.dead_letters()
        assert (letter.kind, "division by zero" in letter.reason) == ("match", True)
        broker.publish(failing)
    with Broker.open(place, matching="inline", engine=engine) as broker:  # without the program
        letters = broker.dead_letters()
        assert [one.kind for one in letters] == ["match", "match"]
        assert "share" in letters[1].reason
        assert broker.match_backlog() == 0


def test_a_new_subscription_is_asked_about_live_offers(place: Path, engine: EngineName) -> None:
    with Broker.open(place, schema=SCHEMA, programs=programs(), engine=engine) as broker:
        first = broker.publish({**A2, "ttl_seconds": 3600}, publisher="b")
        broker.publish(A2, publisher="b")  # no advertisement
        second = broker.publish({**A2, "ttl_seconds": 3600, "rules": ["age < 30"]}, publisher="c")
    with Broker.open(place, programs=programs(), engine=engine) as broker:
        (found,) = broker.held_offers.query(Q2)
        assert (found.seq, found.event["price"], found.computed) == (first.seq, 900.0, ("price",))
        assert [one.seq for one in broker.held_offers.query(Q1)] == []
        assert [one.seq for one in broker.held_offers.query(Q1.replace("1000", "1200"))] == [second.seq]
        assert [one.seq for one in broker.held_offers.of("b")] == [first.seq]
        with pytest.raises(UnknownOffer):
            broker.held_offers.withdraw(first.seq, publisher="c")
        with Broker.open(place, programs=programs(), engine=engine) as other:
            other.held_offers.withdraw(first.seq, publisher="b")
        assert broker.held_offers.query(Q2) == []
        assert broker.held_offers.of("b") == []
        assert broker.held_offers.query("driver where age > 3") == []
        with pytest.raises(BindError):
            broker.held_offers.query("insurance where prise > 3")


def test_explain_tells_both_sides_and_hides_the_rules(place: Path, engine: EngineName) -> None:
    with Broker.open(place, schema=SCHEMA, engine=engine) as broker:
        chris = broker.subscribe(Q3, owner="chris")
        bob = broker.subscribe(Q2, owner="bob")
        receipt = broker.publish(A2)
        found = broker.explain(receipt.seq, bob.id, owner="bob")
        assert found.matched
        assert found.computed == {"price": 900.0}
        refused = broker.explain_event(A2, chris.id, owner="chris")
        assert [(one.condition, one.side) for one in refused.changes] == [("price <= 700", None)]
        assert "age" not in str(refused)
        for wrong in (("chris", bob.id), ("bob", chris.id)):
            with pytest.raises(UnknownNotification):
                broker.explain(receipt.seq, wrong[1], owner=wrong[0])
        with pytest.raises(UnknownSubscription):
            broker.explain_event(A2, bob.id, owner="chris")
        young = broker.explain_draft(A2, Q1)
        assert [(one.condition, one.side) for one in young.changes if one.side] == [(HIDDEN_RULE, "offer")]
    with Broker.open(place, settings=BrokerSettings(reveal_rules=True), engine=engine) as broker:
        told = broker.explain_event(A2, chris.id, owner="chris")
        assert "driver.age >= 40 and driver.years_ncd >= 3" in str(told)


def test_a_union_that_comes_later_takes_its_subscriptions(place: Path, engine: EngineName) -> None:
    plain = Schema(SCHEMA.domains, SCHEMA.attributes, SCHEMA.event_types)
    with Broker.open(place, schema=plain, engine=engine) as broker:
        broker.subscribe("insurance where price <= 700", owner="eve")
        with pytest.raises(EventRejected):
            broker.publish(A2)

        def extended(schema: Schema) -> Schema:
            unions = {"auto": Union("auto", "insurance", "driver")}
            return Schema(schema.domains, schema.attributes, schema.event_types, schema.version, unions=unions)

        broker.extend_schema(extended)
        broker.publish({"event": A2["event"], "dynamic": {"price": "600"}})
        assert told(broker, "eve") == [("Company B", 600.0)]


def _is_right(text: str) -> bool:
    try:
        bind(text, MARKET)
    except BindError:
        return False
    return True


def test_subscriptions_that_are_read_again_at_once_match_what_they_matched_one_by_one(
    place: Path, engine: EngineName
) -> None:
    draw = Random(5)
    texts = [text for text in (random_subscription(draw) for _ in range(60)) if _is_right(text)]
    texts += [f"offer where price <= {at} and count = 1 with age = {at}, city = 'a'" for at in range(40)]
    texts += [f"offer where price <= {at}" for at in range(5)]
    offers = [{**one, "event": {**one["event"], "event_type": "offer"}} for one in map(random_offer, [draw] * 25)]
    with Broker.open(place, schema=MARKET, programs=market_programs(), engine=engine) as broker:
        for text in texts:
            broker.subscribe(text, owner="all")
        before = broker.dry_run(offers)
    assert sum(len(one.reached) for one in before) > 50
    with Broker.open(place, programs=market_programs(), engine=engine) as broker:
        assert broker.dry_run(offers) == before


def test_a_stored_subscription_that_does_not_fit_the_schema_is_told(place: Path, engine: EngineName) -> None:
    with Broker.open(place, schema=SCHEMA, engine=engine) as broker:
        ids = [broker.subscribe(Q2, owner="bob").id for _ in range(3)]
        with broker.store.write() as transaction:
            wrong = b'{"event_types":["insurance"],"where":["prise","<",3]}'
            changed = update(subscriptions).where(subscriptions.c.id == ids[1]).values(tree=wrong)
            transaction.connection.execute(changed)
            transaction.keep_time()
    shutil.rmtree(f"{place}.index", ignore_errors=True)  # the segments have it as it was
    with pytest.raises(StoreDamaged, match="prise"):
        Broker.open(place, engine=engine)


def test_a_broker_follows_the_file_of_its_programs(place: Path, tmp_path: Path, engine: EngineName) -> None:
    file = tmp_path / "programs.toml"
    entry = (
        '[programs.price]\nversion = {}\nparameters = {{ age = "int" }}\nreturns = "float"\nexpression = "{} * age"\n'
    )
    file.write_text(entry.format(1, 10))
    offer = {**A2, "dynamic": {"price": "program('price', age)"}, "ttl_seconds": 60}
    with Broker.open(place, schema=SCHEMA, programs=file, engine=engine) as broker:
        broker.subscribe(Q2, owner="bob")
        broker.publish(offer)
        assert [one.event["price"] for one in broker.held_offers.query(Q2)] == [480.0]
        file.write_text(entry.format(2, 11))
        broker.publish(offer)
        assert told(broker, "bob") == [("Company B", 480.0), ("Company B", 528.0)]
        assert [one.event["price"] for one in broker.held_offers.query(Q2)] == [528.0, 528.0]
        assert [one.version for one in broker.held_offers.programs] == [2]
        file.write_text("[programs]\n")
        with pytest.raises(EventRejected, match="price"):
            broker.publish(offer)
        assert broker.held_offers.query(Q2) == []
        assert broker.held_offers.unusable == 2
