"""The definition of symmetric matching: whether an offer and a subscriber match, and what was computed.

Everything in this package that is faster is tested against it.

  - The row of a pair: the offer's static attributes by their names, the subscriber's properties by theirs
    (`driver.age`), and each dynamic attribute with the value that its formula has for this subscriber; absent, where the
    formula is.
  - The pair matches when all parts of the subscription's condition and all rules of the offer hold for the row, and
    every dynamic attribute could be computed.
  - A part or rule that is plainly false refuses the pair: the subscriber's side or the offer's. What a part does not
    depend on cannot keep it from being false.
  - A pair that nothing refuses, but that something fails (a program raised, a division by zero, a computed value that
    is not in its attribute's domain), does not match and is a failure, with the first reason in this order: dynamic
    attributes, parts, rules. So which pairs fail does not depend on the order in which an engine looks at things.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tocsin.errors import FormulaFailed
from tocsin.language.formula import (
    Answered,
    Choice,
    Compared,
    Computed,
    ConditionFormula,
    Every,
    Invoked,
    Negated,
    Opposite,
    Reference,
    Satisfies,
    Some,
    Term,
    Test,
)
from tocsin.language.formula_semantics import is_true
from tocsin.schema import Value
from tocsin.symmetric.meeting import Meeting
from tocsin.symmetric.offer import Offer
from tocsin.symmetric.subscriber import Subscriber


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a pair. `refused_by` names the sides that refuse; `values` are the dynamic attributes' values.

    A value is None where the attribute is absent. `failure` is set only where nobody refuses.
    """

    matched: bool
    refused_by: tuple[str, ...]  # of "subscriber", "offer"
    failure: str | None
    values: Mapping[str, Value | None]


def decide(offer: Offer, subscriber: Subscriber, meeting: Meeting) -> Verdict:
    """Return whether the two match, and what was computed for the pair."""
    row: dict[str, Any] = {**offer.row(meeting), **subscriber.properties}
    values: dict[str, Value | None] = {}
    failed: dict[str, FormulaFailed] = {}
    for attribute in offer.dynamic:
        try:
            values[attribute.name] = attribute.value(row)
        except FormulaFailed as error:
            failed[attribute.name] = error
    row.update(values)
    failures = list(failed.values())
    refusing: list[str] = []
    for side, conditions in (("subscriber", subscriber.parts), ("offer", offer.rules)):
        for condition in conditions:
            try:
                held = holds_or_fails(condition.root, row, failed)
            except FormulaFailed as error:
                failures.append(error)
            else:
                if not held and side not in refusing:
                    refusing.append(side)
    failure = failures[0].reason if failures and not refusing else None
    return Verdict(not refusing and failure is None, tuple(refusing), failure, values)


def holds_or_fails(
    test: Test, row: Mapping[str, Any], failed: Mapping[str, FormulaFailed], *, negated: bool = False
) -> bool:
    """Return whether a condition holds for a row in which some dynamic attributes failed.

    What asks about a failed attribute fails as that did; the rest is as in language/formula_semantics.py.
    """
    match test:
        case Every(parts) | Some(parts):
            conjunction = isinstance(test, Every) != negated
            failure: FormulaFailed | None = None
            for part in parts:
                try:
                    if holds_or_fails(part, row, failed, negated=negated) != conjunction:
                        return not conjunction
                except FormulaFailed as error:
                    failure = failure or error
            if failure is not None:
                raise failure
            return conjunction
        case Opposite(part):
            return holds_or_fails(part, row, failed, negated=not negated)
        case _:
            for name in names_of(test):
                if name in failed:
                    raise failed[name]
            return is_true(test, row, negated=negated)


def names_of(test: Test | Term) -> tuple[str, ...]:
    """Return the names that a test or term refers to, in the order of their mention."""
    match test:
        case Satisfies(name) | Reference(name):
            return (name,)
        case Compared(left, _, right) | Computed(_, left, right):
            return names_of(left) + names_of(right)
        case Every(parts) | Some(parts):
            return tuple(name for part in parts for name in names_of(part))
        case Opposite(part):
            return names_of(part)
        case Negated(part):
            return names_of(part)
        case Answered(_, arguments) | Invoked(_, arguments):
            return tuple(name for argument in arguments for name in names_of(argument))
        case Choice(branches, otherwise):
            inner = [part for branch in branches for part in branch] + ([] if otherwise is None else [otherwise])
            return tuple(name for part in inner for name in names_of(part))
        case _:
            return ()


def refers_to(condition: ConditionFormula, names: frozenset[str]) -> bool:
    return not names.isdisjoint(condition.names)
