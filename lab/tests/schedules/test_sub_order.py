"""The cost model of Sub-Order against exhaustive expectation, and its order against the definition of the greedy one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given

from tests.operators.schedules.problems import Case, cases, workload_of
from tocsin.operators.problem import PredicateStatistics, Workload
from tocsin_lab.evaluation.workloads import PaperWorkload, Setting
from tocsin_lab.schedules import chain_order
from tocsin_lab.schedules.chain_order import order_chains
from tocsin_lab.schedules.linked_chains import Chains, difference_of


def expected_cost(chains: Chains, order: list[int], predicates: int) -> float:
    """Return what walking the chains in this order costs, over all truths."""
    total = 0.0
    probability, cost = chains.hold[::2], chains.cost[::2]
    for truth in itertools.product([False, True], repeat=predicates):
        known: set[int] = set()
        for chain in order:
            part = slice(chains.starts[chain], chains.starts[chain + 1])
            members = list(zip(chains.members[part].tolist(), chains.negated[part].tolist(), strict=True))
            if any(k in known and truth[k] == negated for k, negated in members):
                continue
            for k, negated in members:
                known.add(k)
                if truth[k] == negated:
                    break
        chance = np.prod([p if true else 1.0 - p for p, true in zip(probability, truth, strict=True)])
        total += float(chance * sum(cost[k] for k in known))
    return total


def difference(chains: Chains, first: int, second: int) -> float:
    return difference_of(chains.starts, chains.literals, chains.rank, chains.hold, chains.cost, first, second)


@given(case=cases(most_predicates=6, signs=False))
def test_the_cost_difference_of_two_chains_is_the_expected_one(case: Case) -> None:
    workload = case.problem.workload
    assume(workload.conjunctions >= 2)
    chains = Chains.of(workload, case.problem.statistics)
    exact = expected_cost(chains, [0, 1], workload.predicates) - expected_cost(chains, [1, 0], workload.predicates)
    assert difference(chains, 0, 1) == pytest.approx(exact, abs=1e-9)
    assert difference(chains, 1, 0) == pytest.approx(-exact, abs=1e-9)


def known(workload: Workload, probability: list[float]) -> PredicateStatistics:
    statistics = PredicateStatistics.of(np.ones(workload.predicates))
    statistics.evaluations += 1_000_000
    statistics.trues += np.rint(np.array(probability) * 1e6).astype(np.int64)
    statistics.seconds += 1e6
    return statistics


def test_the_paper_s_formula_for_one_link() -> None:
    workload = workload_of([[0, 1, 2], [3, 2]], 4)  # chains 0 1 2 and 3 2, linked at 2
    chains = Chains.of(workload, known(workload, [0.1, 0.2, 0.5, 0.3]))
    likely_1, cost_1, likely_2, cost_2 = 0.1 * 0.2, 1 + 0.1, 0.3, 1.0
    paper = (1 - 0.5) * (likely_2 * cost_1 - likely_1 * cost_2)
    assert difference(chains, 0, 1) == pytest.approx(paper, rel=1e-4)
    assert order_chains(chains).tolist() == [1, 0]


def test_a_chain_starts_with_what_fails_most_per_cost() -> None:
    workload = workload_of([[0, 1, 2]], 3)
    statistics = known(workload, [0.5, 0.4, 0.9])
    statistics.seconds[1] *= 3.0
    assert Chains.of(workload, statistics).members.tolist() == [0, 1, 2]


def test_popular_predicates_are_ordered_without_all_of_their_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    made = PaperWorkload.of(Setting(subscriptions=3_000, predicates=1_500, zipf=1.0))
    chains = Chains.of(made.workload, made.statistics(1.0, known=True))
    order = order_chains(chains)
    assert sorted(order.tolist()) == list(range(3_000))
    pairs = int((made.workload.popularity * (made.workload.popularity - 1) // 2).sum())
    found: list[int] = []
    linked = chain_order._linked_pairs

    def counted(*given: Any) -> Any:
        found.append(given[-1])
        return linked(*given)

    monkeypatch.setattr(chain_order, "_linked_pairs", counted)
    order_chains(chains)
    assert found[0] < pairs / 5
    assert found[0] <= len(made.workload.members) * chain_order.SMALL


def test_the_order_of_chains_takes_the_greatest_savings_first() -> None:
    made = PaperWorkload.of(Setting(subscriptions=40, predicates=20))
    chains = Chains.of(made.workload, made.statistics(1.0, known=True))
    pairs = [(difference(chains, one, two), one, two) for one, two in itertools.permutations(range(40), 2)]
    following: dict[int, int] = {}
    preceding: dict[int, int] = {}
    for saving, one, two in sorted(pairs):
        end = two
        while end in following:
            end = following[end]
        if saving < -chain_order.NEGLIGIBLE and one not in following and two not in preceding and end != one:
            following[one], preceding[two] = two, one
    order = order_chains(chains).tolist()
    consecutive = set(itertools.pairwise(order))
    assert set(following.items()) <= consecutive
