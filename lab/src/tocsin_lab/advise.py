"""The advisor: a bounded trial of the engines on a user's own subscriptions and events, and what follows from it.

A sample is taken of both, every engine that supports the subscriptions gets it, its answers are compared with the
definition, and only then is it timed: matching one event, a batch, and changing subscriptions. What grows with the
number of subscriptions is told by a second, smaller sample. Each engine has a share of the time; one that is too slow
is stopped and says so. Compiling an engine's kernels, which happens once on a machine, is not held against it.

How sure the advice is, a race between the first two says (rounds.py): by the rule of verdicts.py the first is faster, or the two
cannot be told apart.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import log2
from random import Random

from tocsin.errors import NotSupported, TocsinError, TooLarge
from tocsin.language import BoundSubscription, evaluate
from tocsin.matching import Engine, SubscriptionId, engine_names, engine_of
from tocsin.schema import Event, Schema
from tocsin_lab.rounds import Bench, Scale
from tocsin_lab.timing import WrongAnswer
from tocsin_lab.verdicts import Sample, Verdict, decide

LARGEST_SAMPLE = 5_000
CHECKED = (200, 20)  # subscriptions and events compared with the definition
TO_COMPILE = (50, 2)  # subscriptions and events that make an engine compile what it needs
Held = tuple[SubscriptionId, BoundSubscription]


@dataclass(frozen=True)
class Trial:
    """What one engine did. Times in milliseconds: per event singly, per event in a batch, per change."""

    engine: str
    refused: int  # subscriptions of the sample that it does not support
    single_ms: float = 0.0
    batch_ms: float = 0.0
    change_ms: float = 0.0
    growth: float = 0.0  # how many times as long per event with four times the subscriptions
    problem: str = ""

    def expected_ms(self, subscriptions: int, sample: int) -> float:
        """Return the time per event in a batch, carried on to all subscriptions by the growth seen."""
        if subscriptions <= sample or self.growth <= 1:
            return self.batch_ms
        power = log2(self.growth) / 2  # growth is that of a factor of four
        return float(self.batch_ms * (subscriptions / sample) ** power)

    def cost_ms(self, subscriptions: int, sample: int, changes_per_event: float) -> float:
        """Return the time per event, changes included."""
        return self.expected_ms(subscriptions, sample) + changes_per_event * self.change_ms


@dataclass(frozen=True)
class Advice:
    """The trials, the engine to take, and why."""

    trials: list[Trial]
    recommended: str
    reasons: list[str]
    subscriptions: int
    sample: int
    confidence: Verdict = Verdict.UNDECIDED  # holds: the recommended engine is the faster of the first two


def advise(
    schema: Schema,
    subscriptions: Sequence[Held],
    events: Sequence[Event],
    *,
    budget_seconds: float = 60.0,
    engines: Sequence[str] | None = None,
    changes_per_event: float = 0.0,
) -> Advice:
    """Try the engines (None: all) on a sample; recommend the one with the least time per event, changes included."""
    engines = engine_names() if engines is None else engines
    if not subscriptions or not events:
        raise TocsinError("the advisor needs at least one subscription and one event")
    random = Random(1)
    size = min(len(subscriptions), LARGEST_SAMPLE)
    sample = random.sample(list(subscriptions), size)
    chosen = random.sample(list(events), min(len(events), 200))
    left, trials = budget_seconds, list[Trial]()
    for number, engine in enumerate(engines):  # what one leaves of its share, those after it have
        _compile(engine, schema, sample[: TO_COMPILE[0]], chosen[: TO_COMPILE[1]])
        started = time.perf_counter()
        trials.append(_try(engine, schema, sample, chosen, max(1.0, left / (len(engines) - number))))
        left -= time.perf_counter() - started
    advice = _advice(trials, len(subscriptions), size, changes_per_event)
    return _raced(advice, schema, sample, chosen, changes_per_event)


def _raced(
    advice: Advice, schema: Schema, sample: Sequence[Held], events: Sequence[Event], changes_per_event: float
) -> Advice:
    """Return the advice with how sure it is: the first two engines match the same events in turns."""
    able = [trial for trial in advice.trials if not trial.problem]
    if len(able) == 1:
        reason = f"{advice.recommended} is the only engine that could be tried to the end"
        return replace(advice, reasons=[*advice.reasons, reason], confidence=Verdict.HOLDS)
    first, second = sorted(
        able, key=lambda trial: trial.cost_ms(advice.subscriptions, advice.sample, changes_per_event)
    )[:2]
    matchers = {trial.engine: _filled(trial.engine, schema, sample, float("inf"))[0] for trial in (first, second)}
    bench = Bench(Scale.QUICK)
    raced = bench.race(
        {name: partial(matcher.match_batch, events) for name, matcher in matchers.items()}, clock=bench.wall
    )
    costs = []
    for trial in (first, second):  # as the trials were carried on to all subscriptions and changes, so is each round
        carried = trial.expected_ms(advice.subscriptions, advice.sample) / max(trial.batch_ms, 1e-9)
        changes = changes_per_event * trial.change_ms
        values = (value / len(events) * 1e3 * carried + changes for value in raced[trial.engine].values)
        costs.append(Sample(tuple(values)))
    confidence, reason = how_sure(first.engine, second.engine, *costs)
    return replace(advice, reasons=[*advice.reasons, reason], confidence=confidence)


def how_sure(first: str, second: str, cost: Sample, other: Sample) -> tuple[Verdict, str]:
    """Return whether the first engine costs less than the second by the rule of verdicts.py, and that in words."""
    ratio = cost.over(other)
    verdict = decide(ratio)
    told = {
        Verdict.HOLDS: f"sure: {first} is faster than {second}",
        Verdict.FAILS: f"not sure: in turns {second} was faster than {first}, unlike in the trials",
    }.get(verdict, f"not sure: {first} and {second} cannot be told apart")
    return verdict, f"{told} ({len(ratio.values)} rounds, ratio {ratio.interval})"


def _compile(engine: str, schema: Schema, sample: Sequence[Held], events: Sequence[Event]) -> None:
    """Let the engine do once, on little, all that is timed later."""
    matcher = engine_of(engine)(schema)
    for id, bound in sample:
        with suppress(NotSupported, TooLarge):  # counted when it is tried
            matcher.add(id, bound)
            matcher.match(events[0])
            matcher.remove(id)
            matcher.add(id, bound)
    matcher.match_batch(events)


def _try(engine: str, schema: Schema, sample: Sequence[Held], events: Sequence[Event], share: float) -> Trial:
    deadline = time.perf_counter() + share
    quarter, refused, _ = _filled(engine, schema, sample[: max(1, len(sample) // 4)], deadline)
    matcher, refused, late = _filled(engine, schema, sample, deadline)
    if late:
        return Trial(engine, refused, problem=f"loading took longer than {share:.0f} s")
    if refused:
        return Trial(engine, refused, problem=f"does not support {refused} of {len(sample)} subscriptions")
    _check(matcher, sample, events)
    single = _per_event(lambda part: [matcher.match(event) for event in part], events, deadline)
    batch = _per_event(matcher.match_batch, events, deadline)
    before = _per_event(quarter.match_batch, events, deadline)
    return Trial(engine, 0, single, batch, _change(matcher, sample, events[0], deadline), batch / before)


def _filled(engine: str, schema: Schema, sample: Sequence[Held], deadline: float) -> tuple[Engine, int, bool]:
    """Return the engine with the sample, how many it refused, and whether the time was over before the end."""
    matcher = engine_of(engine)(schema)
    refused = 0
    for id, bound in sample:
        try:
            matcher.add(id, bound)
        except (NotSupported, TooLarge):
            refused += 1
        if time.perf_counter() > deadline:
            return matcher, refused, True
    return matcher, refused, False


def _check(matcher: Engine, sample: Sequence[Held], events: Sequence[Event]) -> None:
    subscriptions, count = dict(sample[: CHECKED[0]]), CHECKED[1]
    for event in events[:count]:
        right = {id for id, bound in subscriptions.items() if evaluate(bound, event)}
        if set(matcher.match(event)) & subscriptions.keys() != right:
            raise WrongAnswer(f"{matcher.name} disagrees with the definition")


def _per_event(act: object, events: Sequence[Event], deadline: float) -> float:
    """Return milliseconds per event, the best of up to five passes over events, fewer where time is short."""
    assert callable(act)
    act(events[:2])  # compiles
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        act(events)
        best = min(best, (time.perf_counter() - started) / len(events) * 1e3)
        if time.perf_counter() > deadline:
            break
    return best


def _change(matcher: Engine, sample: Sequence[Held], event: Event, deadline: float) -> float:
    """Return milliseconds per change: one subscription out and in again, and what the next event has to wait for."""
    started, changes = time.perf_counter(), 0
    for id, bound in sample[:50]:
        matcher.remove(id)
        matcher.add(id, bound)
        matcher.match(event)
        changes += 2
        if time.perf_counter() > deadline:
            break
    return (time.perf_counter() - started) / changes * 1e3


def _advice(trials: list[Trial], subscriptions: int, sample: int, changes_per_event: float) -> Advice:
    able = [trial for trial in trials if not trial.problem]
    if not able:
        raise TocsinError("no engine supports these subscriptions within the time; give it more with --seconds")

    def cost(trial: Trial) -> float:
        return trial.cost_ms(subscriptions, sample, changes_per_event)

    best, *others = sorted(able, key=cost)
    reasons = [f"{best.engine} needs {best.batch_ms:.4f} ms per event in a batch, {best.single_ms:.4f} ms singly"]
    if others:
        second = others[0]
        reasons.append(f"the next, {second.engine}, needs {cost(second) / cost(best):.1f} times as long")
    if subscriptions > sample:
        reasons.append(
            f"tried with {sample:,} of {subscriptions:,} subscriptions; with four times as many it took "
            f"{best.growth:.1f} times as long, so about {best.expected_ms(subscriptions, sample):.4f} ms with all"
        )
    if changes_per_event:
        reasons.append(f"a change costs it {best.change_ms:.3f} ms, counted {changes_per_event:g} times per event")
    unable = [trial.engine for trial in trials if trial.problem]
    if unable:
        reasons.append(f"out of the question: {', '.join(unable)}")
    return Advice(trials, best.engine, reasons, subscriptions, sample)
