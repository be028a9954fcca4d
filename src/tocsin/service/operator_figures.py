"""Figures of operators for Prometheus: calls, time, failures and time-outs of each, as the broker's runner counts them."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from tocsin.operators.runner import Runner

_FIGURES = {
    "calls": "Evaluations of operators",
    "seconds": "Seconds that evaluations of operators took",
    "failures": "Evaluations of operators that failed, by raising or by taking too long",
    "timeouts": "Evaluations of operators that took too long",
}


class OperatorFigures(Collector):
    """Reads the runner's counts whenever it is asked."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def collect(self) -> Iterable[Metric]:
        counts = dict(self._runner.counts)
        for name, words in _FIGURES.items():
            family = CounterMetricFamily(f"tocsin_operator_{name}", words, labels=["operator"])
            for operator, each in counts.items():
                family.add_metric([operator], getattr(each, name))
            yield family
