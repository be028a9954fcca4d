"""The schedules of Liu et al., and all that there are, to be compared.

    sequential.py   Algorithm 1
    sub_order.py    the heuristic, on linked_chains.py (the cost model) and chain_order.py (the greedy order)

The product's own, and what these share with them, are in tocsin.operators.schedules.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.operators.problem import Schedule
from tocsin.operators.schedules import Adaptive, Naive
from tocsin_lab.schedules.sequential import Sequential
from tocsin_lab.schedules.sub_order import SubOrder

SCHEDULES: dict[str, Callable[[], Schedule]] = {
    "naive": Naive,
    "sequential": Sequential,
    "sub-order": SubOrder,
    "adaptive": Adaptive,
}

__all__ = ["SCHEDULES", "Adaptive", "Naive", "Sequential", "SubOrder"]
