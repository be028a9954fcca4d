"""OfferScan against the definition: candidates whose rows leave nothing to check are what `decide` says, and no others."""

from __future__ import annotations

import random as stdlib_random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.offers.worlds import MARKET, Random, programs, random_offer, random_subscription
from tocsin.compile.bulk import load_bulk
from tocsin.compile.normalise import normalise
from tocsin.errors import EventRejected, LanguageError
from tocsin.index.layout import Section
from tocsin.index.subscription_index import Lifetime, SubscriptionIndex, Tier
from tocsin.language import BoundSubscription, bind
from tocsin.language.documents import read_lines
from tocsin.language.offer import Offer
from tocsin.language.semantics import Verdict, decide
from tocsin.offers import Analysis
from tocsin.offers.scan import OfferScan
from tocsin.offers.survivors import OfferCandidates

Answer = tuple[str | None, dict[str, Any]]  # why it failed (None: it matched), and the computed values


def random_market(random: Random, subscriptions: int) -> tuple[SubscriptionIndex, dict[int, BoundSubscription]]:
    """Return an index of several tiers, some of whose subscriptions left, and those that stayed."""
    index, living = SubscriptionIndex(MARKET), {}
    for id in range(subscriptions):
        try:
            bound = bind(random_subscription(random), MARKET)
            form = normalise(bound)
        except LanguageError:  # such as a literal that its domain does not take, or too many alternatives
            continue
        living[id] = bound
        index.add(id, form)
        if random.random() < 0.1:
            index.tiers()
        if random.random() < 0.1:
            gone = random.choice(list(living))
            index.remove(gone)
            del living[gone]
    return index, living


def random_offers(random: Random, count: int, analysis: Analysis) -> list[Offer]:
    found: list[Offer] = []
    while len(found) < count:
        try:
            found.append(analysis.analyse(random_offer(random)))
        except EventRejected:  # a formula that does not fit: another is drawn
            continue
    return found


def answers(tier: Tier, found: OfferCandidates) -> tuple[dict[tuple[int, Any], Answer], set[tuple[int, Any]]]:
    """Return what the candidates without checks say, by offer and id, and the pairs that have a row with checks."""
    checked = set(tier.segment.section(Section.CHECKED_ROW).tolist())
    ids = tier.segment.ids.tolist()
    told: dict[tuple[int, Any], Answer] = {}
    open_pairs: set[tuple[int, Any]] = set()
    for at, (offer, number, row) in enumerate(
        zip(found.offer.tolist(), found.number.tolist(), found.row.tolist(), strict=True)
    ):
        pair = offer, ids[number]
        if row in checked:
            open_pairs.add(pair)
            continue
        reason = found.reasons[found.failure[at] - 1] if found.failure[at] else None
        told[pair] = reason, {name: column.value(at) for name, column in found.computed.items()}
    return told, open_pairs


def wanted(verdict: Verdict) -> Answer | None:
    if verdict.matched:
        return None, {name: value for name, value in verdict.computed.items() if value is not None}
    return (verdict.failure, {}) if verdict.failure is not None else None


def shown(answer: Answer | None) -> Answer | None:
    """Return an answer as two are compared: what was computed counts for matches only."""
    if answer is None or answer[0] is not None:
        return answer and (answer[0], {})
    return None, {name: value for name, value in answer[1].items() if value is not None}


def can_never_hold(subscription: BoundSubscription, offer: Offer) -> bool:
    """Return whether no values whatever of what the offer computes would satisfy the condition, as the index knows it."""
    form = normalise(subscription)
    computed = {attribute.name for attribute in offer.computed}
    index = SubscriptionIndex(MARKET)
    index.add(0, form)
    bare = Offer(offer.values, (), offer.computed)
    (tier,) = index.tiers()
    del computed
    return len(OfferScan(tier, MARKET).find([bare])) == 0


def check_market(seed: int, subscriptions: int, offers: int, turns: int = 1) -> int:
    """Compare all pairs of a random market; return how many matched or failed."""
    random = stdlib_random.Random(seed)
    index, living = random_market(random, subscriptions)
    analysis = Analysis(MARKET, programs())
    asked = random_offers(random, offers, analysis)
    scans = [(tier, OfferScan(tier, MARKET)) for tier in index.tiers()]
    count = 0
    for _ in range(turns):
        told: dict[tuple[int, Any], Answer] = {}
        open_pairs: set[tuple[int, Any]] = set()
        for tier, scan in scans:
            mine, unsure = answers(tier, scan.find(asked))
            told |= mine
            open_pairs |= unsure
        for at, offer in enumerate(asked):
            for id, subscription in living.items():
                right, mine_answer = wanted(decide(subscription, offer)), told.pop((at, id), None)
                count += right is not None
                if shown(mine_answer) == right:
                    continue
                if (at, id) in open_pairs and mine_answer is None:
                    continue  # a check is still to be decided
                if mine_answer is None and right is not None and right[0] is not None:
                    # The index knows that the condition contradicts itself; the definition only that it fails.
                    assert can_never_hold(subscription, offer), (seed, subscription, offer)
                    continue
                raise AssertionError(
                    (seed, id, subscription.subscription, subscription.properties, offer, right, mine_answer)
                )
        assert not told, (seed, told)
    return count


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), small=st.sampled_from([0, 256]))
def test_candidates_are_what_the_definition_says(seed: int, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.index.subscription_index.SMALL", small)  # 0: every flush is a tier of its own
    check_market(seed, subscriptions=40, offers=6)


@pytest.mark.parametrize("seed", range(3))
def test_larger_markets_with_values_that_are_kept(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.offers.requests.FEWEST_KEPT", 1)
    assert check_market(seed, subscriptions=300, offers=12, turns=4) > 0


# --- single behaviours ------------------------------------------------------------------------------------------------


def market(*texts: str, lifetimes: dict[int, Lifetime] | None = None) -> Tier:
    """Return the tier of these subscriptions, whose ids are their positions."""
    index = SubscriptionIndex(MARKET)
    for id, text in enumerate(texts):
        index.add(id, normalise(bind(text, MARKET)), (lifetimes or {}).get(id, Lifetime()))
    (tier,) = index.tiers()
    return tier


def offer(document: dict[str, Any]) -> Offer:
    return Analysis(MARKET, programs()).analyse(document)


def test_only_subscriptions_that_are_live_for_the_offer_are_candidates() -> None:
    lifetimes = {1: Lifetime(created=10), 2: Lifetime(deleted=20), 3: Lifetime(lease_start=100, lease_end=200)}
    tier = market(*["offer with age = 3"] * 4, lifetimes=lifetimes)
    scan = OfferScan(tier, MARKET)
    asked = [offer({"event": {}, "rules": ["age = 3"]})] * 3

    def numbers(found: OfferCandidates) -> list[list[int]]:
        return [found.number[found.offer == at].tolist() for at in range(3)]

    seq, arrival = np.array([10, 11, 20]), np.array([99, 100, 200])
    assert numbers(scan.find(asked, seq, arrival)) == [[0, 2], [0, 1, 2, 3], [0, 1]]
    assert numbers(scan.find(asked)) == [[0, 1, 3]] * 3
    tier.bury(0)
    tier.bury(1, 15)
    assert numbers(scan.find(asked, seq)) == [[2, 3], [1, 2, 3], [3]]


def test_every_row_that_holds_is_a_candidate() -> None:
    tier = market("offer where price < 3 or count > 2 or title = 'a' with age = 3")
    found = OfferScan(tier, MARKET).find(
        [offer({"event": {"price": 1, "count": 5, "title": "b"}, "rules": ["age = 3"]})]
    )
    assert found.number.tolist() == [0, 0]
    assert len(set(found.row.tolist())) == 2


def test_a_refusal_wins_over_a_failure_wherever_it_comes_from() -> None:
    tier = market(
        "offer where price > 1 with age = 3, years = 0",
        "offer where price > 1 and count = 9 with age = 3, years = 0",  # the condition refuses
        "offer where price > 1 with age = 4, years = 0",  # a rule does
        "offer where price > 1 with age = 3, years = 1",
    )
    document = {"event": {"count": 1}, "rules": ["age + 0 = 3"], "dynamic": {"price": "age / years"}}
    found = OfferScan(tier, MARKET).find([offer(document)])
    assert found.number.tolist() == [0, 3]
    assert [found.reasons[at - 1] if at else None for at in found.failure.tolist()] == ["division by zero", None]


def test_the_first_failure_is_told_computed_attributes_before_rules() -> None:
    tier = market("offer with age = 7, years = 0")
    document = {
        "event": {},
        "rules": ["1 / years > 0", "program('risky', age) > 1"],
        "dynamic": {"price": "program('risky', age)"},
    }
    found = OfferScan(tier, MARKET).find([offer(document), offer({**document, "dynamic": {}})])
    reasons = [found.reasons[at - 1] for at in found.failure.tolist()]
    assert reasons == ["risky raised ValueError: seven", "division by zero"]


def test_a_rule_that_calls_an_operator_is_left_to_others_but_for_its_predicates() -> None:
    class Operators:
        def bind_call(self, call: Any, attributes: Any) -> Any:
            return call

        def variable_domains(self, call: Any) -> dict[str, Any]:
            return {}

        def solutions(self, call: Any, event: Any) -> list[Any]:
            raise AssertionError("not asked here")

    tier = market("offer with age = 3", "offer with age = 4", "offer")
    asked = Analysis(MARKET, operators=Operators()).analyse({"event": {}, "rules": ["fine() and age = 3", "fine()"]})
    assert OfferScan(tier, MARKET).find([asked]).number.tolist() == [0]


def test_threads_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.offers.scan._WORTH_A_THREAD", 0)
    tier = market(*[f"offer where price < {id % 50} with age = {id % 90}" for id in range(20_000)])
    asked = [offer({"event": {"price": at * 5}, "rules": [f"age between {at} and {at * 9}"]}) for at in range(8)]
    one, two = (OfferScan(tier, MARKET).find(asked, threads=threads) for threads in (1, 2))
    assert len(one)
    assert np.array_equal(one.offer, two.offer)
    assert np.array_equal(one.row, two.row)


def test_threads_may_share_a_scan() -> None:
    tier = market(*[f"offer where price < {id % 50} with age = {id % 90}, years = {id % 7}" for id in range(2_000)])
    analysis = Analysis(MARKET)
    asked = [
        analysis.analyse({"event": {"count": at}, "rules": [f"age > {at}"], "dynamic": {"price": f"years * {at % 3}"}})
        for at in range(40)
    ]
    alone = [OfferScan(tier, MARKET).find([one]) for one in asked]
    scan = OfferScan(tier, MARKET)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for one, found in zip(alone, pool.map(lambda each: scan.find([each]), asked), strict=True):
                assert sorted(one.row.tolist()) == sorted(found.row.tolist())


MANY_OFFERS: list[dict[str, Any]] = [
    {
        "event": {"kind": "w", "count": 20},
        "rules": ["age between 20 and 60", "budget >= 400.5"],
        "dynamic": {"price": "years * 4"},
    },
    {"event": {"kind": "x", "count": 5}, "rules": ["city = 'c'"], "dynamic": {"price": "years * 4"}},
    {"event": {"kind": "y"}, "rules": ["budget < 700"], "dynamic": {"price": "100 / (age - 40)"}},
    {"event": {"kind": "z", "count": 3}, "rules": ["years >= 1"], "dynamic": {"price": "years * 2 + count"}},
    {"event": {"kind": "z", "count": 3}, "rules": ["years >= 1"], "dynamic": {"price": "years * 3 + count"}},
    {"event": {"kind": "z", "count": 3, "price": 2.5}, "rules": ["city != 'b' or age > 80"]},
]


def many(size: int) -> list[bytes]:
    """Return subscriptions in the bulk form, some without a property or a bound."""
    random = stdlib_random.Random(7)
    lines = []
    for id in range(size):
        predicates = [["kind", "=", random.choice("xyzw")], ["count", "<=", random.randrange(50)]]
        predicates.append(["price", "<=", random.randrange(100)])
        given: dict[str, Any] = {"age": random.randrange(90), "years": random.randrange(1, 30)}
        given |= {"budget": random.random() * 1000, "city": random.choice("abcdefgh")}
        del given[random.choice(list(given))]
        chosen = random.sample(predicates, random.choice([2, 3]))
        lines.append(msgspec.json.encode({"id": id, "event_types": ["offer"], "predicates": chosen, "with": given}))
    return lines


@pytest.mark.parametrize("threads", [1, 2])
def test_many_blocks_full_buffers_and_what_is_kept(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.offers.scan._FIRST_ROWS", 8_192)
    monkeypatch.setattr("tocsin.offers.scan._ROW_SHARE", 10**9)
    monkeypatch.setattr("tocsin.offers.scan._WORTH_A_THREAD", 0)
    lines = many(17_000)
    loaded = load_bulk(lines, MARKET)
    assert not loaded.errors
    index = SubscriptionIndex(MARKET)
    index.add_table(loaded.table)
    for gone in range(0, 17_000, 40):
        index.remove(gone)
    (tier,) = index.tiers()
    scan = OfferScan(tier, MARKET)
    analysis = Analysis(MARKET)
    asked = [analysis.analyse(document) for document in MANY_OFFERS]
    looked_at = {id: bound for id, bound in read_lines(lines, MARKET) if id % 20 == 1}  # type: ignore[misc]
    verdicts = {(at, id): wanted(decide(bound, one)) for at, one in enumerate(asked) for id, bound in looked_at.items()}
    right = {pair: answer for pair, answer in verdicts.items() if answer is not None}
    for _ in range(6):  # the first ones compute, then what was computed is kept
        scan.find(asked * 8, threads=threads)
        found = scan.find(asked, threads=threads)
        told, _ = answers(tier, found)
        assert not any(id % 40 == 0 for _, id in told)
        assert {pair: shown(answer) for pair, answer in told.items() if pair[1] in looked_at} == right
        assert len(set(found.offer.tolist())) == len(asked)
    assert scan._index is not None
    assert any(known.kept for known in scan._index.computing._known)
    assert scan.find(asked).reasons == ["division by zero"]
