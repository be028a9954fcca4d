"""Covering: whether one subscription matches everything that another does, told from their normal forms.

The answer yes is always right; no may also mean that it was not found out. A conjunction implies another if each atom
of the other follows from one of its own; a subscription is covered if each of its conjunctions implies one of the
wider one's. Those who say different things of themselves are not compared: an offer may tell them apart. (Covering in general is as hard as satisfiability; this is linear in the atoms, and finds what people write.)
"""

from __future__ import annotations

from collections.abc import Collection

from tocsin.compile.atoms import Among, Atom, Bound, Conjunction, Decided, Interval, intersection
from tocsin.compile.normalise import NormalForm


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
