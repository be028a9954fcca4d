"""What a normal form tells about its subscription: that it never holds, or always, and how its conjunctions read."""

from __future__ import annotations

from tocsin.compile.atoms import Among, Atom, Bound, Conjunction, Decided, Interval
from tocsin.compile.normalise import NormalForm
from tocsin.errors import Meaningless, shown
from tocsin.language.render import render
from tocsin.language.syntax import Not, Or

NEVER = "it can never hold: no event satisfies it"
ALWAYS = "it always holds: every event of its types satisfies it"


def warnings_of(form: NormalForm) -> list[str]:
    """Return what the author of the subscription should know."""
    if form.never:
        return [NEVER]
    return [ALWAYS] if form.always else []


def refuse_meaningless(form: NormalForm, *, never: bool = True, always: bool = False) -> None:
    """Raise Meaningless for a subscription that can never hold, or always holds, as the caller chooses."""
    if never and form.never:
        raise Meaningless(NEVER)
    if always and form.always:
        raise Meaningless(ALWAYS)


def conjunction_text(conjunction: Conjunction) -> str:
    """Return the conjunction for people to read: 'price < 1300 and brand in {6}'.

    Keys stand where values were: an enumerated value is its position, a category its preorder number.
    """
    return " and ".join(map(_atom_text, conjunction))


def _atom_text(atom: Atom) -> str:
    match atom:
        case Bound(attribute, negated):
            return f"{attribute} is {'absent' if negated else 'present'}"
        case Among(attribute, derivation, intervals, negated):
            name = attribute if derivation == "value" else f"{derivation}({attribute})"
            return f"{name} {'outside' if negated else 'in'} {' | '.join(map(_interval_text, intervals))}"
        case Decided(node):
            return f"({render(node)})" if isinstance(node, Or) else render(node)
        case _:
            return f"check: {render(Not(atom.predicate) if atom.negated else atom.predicate)}"


def _interval_text(interval: Interval) -> str:
    if interval.is_point():
        return f"{{{shown(interval.low)}}}"
    low = "-∞" if interval.low is None else shown(interval.low)
    high = "∞" if interval.high is None else shown(interval.high)
    left = "(" if interval.low_open or interval.low is None else "["
    right = ")" if interval.high_open or interval.high is None else "]"
    return f"{left}{low}, {high}{right}"
