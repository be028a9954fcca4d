"""match_all: the answers of the definition, and all that `match` gives offer by offer, while subscribers come and go."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.symmetric.worlds import MARKET, Random, programs, random_offer, random_subscription
from tocsin.errors import EventRejected
from tocsin.schema import Value
from tocsin.symmetric import Matched, Matchmaker, Subscriber, batch, computing, decide, load_subscribers
from tocsin.symmetric import plan as planner
from tocsin.symmetric import roster as rosters
from tocsin.symmetric.stages import Stages

PLAIN_RULES = [
    "years >= 2",
    "city = 'a'",
    "age < 40",
    "age between 0 and 3 and years < 9",
    "budget > 1.5",
    "city = 'q'",
]


def told(found: Matched) -> tuple[list[Any], list[Any], str]:
    """Return all that an answer says."""
    return (
        [(match.id, dict(match.values)) for match in found.notifications()],
        [(failure.id, failure.reason) for failure in found.failures],
        found.plan.why,
    )


def check_defined(matchmaker: Matchmaker, held: dict[int, Subscriber], document: Any, found: Matched) -> None:
    """Compare an answer with the definition, pair by pair."""
    offer = matchmaker.analyse(document)
    matches: dict[Any, dict[str, Value | None]] = {}
    failures: dict[Any, str] = {}
    for id, subscriber in held.items():
        verdict = decide(offer, subscriber, matchmaker.meeting)
        if verdict.matched:
            matches[id] = dict(verdict.values)
        elif verdict.failure is not None:
            failures[id] = verdict.failure
    assert {match.id: dict(match.values) for match in found.notifications()} == matches
    assert {failure.id: failure.reason for failure in found.failures} == failures
    assert len(found) == len(matches)


def offers(random: Random, count: int) -> list[dict[str, Any]]:
    """Return offers, most of which have a rule that bitmaps know; some several times."""
    listed = [random_offer(random) for _ in range(count)]
    for document in listed:
        if random.random() < 0.7:
            document["rules"].append(random.choice(PLAIN_RULES))
        if random.random() < 0.4:
            document["rules"] = [random.choice(PLAIN_RULES)]
    return listed + random.sample(listed, 2)


@settings(max_examples=12)
@given(st.randoms(use_true_random=False), st.booleans(), st.booleans())
def test_batches_give_what_one_by_one_gives_and_what_the_definition_says(
    random: Random, keep: bool, analysed: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "ENGINE_ROWS", random.choice([0, 10**9]))
        patch.setattr(planner, "ORDER_ROWS", random.choice([0, 10**9]))
        patch.setattr(computing, "FEWEST_KEPT", 1 if keep else 10**9)
        patch.setattr(rosters, "FEWEST_DEAD", 5)
        patch.setattr(rosters, "FEWEST_CLUSTERED", 10)
        together, alone = (Matchmaker(MARKET, programs=programs()) for _ in range(2))
        held: dict[int, Subscriber] = {}
        for id in range(40):
            text = (
                random_subscription(random) if random.random() < 0.6 else f"offer with age = {id % 9}, years = {id % 5}"
            )
            for one in (together, alone):
                one.subscribe(id, text)
            held[id] = together.bind_subscriber(id, text)
            if random.random() < 0.3:
                gone = random.choice(list(held))
                together.unsubscribe(gone)
                alone.unsubscribe(gone)
                del held[gone]
            if id % 13 == 12:
                documents = offers(random, 4)
                given_offers = [together.analyse(one) for one in documents] if analysed else documents
                found = together.match_all(given_offers)
                assert [told(one) for one in found] == [told(alone.match(one)) for one in documents]
                for document, answer in zip(documents, found, strict=True):
                    check_defined(together, held, document, answer)
        if not keep:  # what is kept is kept after a batch, so that a batch computes more
            assert asdict(together.work) == asdict(alone.work)


def many(size: int) -> list[bytes]:
    """Return subscribers in the bulk form, some without a property or a bound."""
    random = Random(7)
    lines = []
    for id in range(size):
        predicates = [["kind", "=", random.choice("xyzw")], ["count", "<=", random.randrange(50)]]
        predicates.append(["price", "<=", random.randrange(100)])
        properties: dict[str, Any] = {
            "age": random.randrange(90),
            "years": random.randrange(1, 30),
            "budget": random.random() * 1000,
        }
        properties["city"] = random.choice("abcdefgh")
        del properties[random.choice(list(properties))]
        document = {"id": id, "predicates": random.sample(predicates, random.choice([2, 3])), "properties": properties}
        lines.append(msgspec.json.encode(document))
    return lines


MANY_OFFERS: list[dict[str, Any]] = [
    {
        "event": {"kind": "w", "count": 20},
        "rules": ["age between 20 and 60", "budget >= 400.5"],
        "dynamic": {"price": "years * 4"},
    },
    {"event": {"kind": "x", "count": 5}, "rules": ["city = 'c'"], "dynamic": {"price": "years * 4"}},
    {"event": {"kind": "y"}, "rules": ["budget < 700"], "dynamic": {"price": "100 / (age - 40)"}},
    {"event": {"kind": "z", "count": 3}, "rules": ["years >= 1"], "dynamic": {"price": "years * 2 + count"}},
]


@pytest.mark.parametrize(("threads", "clustered"), [(1, True), (2, True), (2, False)])
def test_blocks_threads_and_full_buffers(threads: int, clustered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rosters, "FEWEST_CLUSTERED", 1_000 if clustered else 10**9)
    monkeypatch.setattr(batch, "_FIRST_ROWS", 8_192)
    monkeypatch.setattr(batch, "_ROW_SHARE", 10**9)
    monkeypatch.setattr(batch, "_WORTH_A_THREAD", 0)
    matchmaker = Matchmaker(MARKET)
    assert not load_subscribers(matchmaker, many(17_000))
    for id in range(0, 17_000, 40):
        matchmaker.unsubscribe(id)
    asked = [one for _ in range(8) for one in MANY_OFFERS]
    plain = Matchmaker(MARKET, rule_indexes=False)
    plain.roster = matchmaker.roster
    plain.batches = batch.Batches(Stages(plain.meeting, plain.roster, rule_indexes=False))
    wanted = [plain.match(one) for one in asked]
    found: list[Matched] = []
    for turn in range(3):  # the first ones compute, then what was computed is kept
        found = matchmaker.match_all(asked, threads=threads)
        for one, other in zip(found, wanted, strict=True):
            assert one.plan.by_bitmaps
            assert sorted(told(one)[0]) == sorted(told(other)[0])
            assert sorted(told(one)[1]) == sorted(told(other)[1])
        assert len(found[2].failures) > 0
        assert all(len(one) > 100 for one in found), turn
    assert matchmaker.work.kept_rows > 0
    assert matchmaker.roster.rebuilds == clustered
    held = {one.id: one for one in matchmaker.roster if int(one.id) % 20 == 1}
    for document, one in zip(MANY_OFFERS, found, strict=False):
        verdicts = {id: decide(matchmaker.analyse(document), who, matchmaker.meeting) for id, who in held.items()}
        assert {id for id, verdict in verdicts.items() if verdict.matched} == set(one.ids) & held.keys()


def test_kept_values_follow_new_subscribers_and_new_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computing, "FEWEST_KEPT", 4)
    matchmaker = Matchmaker(MARKET, programs=programs())
    held = {}
    document = {"event": {}, "rules": ["age >= 0"], "dynamic": {"price": "program('tariff', age, years)"}}

    def add(ids: range) -> None:
        for id in ids:
            text = f"offer where price <= {id} with age = {id}, years = {id % 3}"
            matchmaker.subscribe(id, text)
            held[id] = matchmaker.bind_subscriber(id, text)

    add(range(100))
    for _ in range(3):
        check_defined(matchmaker, held, document, matchmaker.match_all([document])[0])
    assert matchmaker.work.kept_rows > 0
    add(range(100, 140))
    check_defined(matchmaker, held, document, matchmaker.match_all([document])[0])
    matchmaker.programs.register(programs(version=2)["tariff"])
    check_defined(matchmaker, held, document, matchmaker.match_all([document])[0])


def test_a_bad_offer_is_refused_before_any_is_matched() -> None:
    matchmaker = Matchmaker(MARKET)
    matchmaker.subscribe(1, "offer with age = 3")
    with pytest.raises(EventRejected, match="rule 1"):
        matchmaker.match_all([{"event": {}}, {"event": {}, "rules": ["aeg > 3"]}])
    assert matchmaker.work.offers == 0
    assert matchmaker.match_all([]) == []
