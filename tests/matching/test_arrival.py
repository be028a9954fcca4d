"""`now()` is when an event arrived: one moment for all subscriptions, and the same for whoever asks again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from tests.broker.market import car, open_broker
from tests.clocks import ManualClock
from tests.strategies.arrow_events import events_to_arrow
from tocsin import Matcher
from tocsin.broker.upkeep import audit
from tocsin.errors import BindError
from tocsin.language import attributes as a
from tocsin.language import bind, function, parse, subscription
from tocsin.language.offer import OfferBinder
from tocsin.language.sides import sides_of
from tocsin.schema import NOW, Schema, arrived
from tocsin.schema.domain import microseconds

ARRIVAL = microseconds(datetime(2026, 11, 15, 10, tzinfo=UTC))
HOUR = 3_600_000_000
SOON = {"id": 1, "closes": "2026-11-15T12:00:00Z"}
LATE = {"id": 2, "closes": "2026-11-19T12:00:00Z"}
SCHEMA = Schema.infer([SOON, LATE])


def _matcher(*texts: str) -> Matcher:
    matcher = Matcher(SCHEMA)
    for text in texts:
        matcher.subscribe(text, text)
    return matcher


def test_each_event_is_asked_about_its_own_arrival_in_every_way() -> None:
    text = "closes < now() + 2 days"
    matcher = _matcher(text, "id = 2 and hour(now(), 'Asia/Tokyo') = 19")
    events = [SCHEMA.admit(raw) for raw in (SOON, LATE, LATE)]
    arrivals = np.array([ARRIVAL, ARRIVAL, ARRIVAL + 72 * HOUR], np.int64)
    wanted: list[set[object]] = [
        {text},
        {"id = 2 and hour(now(), 'Asia/Tokyo') = 19"},
        set(matcher.match(LATE, arrival=arrivals[2])),
    ]
    assert wanted[2] == {text, "id = 2 and hour(now(), 'Asia/Tokyo') = 19"}
    batch = events_to_arrow(events, SCHEMA)
    rows = [ids for part in matcher.match_arrow(batch, arrival=arrivals) for ids in part.lists()]
    stamped = [arrived(event, int(at)) for event, at in zip(events, arrivals, strict=True)]
    singly = [matcher.match(event, arrival=int(at)) for event, at in zip(events, arrivals, strict=True)]
    assert [set(ids) for ids in rows] == wanted
    assert [set(ids) for ids in matcher.match_batch(stamped)] == wanted
    assert [set(ids) for ids in singly] == wanted
    assert matcher.count_arrow(batch, arrival=arrivals).tolist() == [len(ids) for ids in wanted]
    assert [matcher.explain(text, event).matched for event in stamped] == [text in ids for ids in wanted]


def test_without_a_given_arrival_the_clock_is_read_once_for_all_subscriptions() -> None:
    matcher = _matcher("now() > time '2020-01-01T00:00Z'", "now() = now()", "now() < time '2020-01-01T00:00Z'")
    assert set(matcher.match(SOON)) == {"now() > time '2020-01-01T00:00Z'", "now() = now()"}
    assert [len(ids) for ids in matcher.match_batch([SCHEMA.admit(SOON)] * 3)] == [2, 2, 2]


def test_events_are_stamped_only_where_somebody_asks() -> None:
    event = SCHEMA.admit(SOON)
    assert arrived(arrived(event, ARRIVAL)).values[NOW] == (datetime(2026, 11, 15, 10, tzinfo=UTC),)
    assert not _matcher("closes < time '2026-11-16T00:00Z'")._current().asks_arrival
    assert _matcher("closes < now()")._current().asks_arrival


def test_now_within_a_scope_is_that_of_the_event() -> None:
    schema = Schema.infer([{"items": [{"due": "2026-11-15T12:00:00Z"}, {"due": "2026-11-19T12:00:00Z"}]}])
    matcher = Matcher(schema)
    matcher.subscribe(1, "every items (due < now() + 3 days)")
    matcher.subscribe(2, "some items (due < now() + 3 days)")
    event = {"items": [{"due": "2026-11-15T12:00:00Z"}, {"due": "2026-11-19T12:00:00Z"}]}
    assert matcher.match(event, arrival=ARRIVAL) == [2]
    assert set(matcher.match(event, arrival=ARRIVAL + 48 * HOUR)) == {1, 2}


def test_the_builder_says_the_same() -> None:
    built = subscription(where=a.closes < function("now") + timedelta(days=2))
    assert built == parse("closes < now() + 2 days")
    hours = subscription(where=function("hour", a.closes, "Europe/Berlin") >= 18)
    assert hours == parse("hour(closes, 'Europe/Berlin') >= 18")


def test_rules_of_offers_have_no_now() -> None:
    with pytest.raises(BindError, match="stands in subscriptions"):
        OfferBinder(sides_of(SCHEMA, ())).rule("now() > time '2020-01-01T00:00Z'")
    assert bind("now() > time '2020-01-01T00:00Z'", SCHEMA).view is not None


@pytest.mark.parametrize("engine", ["definition", "columnar"])
def test_a_stored_event_is_explained_and_replayed_as_of_its_arrival(tmp_path: Path, engine: str) -> None:
    clock = ManualClock()
    with open_broker(str(tmp_path / "store.db"), clock, engine=engine) as broker:
        now = datetime.fromtimestamp(broker.store.now_us() / 1e6, UTC)
        limit = f"time '{now.isoformat()}' + 1 hour"
        mine = broker.subscribe(f"car where price < 5 and now() < {limit}", owner="ada", lease=1_000_000)
        broker.publish([car(1)])
        clock.advance(7_200)
        broker.publish([car(2)])
        told = broker.notifications("ada").items
        assert [one.event["price"] for one in told] == [1]
        assert broker.explain(told[0].seq, mine.id, owner="ada").matched
        audited = audit(broker.store)
        assert (audited.events, audited.missing, audited.invented) == (2, [], [])
