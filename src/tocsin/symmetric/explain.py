"""Why an offer and a subscriber match, or which side refuses: condition by condition, with the computed values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from tocsin.errors import FormulaFailed
from tocsin.language.render import render
from tocsin.symmetric.meeting import Meeting
from tocsin.symmetric.offer import Offer
from tocsin.symmetric.semantics import Verdict, decide, holds_or_fails
from tocsin.symmetric.subscriber import Subscriber


@dataclass(frozen=True, slots=True)
class Outcome:
    """One condition of one side, and what came of it: "held", "refused", or "failed" with its reason."""

    side: str  # "subscriber" or "offer"
    condition: str
    result: str
    reason: str | None = None

    def __str__(self) -> str:
        mark = {"held": "✓", "refused": "✗", "failed": "!"}[self.result]
        because = "" if self.reason is None else f"   ({self.reason})"
        return f"{mark} {self.condition}{because}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The verdict on a pair, with the outcome of each condition of both sides."""

    verdict: Verdict
    outcomes: tuple[Outcome, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the explanation as JSON has it."""
        return {
            "matched": self.verdict.matched,
            "refused_by": list(self.verdict.refused_by),
            "failure": self.verdict.failure,
            "values": {name: plain(value) for name, value in self.verdict.values.items()},
            "outcomes": [
                {"side": one.side, "condition": one.condition, "result": one.result, "reason": one.reason}
                for one in self.outcomes
            ],
        }

    def __str__(self) -> str:
        lines = [_headline(self.verdict)]
        lines += [f"computed: {name} = {'absent' if v is None else v}" for name, v in self.verdict.values.items()]
        for side in ("subscriber", "offer"):
            own = [outcome for outcome in self.outcomes if outcome.side == side]
            lines.append(f"the {side} asks:" if own else f"the {side} asks for nothing")
            lines += [f"  {outcome}" for outcome in own]
        return "\n".join(lines)


def _headline(verdict: Verdict) -> str:
    if verdict.matched:
        return "matches"
    if verdict.failure is not None:
        return f"does not match: {verdict.failure}"
    return f"does not match: refused by the {' and the '.join(verdict.refused_by)}"


def explain(offer: Offer, subscriber: Subscriber, meeting: Meeting) -> Explanation:
    """Return the verdict on a pair, and why."""
    row: dict[str, Any] = {**offer.row(meeting), **subscriber.properties}
    failed: dict[str, FormulaFailed] = {}
    values: dict[str, Any] = {}
    for attribute in offer.dynamic:
        try:
            values[attribute.name] = attribute.value(row)
        except FormulaFailed as error:
            failed[attribute.name] = error
    row.update(values)
    outcomes = []
    for side, conditions in (("subscriber", subscriber.parts), ("offer", offer.rules)):
        for condition in conditions:
            text = render(condition.source)
            try:
                held = holds_or_fails(condition.root, row, failed)
                outcomes.append(Outcome(side, text, "held" if held else "refused"))
            except FormulaFailed as error:
                outcomes.append(Outcome(side, text, "failed", error.reason))
    return Explanation(decide(offer, subscriber, meeting), tuple(outcomes))


def plain(value: Any) -> object:
    """Return a value as JSON has it."""
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
