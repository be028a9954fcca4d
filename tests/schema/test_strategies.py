"""The strategies that other tests stand on give what they promise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.schemas import raw_events, schemas
from tocsin.schema import EVENT_TYPE


@given(st.data())
def test_every_generated_event_is_admitted(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    event = schema.admit(data.draw(raw_events(schema)))
    assert all(event.values.values())
    assert set(event.types) <= set(schema.event_types)
    view = schema.view(event.types)
    assert all(len(values) == 1 or view[name].multiple for name, values in event.values.items())
    assert EVENT_TYPE in event.values
