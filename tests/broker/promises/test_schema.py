"""Versions of the schema."""

from __future__ import annotations

import pytest

from tests.broker.market import SCHEMA, car, open_broker, seqs_of
from tocsin.errors import (
    EventRejected,
    SchemaError,
)
from tocsin.store.events import read_events


def test_event_is_judged_by_the_version_as_of_its_seq(place: str) -> None:
    with open_broker(place) as broker:
        with pytest.raises(EventRejected):
            broker.publish(car(1, colour="red"))
        broker.extend_schema(lambda schema: schema.extend_event_type("car", "colour"), words="colours")
        mine = broker.subscribe("car where colour = 'red'", owner="ada")
        event = broker.publish(car(1, colour="red"))
        assert seqs_of(broker, "ada") == [(event.seq, mine.id)]
        assert [(entry.version, entry.change) for entry in broker.schema_history()] == [
            (1, "the first"),
            (2, "colours"),
        ]
        with broker.store.read() as connection:
            assert [stored.schema_version for stored in read_events(connection, 0, 10)] == [2]


def test_the_history_says_who_changed_what_and_why(place: str) -> None:
    with open_broker(place) as broker:
        broker.extend_schema(
            lambda schema: (
                schema.extend_event_type("car", "colour").add_alias("color", "colour").deprecate("brand", "make")
            ),
            words="two sites joined",
            by="hammer",
        )
        assert broker.schema_history()[-1].change == (
            "hammer: car may have colour; color means colour; brand is deprecated (two sites joined)"
        )


def test_schema_change_that_would_invalidate_anything_is_refused(place: str) -> None:
    from dataclasses import replace

    with open_broker(place) as broker:
        for change in (
            lambda schema: replace(schema, attributes={}, event_types={}),
            lambda schema: replace(schema, event_types={}),
            lambda schema: replace(schema, event_types=dict(reversed(schema.event_types.items()))),
        ):
            with pytest.raises(SchemaError):
                broker.extend_schema(change)
        assert broker.schema == SCHEMA


def test_store_is_not_opened_with_another_schema(place: str) -> None:
    with open_broker(place) as broker:
        broker.extend_schema(lambda schema: schema.extend_event_type("car", "colour"))
    with open_broker(place) as broker:  # a program may go on with the one it knew
        assert broker.schema.version == 2
    with pytest.raises(SchemaError):
        open_broker(place, schema=SCHEMA.add_attribute("size", "money"))
