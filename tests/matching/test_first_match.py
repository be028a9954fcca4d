"""The first match after an install: the definition answers for few subscriptions, and kernels are compiled when they pay."""

from __future__ import annotations

import json
import logging
import threading

import pytest

from tocsin import Matcher, Schema
from tocsin.errors import BindError, DuplicateSubscription, UnknownSubscription
from tocsin.index.subscription_index import Lifetime
from tocsin.language import bind
from tocsin.matching import matcher as module
from tocsin.matching import young as bounds
from tocsin.matching.engine import Inquiry, Match
from tocsin.operators.operator import operator
from tocsin.operators.registry import Registry
from tocsin.schema import Event

EVENT = {"brand": "mini", "price": 1100}


@pytest.fixture
def young(monkeypatch: pytest.MonkeyPatch) -> Matcher:
    """A matcher of an install whose kernels were never compiled, with two subscriptions."""
    monkeypatch.setattr(module, "kernels_kept", lambda: False)
    monkeypatch.setattr(bounds, "MOST_YOUNG", 1_000)
    matcher = Matcher()
    matcher.subscribe("ann", "price < 1300 and brand in ('mini', 'cooper')")
    matcher.subscribe("bob", "price < 1000")
    return matcher


def has_index(matcher: Matcher) -> bool:
    return len(matcher._index) > 0


def needs_kernels(matcher: Matcher) -> bool:
    return matcher.needs_kernels


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
    assert young.stats().subscriptions == 2
    assert "2 subscriptions" in young._repr_html_()
    assert not has_index(young)
    assert not needs_kernels(young)


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
    monkeypatch.setattr(bounds, "MOST_DECIDED", 12)
    with caplog.at_level(logging.WARNING):
        assert [sorted(found) for found in young.match_batch(events)] == [sorted(found) for found in before]
    assert [record.getMessage() for record in caplog.records] == [module._COMPILING]
    assert has_index(young)
    assert len(young) == 2
    young.subscribe("cid", "car where price > 1000")
    assert sorted(young.match({**EVENT, "event_type": "car"})) == ["ann", "cid"]


def test_the_definition_goes_on_while_kernels_are_compiled_beside_it(
    young: Matcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_DECIDED", 4)
    monkeypatch.setattr(bounds, "MOST_AT_ONCE", 8)
    monkeypatch.setattr(bounds, "compiling_beside", beside := threading.Event())
    beside.set()
    assert young.match_batch([EVENT] * 4) == young.match_batch([EVENT] * 4) == [["ann"]] * 4
    assert not needs_kernels(young)
    beside.clear()
    assert young.match(EVENT) == ["ann"]
    assert needs_kernels(young)
    assert young.match(EVENT) == ["ann"]


def test_a_request_that_would_take_longer_than_compiling_waits_for_it(
    young: Matcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_AT_ONCE", 6)
    monkeypatch.setattr(bounds, "compiling_beside", beside := threading.Event())
    beside.set()
    assert young.match_batch([EVENT] * 4) == [["ann"]] * 4
    assert needs_kernels(young)


def test_operators_are_asked_by_the_index_which_asks_each_once_for_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Event] = []

    @operator
    def odd(event: Event) -> bool:
        asked.append(event)
        return event.values["price"] == (7,)

    monkeypatch.setattr(module, "kernels_kept", lambda: False)
    monkeypatch.setattr(bounds, "MOST_YOUNG", 1_000)
    schema = Schema.infer([EVENT])
    matcher = Matcher(schema, operators=Registry([odd]))
    matcher.subscribe(1, "price < 1300")
    before = matcher.takes_long
    positions, ids = matcher.find_all([schema.admit(EVENT)], Inquiry())
    assert (positions.tolist(), ids.tolist()) == ([0], [1])
    assert not needs_kernels(matcher)
    for number in (2, 3):
        matcher.subscribe(number, "odd()")
    assert (before, matcher.takes_long) == (False, True)
    _, ids = matcher.find_all([schema.admit({"price": 7})], Inquiry())
    assert (sorted(ids.tolist()), len(asked)) == ([1, 2, 3], 1)
    assert needs_kernels(matcher)


WRITTEN = "brand in ('mini', 'cooper') and price < 1000 and not (title contains 'rusty')"


@pytest.mark.parametrize("by_lines", [False, True])
def test_an_explanation_says_the_same_by_the_definition_and_by_the_index(
    monkeypatch: pytest.MonkeyPatch, by_lines: bool
) -> None:
    monkeypatch.setattr(bounds, "MOST_YOUNG", 1_000)
    event = {**EVENT, "title": "old mini"}
    told = []
    for kept in (False, True):
        monkeypatch.setattr(module, "kernels_kept", lambda kept=kept: kept)
        matcher = Matcher(Schema.infer([event]))
        if by_lines:
            assert matcher.load([json.dumps({"id": "ann", "text": WRITTEN})]) == []
        else:
            matcher.subscribe("ann", WRITTEN)
        assert needs_kernels(matcher) == kept
        told.append(str(matcher.explain("ann", event)))
        _ = matcher.index
        told.append(str(matcher.explain("ann", event)))
        matcher.unsubscribe("ann")
        with pytest.raises(UnknownSubscription):
            matcher.explain("ann", event)
    assert len(set(told)) == 1, told
    assert "brand in ('mini', 'cooper')" in told[0]


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
    monkeypatch.setattr(bounds, "MOST_YOUNG", 2)
    young.subscribe("cid", "price > 1000")
    assert has_index(young)
    assert sorted(young.match(EVENT)) == ["ann", "cid"]


def test_tests_ask_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "kernels_kept", lambda: False)
    matcher = Matcher()
    matcher.subscribe("ann", "price < 1300")
    assert has_index(matcher)


def test_lifetimes_and_events_as_of_a_moment_are_the_indexs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "kernels_kept", lambda: False)
    monkeypatch.setattr(bounds, "MOST_YOUNG", 1_000)
    schema = Schema.infer([EVENT])
    timed, plain = Matcher(schema), Matcher(schema)
    timed.add(1, bind("price < 1300", schema), Lifetime(created=5))
    plain.add(1, bind("price < 1300", schema))
    assert timed.match(EVENT, seq=5) == []
    assert plain.match(EVENT, seq=6) == timed.match(EVENT, seq=6) == [1]
    assert has_index(timed)
    assert has_index(plain)
