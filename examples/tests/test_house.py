"""The house of the demo: what reaches whom is checked, and the check notices what is wrong."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tocsin.errors import TocsinError
from tocsin.language import bind, evaluate
from tocsin.language.documents import from_document
from tocsin.pipeline.followers import open_store
from tocsin.store.notifications import Matches, record_matches
from tocsin_examples.house import House

SUBSCRIPTIONS, EVENTS = 2_000, 60


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path, seed=3)
    house.subscribe(SUBSCRIPTIONS)
    house.run(EVENTS, rate=200)  # members change meanwhile
    yield house
    house.close()


def matches_of(house: House) -> list[tuple[int, int]]:
    """Return who is reached by what, by the definition."""
    events = {event.seq: event for event in house._events()}
    return sorted((seq, id) for seq, ids in house._right(list(events.values()), house.wishes).items() for id in ids)


def store(house: House, pairs: list[tuple[int, int]]) -> None:
    seqs, ids = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    with open_store(house.place).write() as transaction:
        record_matches(transaction, 0, house.last_seq(), Matches.of(seqs, ids, np.ones(len(ids), np.int64)))


def test_the_house_finds_everything_in_place(house: House) -> None:
    pairs = matches_of(house)
    assert len(pairs) > EVENTS / 6
    store(house, pairs)
    assert house.check(len(pairs)) == 10
    assert house.changes > 1
    assert house.live == len(house.wishes) - len(house.ended)


def test_a_lost_notification_is_noticed(house: House) -> None:
    pairs = matches_of(house)
    store(house, pairs[:-1])
    with pytest.raises(TocsinError, match="were counted"):
        house.check(len(pairs))


def test_a_wrong_notification_is_noticed(house: House) -> None:
    stranger = next(iter(house.wishes))
    everything = sorted({*matches_of(house), *((event.seq, stranger) for event in house._events())})
    store(house, everything)
    with pytest.raises(TocsinError, match="than the definition says"):
        house.check(len(everything))


def test_events_that_are_not_matched_are_noticed(house: House) -> None:
    with pytest.raises(TocsinError, match="are not matched"):
        house.check(0)


def test_most_wishes_are_particular(house: House) -> None:
    event = next(iter(house._events()))
    admitted = house.auction.schema.admit(dict(next(house.auction.events(1))))
    reached = sum(
        evaluate(bind(from_document(wish)[1], house.auction.schema), admitted) for wish in house.wishes.values()
    )
    assert reached < SUBSCRIPTIONS / 50, event
