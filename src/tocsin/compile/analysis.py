"""What a normal form tells about its subscription: that it never holds, or always, and how its conjunctions read.

Covering: whether one subscription matches everything that another does, told from their normal forms.

The answer yes is always right; no may also mean that it was not found out. A conjunction implies another if each atom
of the other follows from one of its own; a subscription is covered if each of its conjunctions implies one of the
wider one's. Those who say different things of themselves are not compared: an offer may tell them apart. (Covering in general is as hard as satisfiability; this is linear in the atoms, and finds what people write.)
"""

from __future__ import annotations

from collections.abc import Collection

from tocsin.compile.atoms import Among, Atom, Bound, Conjunction, Decided, Interval, intersection
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
    if form.scattered:
        names, array = " and ".join(form.scattered), form.scattered[0].rpartition(".")[0]
        warning = f"{names} may be of different objects of an array: each asks about any of the values of its own"
        return [f"{warning}. For one object, write: some {array} (…)"]
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


# Covering.


def covers(wide: NormalForm, narrow: NormalForm, multiple: Collection[str]) -> bool:
    """Return whether every event that satisfies `narrow` certainly satisfies `wide`.

    Both are normal forms under one schema; `multiple` are its attributes that may have several values. What can never
    hold is covered by everything.
    """
    return wide.properties == narrow.properties and all(
        any(_implies(conjunction, other, multiple) for other in wide.conjunctions)
        for conjunction in narrow.conjunctions
    )


def _implies(narrow: Conjunction, wide: Conjunction, multiple: Collection[str]) -> bool:
    return all(any(_follows(atom, given, multiple) for given in narrow) for atom in wide)


def _follows(atom: Atom, given: Atom, multiple: Collection[str]) -> bool:
    """Return whether an atom holds wherever a given one does."""
    if atom == given:
        return True
    if isinstance(atom, Decided) or isinstance(given, Decided) or atom.attribute != given.attribute:
        return False
    if isinstance(atom, Bound):  # whatever asks for a value, or excludes some, needs one
        return not atom.negated and not (isinstance(given, Bound) and given.negated)
    if not (isinstance(atom, Among) and isinstance(given, Among)) or atom.derivation != given.derivation:
        return False
    if not atom.negated:
        return not given.negated and _within(given.intervals, atom.intervals)
    if given.negated:
        return _within(atom.intervals, given.intervals)
    # The one value there is lies in `given`; words are many even of one value.
    is_single = atom.attribute not in multiple and atom.derivation not in ("words", "patterns")
    return is_single and not intersection(atom.intervals, given.intervals)


def _within(inner: tuple[Interval, ...], outer: tuple[Interval, ...]) -> bool:
    return intersection(inner, outer) == inner
