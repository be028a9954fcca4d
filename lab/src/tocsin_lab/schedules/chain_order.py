"""The order of chains: greedy, by the pairwise cost differences (Liu et al., section 4.2.5, after Kruskal).

The paper's graph is complete; a pair without a link has weight 0, so only linked pairs are made. A predicate that m
chains share links m (m - 1) / 2 pairs. Up to SMALL chains all pairs are made. In a larger group a single link orders the
chains by P / C, and the greedy choice takes the first with the last, the second with the last but one: each chain is
paired with the WINDOW chains around its opposite. So there are at most O(M * (SMALL + WINDOW)) pairs for M members in
all, where all pairs would be O(sum of m²): 670 million for 80,000 subscriptions with Zipf popularity.

Edges are taken by falling savings, as long as each chain keeps at most one before and one after it, and no circle
closes. The paths that come out are walked one after the other: between them the weights are 0.
"""

from __future__ import annotations

import numpy as np

from tocsin.index.jit import helper, kernel
from tocsin.operators.problem import Float64s, Int32s, Int64s
from tocsin_lab.schedules.linked_chains import Chains, cost_difference, reach

SMALL = 48
WINDOW = 8
NEGLIGIBLE = 1e-12


def order_chains(chains: Chains) -> Int32s:
    """Return the conjunctions in the order to walk them in."""
    literals = chains.literals
    likely, spent = reach(chains.starts, literals, chains.hold, chains.cost)
    by_literal = np.argsort(literals, kind="stable").astype(np.int64)
    chain_of = np.repeat(np.arange(len(chains.starts) - 1, dtype=np.int32), np.diff(chains.starts))
    groups = np.zeros(len(chains.rank) + 1, np.int64)
    groups[1:] = np.cumsum(np.bincount(literals, minlength=len(chains.rank)))
    sizes = np.diff(groups)
    room = int(np.where(sizes <= SMALL, sizes * (sizes - 1) // 2, sizes * (2 * WINDOW + 1)).sum())
    before, after, savings = _linked_pairs(
        groups,
        by_literal,
        chain_of,
        likely,
        spent,
        chains.starts,
        literals,
        chains.rank,
        chains.hold,
        chains.cost,
        room,
    )
    greatest_first = np.argsort(-savings, kind="stable")
    return _greedy_paths(before[greatest_first], after[greatest_first], len(chains.starts) - 1)


@kernel
def _linked_pairs(
    groups: Int64s,
    by_literal: Int64s,
    chain_of: Int32s,
    likely: Float64s,
    spent: Float64s,
    starts: Int64s,
    literals: Int32s,
    rank: Int32s,
    hold: Float64s,
    cost: Float64s,
    room: int,
) -> tuple[Int32s, Int32s, Float64s]:
    """Return edges (walk this, before that, which saves so much)."""
    before, after, savings = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.float64)
    size = 0
    for literal in range(len(groups) - 1):
        places = by_literal[groups[literal] : groups[literal + 1]]
        count = len(places)
        large = count > SMALL
        if large:  # by falling P / C; a chain that starts with the link has C = 0 and comes first
            places = places[np.argsort(spent[places] / likely[places], kind="mergesort")]
        for one in range(count):
            low, high = one + 1, count
            if large:
                low, high = max(low, count - 1 - one - WINDOW), min(high, count - one + WINDOW)
            for two in range(low, high):
                first, second = chain_of[places[one]], chain_of[places[two]]
                difference, link = cost_difference(first, second, starts, literals, rank, hold, cost)
                # Pairs with several links are made once, at the first; a large group may have left them out.
                if link != literal and groups[link + 1] - groups[link] <= SMALL:
                    continue
                if difference > 0.0:
                    first, second = second, first
                if abs(difference) > NEGLIGIBLE:
                    before[size], after[size], savings[size] = first, second, abs(difference)
                    size += 1
    return before[:size], after[:size], savings[:size]


@helper
def _root(parent: Int32s, chain: int) -> int:
    """Return the representative of the chain's path (union-find, halving the way)."""
    while parent[chain] != chain:
        parent[chain] = parent[parent[chain]]
        chain = parent[chain]
    return chain


@kernel
def _greedy_paths(before: Int32s, after: Int32s, chains: int) -> Int32s:
    """Return all chains along the paths that the edges make, taken in this order; paths by their first chain."""
    following, has_before = np.full(chains, -1, np.int32), np.zeros(chains, np.bool_)
    parent = np.arange(chains).astype(np.int32)
    for edge in range(len(before)):
        one, two = before[edge], after[edge]
        if following[one] < 0 and not has_before[two]:
            root_1, root_2 = _root(parent, one), _root(parent, two)
            if root_1 != root_2:
                following[one], has_before[two] = two, True
                parent[root_1] = root_2
    order, size = np.empty(chains, np.int32), 0
    for chain in range(chains):
        if not has_before[chain]:
            at = chain
            while at >= 0:
                order[size] = at
                size += 1
                at = following[at]
    return order
