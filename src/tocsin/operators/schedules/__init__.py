"""Schedules: orders to evaluate operator predicates in, behind the interface of operators/problem.py.

baseline        naive.py (with chain_walk.py)
Liu et al.      sequential.py; sub_order.py (linked_chains.py, chain_order.py)
our own         adaptive.py (adaptive_kernels.py, priority_heap.py, beliefs.py)
shared          answers.py (one event's answers and the loop), overlap.py (who uses which predicate)

docs/operators-evaluation.md compares them.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.operators.problem import Schedule
from tocsin.operators.schedules.adaptive import Adaptive
from tocsin.operators.schedules.naive import Naive
from tocsin.operators.schedules.sequential import Sequential
from tocsin.operators.schedules.sub_order import SubOrder

SCHEDULES: dict[str, Callable[[], Schedule]] = {
    "naive": Naive,
    "sequential": Sequential,
    "sub-order": SubOrder,
    "adaptive": Adaptive,
}

__all__ = ["SCHEDULES", "Adaptive", "Naive", "Sequential", "SubOrder"]
