"""The first match after an install: the definition answers for few subscriptions, and kernels are compiled when they pay."""

from __future__ import annotations

import logging

import pytest

from tocsin import Matcher, Schema
from tocsin.errors import BindError, DuplicateSubscription, UnknownSubscription
from tocsin.index.subscription_index import Lifetime
from tocsin.language import bind
from tocsin.matching import matcher as module
from tocsin.matching.engine import Match

EVENT = {"brand": "mini", "price": 1100}


@pytest.fixture
def young(monkeypatch: pytest.MonkeyPatch) -> Matcher:
    """A matcher of an install whose kernels were never compiled, with two subscriptions."""
    monkeypatch.setattr(module, "_kernels_kept", lambda: False)
    monkeypatch.setattr(module, "MOST_YOUNG", 1_000)
    matcher = Matcher()
    matcher.subscribe("ann", "price < 1300 and brand in ('mini', 'cooper')")
    matcher.subscribe("bob", "price < 1000")
    return matcher


def has_index(matcher: Matcher) -> bool:
    return len(matcher._index) > 0


def test_the_first_matches_need_no_kernels(young: Matcher) -> None:
    assert young.match(EVENT) == ["ann"]
    assert young.match('{"price": 1}') == ["bob"]
    assert young.match_batch([EVENT, {"price": 900}]) == [["ann"], ["bob"]]
    assert young.find(EVENT) == ([Match("ann")], [])
    assert young.find_batch([EVENT]) == [([Match("ann")], [])]
    assert young.match_frame([EVENT]) == [{**EVENT, "subscription": "ann"}]
    assert not young.explain("bob", EVENT).matched
    assert len(young) == 2
    assert young.work.events == 7
    assert not has_index(young)


def test_a_type_that_is_named_later_needs_none_either(young: Matcher) -> None:
    young.subscribe("cid", "car where doors = 5")
    assert young.match({"event_type": "car", "doors": 5, "price": 900}) == ["bob", "cid"]
    assert not has_index(young)


def test_ids_are_taken_once_and_let_go(young: Matcher) -> None:
    with pytest.raises(DuplicateSubscription):
        young.subscribe("ann", "price > 1")
    young.unsubscribe("ann")
    with pytest.raises(UnknownSubscription):
        young.unsubscribe("ann")
    with pytest.raises(UnknownSubscription):
        young.explain("ann", EVENT)
    assert young.match(EVENT) == []


def test_what_is_no_text_and_no_tree_is_refused_in_words(young: Matcher) -> None:
    with pytest.raises(BindError, match=r"a subscription is a text, such as .*, or a tree, and not int"):
        young.subscribe("cid", 3)  # type: ignore[arg-type]


def test_an_array_without_a_schema_is_refused_with_the_remedy(young: Matcher) -> None:
    with pytest.raises(BindError, match=r"items is of no declared type: declare it in a schema, which Schema\.infer"):
        young.subscribe("cid", "some items (qty > 3)")


def test_the_index_answers_the_same_once_there_is_much_to_decide(
    young: Matcher, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    events = [{"brand": brand, "price": price} for brand in ("mini", "audi") for price in (500, 1200, 1400)]
    before = young.match_batch(events)
    monkeypatch.setattr(module, "MOST_DECIDED", 12)
    with caplog.at_level(logging.WARNING):
        assert [sorted(found) for found in young.match_batch(events)] == [sorted(found) for found in before]
    assert [record.getMessage() for record in caplog.records] == [module._COMPILING]
    assert has_index(young)
    assert len(young) == 2
    young.subscribe("cid", "car where price > 1000")
    assert sorted(young.match({**EVENT, "event_type": "car"})) == ["ann", "cid"]


def test_few_lines_need_no_kernels_and_what_is_wrong_with_lines_is_told_as_always(young: Matcher) -> None:
    lines = [b'{"id": 1, "text": "price > 1000"}', b"", b'{"id": 2, "text": "price >"}', b"no"]
    bad = young.load(lines)
    assert [(one.line, one.id) for one in bad] == [(3, 2), (4, None)]
    assert young.match(EVENT) == ["ann", 1]
    assert not has_index(young)
    with pytest.raises(DuplicateSubscription):
        young.load([b'{"id": 3, "text": "price > 1000"}', b'{"id": "ann", "text": "price > 1000"}'])
    assert len(young) == 3


def test_many_subscriptions_go_to_the_index_at_once(young: Matcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_YOUNG", 2)
    young.subscribe("cid", "price > 1000")
    assert has_index(young)
    assert sorted(young.match(EVENT)) == ["ann", "cid"]


def test_tests_ask_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_kernels_kept", lambda: False)
    matcher = Matcher()
    matcher.subscribe("ann", "price < 1300")
    assert has_index(matcher)


def test_lifetimes_and_events_as_of_a_moment_are_the_indexs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_kernels_kept", lambda: False)
    monkeypatch.setattr(module, "MOST_YOUNG", 1_000)
    schema = Schema.infer([EVENT])
    timed, plain = Matcher(schema), Matcher(schema)
    timed.add(1, bind("price < 1300", schema), Lifetime(created=5))
    plain.add(1, bind("price < 1300", schema))
    assert timed.match(EVENT, seq=5) == []
    assert plain.match(EVENT, seq=6) == timed.match(EVENT, seq=6) == [1]
    assert has_index(timed)
    assert has_index(plain)
