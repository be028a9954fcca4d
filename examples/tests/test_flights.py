"""Real flights as events: read from the package as it is, admitted, in order of time, and waited for."""

import importlib.util

import pytest

from tocsin.errors import NotSupported
from tocsin.language import bind, evaluate
from tocsin.language.documents import from_document
from tocsin_examples.flights import PACKAGE, Flights, Travellers, data_folder

EVENTS = 1500


@pytest.fixture(scope="module")
def flights() -> Flights:
    if importlib.util.find_spec(PACKAGE) is None:
        pytest.skip(f"{PACKAGE} is not installed")
    return Flights()


def test_departures_and_cancellations_are_admitted_as_they_are(flights: Flights) -> None:
    events = [flights.schema.admit(raw) for raw in flights.events(EVENTS)]
    assert {event.types[0] for event in events} == {"departure", "cancellation"}
    assert events[0].values["flight"] == ("UA1545",)
    assert events[0].values["delay"] == (2,)
    assert events[0].values["maker"] == ("BOEING",)
    assert "delay" not in next(event for event in events if event.types[0] == "cancellation").values
    assert all(event.values["location"] for event in events if "location" in event.values)


def test_destinations_are_a_hierarchy_of_zones(flights: Flights) -> None:
    chicago = bind(from_document({"text": "departure where destination kind of 'America/Chicago'"})[1], flights.schema)
    reached = {raw["destination"] for raw in flights.events(EVENTS) if evaluate(chicago, flights.schema.admit(raw))}
    assert {"IAH", "ORD", "DFW"} <= reached
    assert "LAX" not in reached


def test_travellers_wait_for_something_that_happens(flights: Flights) -> None:
    wishes = [bind(from_document(one)[1], flights.schema) for one in Travellers(flights, 3).wishes(300)]
    events = [flights.schema.admit(raw) for raw in flights.events(EVENTS)]
    reached = sum(any(evaluate(wish, event) for event in events) for wish in wishes)
    assert 30 < reached < 300
    assert list(Travellers(flights, 3).wishes(20)) == list(Travellers(flights, 3).wishes(20))


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin_examples.flights.PACKAGE", "no_such_package_of_flights")
    with pytest.raises(NotSupported, match="pip install"):
        data_folder()
