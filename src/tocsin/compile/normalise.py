"""From a bound subscription to its normal form: a few conjunctions of atoms, each as small as it gets.

    1. what is about the subscriber's own properties is decided; `price <= 20 * age` is `price <= 840` to who is 42; predicates
       that are combinations of simpler ones are expanded (atoms.py)
    2. negation moves inwards, onto the predicates
    3. alternatives over one attribute are joined: `a = 1 or a = 2` is `a in (1, 2)`
    4. `or` moves outwards, part by part: what contradicts itself goes at once, so that nothing explodes
    5. in each conjunction the atoms of an attribute are merged; one that can never hold goes, and so does one that
       another makes superfluous
    6. where that gives more than 64 conjunctions, the condition stays a tree, to be decided for what the index finds: for
       the conjunctions of a weaker condition, which is small

A scope is decided for what the index finds, too, and found by what follows from it: `some items (sku = 'A' and qty > 3)` needs
an `items.sku` that is 'A' and an `items.qty` above 3, each of any element. `every` needs the same; `no` only that there are
items.

Comparisons of formulas, calls of operators and what has variables stay as they are, to be decided for what the index finds;
all of a conjunction that asks operators or variables is one part, since its variables must agree.

What is left tells whether the subscription can never hold, or always holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod

from tocsin.compile.atoms import (
    Among,
    Atom,
    Bound,
    Checked,
    Conjunction,
    Decided,
    Interval,
    atoms_of,
    complement,
    expand,
    intersection,
    limits_of,
    points,
    whole,
)
from tocsin.compile.table import Derivation
from tocsin.errors import FormulaFailed, TooLarge
from tocsin.language.bind import BoundSubscription
from tocsin.language.formula import is_numeric
from tocsin.language.semantics import Situation, holds, value_of
from tocsin.language.sides import bound_in, variables_of
from tocsin.language.syntax import (
    And,
    Arithmetic,
    AttributeValue,
    Call,
    Comparison,
    Constant,
    Expression,
    Negative,
    Node,
    Not,
    Op,
    OperatorCall,
    Or,
    Predicate,
    Quantifier,
    ScopeCondition,
    leaves,
    names_of,
)
from tocsin.schema import EVENT_TYPE, NOW, Value, View

MAX_CONJUNCTIONS = 64
MAX_COVER = 1_024  # conjunctions of a weaker condition, by which a larger one is found
_MOST_IMPLIED = 8  # alternatives by which a scope is found
_MERGED_LATE = 16  # alternatives up to which only the last step merges
_SEVERAL: tuple[Derivation, ...] = ("words", "patterns")  # of which one text has several


@dataclass(frozen=True, slots=True)
class NormalForm:
    """The conjunctions of a subscription; it matches when one of them holds.

    `types` is the condition on the event's types, which stands in every conjunction too; None where any type will do.
    `properties` say who asks.
    """

    conjunctions: tuple[Conjunction, ...]
    types: Among | None
    properties: Mapping[str, Value] = field(default_factory=dict, compare=False)
    scattered: tuple[str, ...] = field(
        default=(), compare=False
    )  # attributes of one array that a conjunction asks about

    @property
    def never(self) -> bool:
        """Whether no event can satisfy the subscription."""
        return not self.conjunctions

    @property
    def always(self) -> bool:
        """Whether every event of the subscription's types satisfies it."""
        return any(set(conjunction) <= {self.types} for conjunction in self.conjunctions)

    @property
    def exact(self) -> bool:
        """Whether atoms say all: nothing is left to be decided for what the index finds."""
        return not any(isinstance(atom, Decided) for conjunction in self.conjunctions for atom in conjunction)


def normalise(bound: BoundSubscription) -> NormalForm:
    """Return the normal form of a subscription; raises TooLarge where it has too many alternatives with variables."""
    view, tree = bound.view, bound.subscription
    pusher = _Pusher(view, bound.properties)
    literals = pusher.push(tree.where, negated=False)
    types = _types(tree.event_types, view)
    merge = partial(_merge, types, view=view)
    alternatives = _alternatives(literals, merge, MAX_CONJUNCTIONS)
    if alternatives is None:
        if bound_in(tree.where):
            raise TooLarge(
                f"a condition with variables has at most {MAX_CONJUNCTIONS} alternatives of plain conjunctions; this one has "
                "more. Make several subscriptions of it"
            )
        whole = replace(_only(pusher.decided(tree.where)), whole=True)
        weaker = _alternatives(_weakened(literals, MAX_COVER), merge, MAX_COVER)
        alternatives = [(*atoms, whole) for atoms in ([()] if weaker is None else weaker)]
    conjunctions = map(merge, alternatives)
    kept = _without_superfluous(found for found in conjunctions if found is not None)
    return NormalForm(kept, types, bound.properties, _scattered(kept, view, pusher.implied))


def _scattered(conjunctions: Iterable[Conjunction], view: View, implied: set[Atom]) -> tuple[str, ...]:
    """Return attributes of one array of objects that a conjunction asks about, each of any of the objects."""
    for conjunction in conjunctions:
        asked: dict[str, dict[str, None]] = {}
        for atom in conjunction:
            name = "" if isinstance(atom, Decided) or atom in implied else atom.attribute
            array = name.rpartition(".")[0]
            if array and view[name].multiple:
                asked.setdefault(array, {})[name] = None
        for names in asked.values():
            if len(names) > 1:
                return tuple(names)
    return ()


def _types(event_types: tuple[str, ...], view: View) -> Among | None:
    """Return the atom that asks for one of these event types."""
    if not event_types:
        return None
    domain = view[EVENT_TYPE].domain
    return Among(EVENT_TYPE, "value", points([domain.key(name) for name in event_types]))


# --- steps 1 to 3: a tree of And, Or and lists of atoms ---------------------------------------------------------------

_Literal = tuple[Atom, ...]  # a conjunction of atoms that stands for one predicate


@dataclass(frozen=True, slots=True)
class _All:
    parts: tuple[_Tree, ...]


@dataclass(frozen=True, slots=True)
class _Some:
    parts: tuple[_Tree, ...]


_Tree = _All | _Some | _Literal


_TURNED = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_EXACT = 2**53
_NEVER = _Some(())


def asks_operators(node: Node) -> bool:
    """Return whether a condition calls operators, or mentions variables, which they bind."""
    calls = (leaf for leaf in leaves(node) if isinstance(leaf, OperatorCall) and leaf.function is None)
    return any(True for _ in calls) or bool(variables_of(node))


class _Pusher:
    """Moves negation onto the leaves of one subscription, and turns these into atoms."""

    def __init__(self, view: View, properties: Mapping[str, Value]) -> None:
        self.view, self.properties = view, properties
        self.implied: set[Atom] = set()  # by scopes
        self.own = Situation({name: (value,) for name, value in properties.items()})

    def push(self, node: Node, *, negated: bool) -> _Tree:
        match node:
            case Not(part) if variables_of(part):
                return self.decided(Not(node) if negated else node)
            case Not(part):
                return self.push(part, negated=not negated)
            case And(parts) | Or(parts):
                conjunction = isinstance(node, And) != negated
                if not conjunction and not negated:
                    parts = _join_equalities(parts)
                pushed = tuple(self.push(part, negated=negated) for part in parts)
                return _All(pushed) if conjunction else _Some(_united(pushed))
            case _ if not self._mentions_event(node) and not asks_operators(node):
                return self._about_oneself(node, negated=negated)
            case Predicate():
                return self._predicate(node, negated=negated)
            case ScopeCondition() if not variables_of(node):
                implied = _kept_small(self._implied(node, negated=negated))
                self.implied.update(_atoms(implied))
                return _All((implied, self.decided(Not(node) if negated else node)))
            case Comparison() if not variables_of(node):
                return self._comparison(node, negated=negated)
            case _:
                return self.decided(Not(node) if negated else node)

    def _mentions_event(self, tree: Node | Expression) -> bool:
        return any(name == NOW or name in self.view.attributes for name in names_of(tree))

    def _predicate(self, node: Predicate, *, negated: bool) -> _Tree:
        entry = self.view[node.attribute]
        simpler = expand(node, entry)
        if simpler != node:
            return self.push(simpler, negated=negated)
        atoms = atoms_of(node, entry, negated=negated)
        return _NEVER if atoms is None else tuple(atoms)

    def _implied(self, node: Node, *, negated: bool) -> _Tree:
        """Return what holds of the event's values wherever a condition holds of one element's."""
        match node:
            case Not(part):
                return self._implied(part, negated=not negated)
            case And(parts) | Or(parts):
                implied = tuple(self._implied(part, negated=negated) for part in parts)
                return _All(implied) if isinstance(node, And) != negated else _Some(_united(implied))
            case ScopeCondition(quantifier, array, part):
                one_holds = negated == (quantifier is Quantifier.NO)
                inner = self._implied(part, negated=False) if one_holds else ()
                return inner if _unselective(inner) < 2 else _All(((Bound(array),), inner))
            case Predicate(name, op) if name in self.view.attributes:
                if op is Op.ABSENT or op is Op.PRESENT:
                    return (Bound(name),) if (op is Op.PRESENT) != negated else ()
                if negated or op is Op.NE:
                    return (Bound(name),)
                return _indexed(self._predicate(node, negated=False))
            case _:
                return ()

    def _about_oneself(self, node: Node, *, negated: bool) -> _Tree:
        """Return what the subscriber's own properties decide."""
        try:
            return () if holds(node, self.own, negated=negated) else _NEVER
        except FormulaFailed:
            return self.decided(Not(node) if negated else node)  # a failure must come out as one

    def _comparison(self, node: Comparison, *, negated: bool) -> _Tree:
        """Return `attribute op something of one's own` as the predicate that it is for this subscriber."""
        for side, other, op in ((node.left, node.right, node.op), (node.right, node.left, _TURNED[node.op])):
            if not isinstance(side, AttributeValue) or self._mentions_event(other):
                continue
            entry = self.view.attributes.get(side.name)
            if entry is None or entry.ever_multiple:
                continue
            try:
                value = value_of(other, self.own)
            except FormulaFailed:
                break
            if value is None:
                return _NEVER
            # A float attribute is compared as the nearest float, which tells small numbers apart as they are.
            if is_numeric(entry.domain) and isinstance(value, int | float) and abs(value) < _EXACT:
                predicate = Predicate(side.name, op, value, domain=entry.domain)
                return self._predicate(predicate, negated=negated)
        present = (Bound(name) for name in needed_by(node) if name in self.view.attributes)
        return (*present, *self.decided(Not(node) if negated else node))

    def decided(self, node: Node) -> _Literal:
        """Return a condition as a part that is decided later."""
        mentioned = dict.fromkeys(names_of(node))
        own = tuple((name, self.properties[name]) for name in mentioned if name in self.properties)
        return (Decided(node, own),)


def needed_by(node: Node) -> list[str]:
    """Return names without which a comparison, or its negation, is false whatever fails: by their presence it is found.

    A name that stands alone in a side, below every operation of it: with another name, or an operation that it has no part in,
    the side could fail before it lacks a value, and the pair would be one that failed.
    """
    if isinstance(node, Not):
        return needed_by(node.part)
    if not isinstance(node, Comparison):
        return []
    sides = [(side, list(dict.fromkeys(names_of(side)))) for side in (node.left, node.right)]
    return [names[0] for side, names in sides if len(names) == 1 and _has_no_value_without(side)]


def _has_no_value_without(side: Expression) -> bool:
    """Return whether all that is computed in a side of one name is computed from that name."""
    match side:
        case AttributeValue():
            return True
        case Negative(part):
            return _has_no_value_without(part)
        case Arithmetic(_, left, right):
            parts = [part for part in (left, right) if not isinstance(part, Constant)]
            return bool(parts) and all(map(_has_no_value_without, parts))
        case Call(_, arguments):
            parts = [part for part in arguments if not isinstance(part, Constant)]
            return bool(parts) and all(map(_has_no_value_without, parts))
        case _:
            return False


def _indexed(tree: _Tree) -> _Tree:
    """Return what the index decides of a tree."""
    match tree:
        case _All(parts) | _Some(parts):
            return type(tree)(tuple(map(_indexed, parts)))
        case _:
            return tuple(atom for atom in tree if isinstance(atom, Among | Bound))


def _kept_small(tree: _Tree) -> _Tree:
    return tree if _size(tree) <= _MOST_IMPLIED else _weakened(tree, _MOST_IMPLIED)


def _atoms(tree: _Tree) -> Iterable[Atom]:
    match tree:
        case _All(parts) | _Some(parts):
            return (atom for part in parts for atom in _atoms(part))
        case _:
            return tree


def _join_equalities(parts: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return the alternatives with all equalities and `in` of one attribute joined into one `in`."""
    members: dict[str, list[object]] = {}
    first: dict[str, Predicate] = {}
    others: list[Node] = []
    for part in parts:
        if isinstance(part, Predicate) and part.op in (Op.EQ, Op.IN):
            found = part.operand if part.op is Op.IN else (part.operand,)
            members.setdefault(part.attribute, []).extend(found)  # type: ignore[arg-type]
            first.setdefault(part.attribute, part)
        else:
            others.append(part)
    joined = (
        replace(first[name], op=Op.IN, operand=tuple(found))  # type: ignore[arg-type]
        if len(found) > 1
        else replace(first[name], op=Op.EQ, operand=found[0])  # type: ignore[arg-type]
        for name, found in members.items()
    )
    return (*joined, *others)


def _united(parts: Iterable[_Tree]) -> tuple[_Tree, ...]:
    """Return the alternatives with all values, words or patterns that one attribute may have as one atom."""
    found: dict[tuple[str, str], list[Among]] = {}
    others: list[_Tree] = []
    for part in parts:
        for inner in _united(part.parts) if isinstance(part, _Some) else (part,):
            match inner:
                case (Among(name, derivation, intervals, False) as atom,) if _all_points(intervals):
                    found.setdefault((name, derivation), []).append(atom)
                case _:
                    others.append(inner)
    joined = (
        (replace(atoms[0], intervals=points([each.low for atom in atoms for each in atom.intervals])),)
        for atoms in found.values()
    )
    return (*joined, *others)


# --- step 4: disjunction outwards -------------------------------------------------------------------------------------


_Merge = Callable[[_Literal], "Conjunction | None"]


def _alternatives(tree: _Tree, merge: _Merge, most: int) -> list[_Literal] | None:
    """Return the conjunctions, each as a list of atoms, without those that contradict themselves; None: more than `most`."""
    match tree:
        case _All(parts):
            found: list[_Literal] = [()]
            for part in sorted(parts, key=_width):
                others = _alternatives(part, merge, most)
                if others is None:
                    return None
                found = [(*atoms, *other) for atoms in found for other in others]
                if len(others) > 1 and len(found) > _MERGED_LATE:
                    found = _pruned(found, merge)
                if len(found) > most:
                    return None
            return found
        case _Some(parts):
            found = []
            for part in parts:
                others = _alternatives(part, merge, most)
                if others is None or len(found) + len(others) > most:
                    return None
                found += others
            return found
        case _:
            return [tree]


def _pruned(alternatives: list[_Literal], merge: _Merge) -> list[_Literal]:
    """Return alternatives without those that contradict themselves, or that others make superfluous."""
    found: dict[_Literal, None] = {}
    for atoms in alternatives:
        merged = merge(tuple(atom for atom in atoms if not isinstance(atom, Decided)))
        if merged is not None:
            found[(*merged, *dict.fromkeys(atom for atom in atoms if isinstance(atom, Decided)))] = None
    return list(_without_superfluous(found)) if len(found) <= MAX_COVER else list(found)


def _width(tree: _Tree) -> int:
    """Return how many alternatives a tree has at its root."""
    return len(tree.parts) if isinstance(tree, _Some) else 1


def _weakened(tree: _Tree, most: int) -> _Tree:
    """Return a condition that holds wherever this one does, and has few alternatives: what it is found by."""
    match tree:
        case _All(parts):
            chosen: list[_Tree] = []
            count = 1
            for part in sorted(parts, key=lambda part: (_unselective(part), _size(part))):
                weaker = _weakened(part, most)
                if count * _size(weaker) <= (MAX_CONJUNCTIONS if chosen else most):
                    chosen.append(weaker)
                    count *= _size(weaker)
            return _All(tuple(chosen))
        case _Some(parts):
            each = tuple(_weakened(part, max(1, most // max(1, len(parts)))) for part in parts)
            if sum(map(_size, each)) <= most:
                return _Some(each)
            asked = _asked_values(tree)  # by attribute, however many alternatives there are
            return () if asked is None else _Some(_united((atom,) for atom in asked))
        case _:
            return tuple(atom for atom in tree if isinstance(atom, Among | Bound))


def _asked_values(tree: _Tree) -> list[Among] | None:
    """Return atoms that ask for values, one of which holds wherever the tree does; None where there are none."""
    match tree:
        case _All(parts):
            found = [asked for part in parts if (asked := _asked_values(part)) is not None]
            return min(found, key=len, default=None)
        case _Some(parts):
            each = [_asked_values(part) for part in parts]
            return None if None in each else [atom for asked in each if asked is not None for atom in asked]
        case _:
            atoms = [atom for atom in tree if isinstance(atom, Among) and not _atom_unselective(atom)]
            return atoms[:1] or None


def _size(tree: _Tree) -> int:
    """Return how many alternatives the tree has."""
    match tree:
        case _All(parts):
            return prod(map(_size, parts))
        case _Some(parts):
            return sum(map(_size, parts))
        case _:
            return 1


def _unselective(tree: _Tree) -> int:
    """Return how little a condition tells events apart: 0 where it asks for values, 1 for ranges, 2 for less."""
    match tree:
        case _All(parts):
            return min(map(_unselective, parts), default=2)
        case _Some(parts):
            return max(map(_unselective, parts), default=0)
        case _:
            return min(map(_atom_unselective, tree), default=2)


def _atom_unselective(atom: Atom) -> int:
    if not isinstance(atom, Among) or atom.negated:
        return 2
    return 0 if _all_points(atom.intervals) else 1


def _only(literal: _Literal) -> Decided:
    (atom,) = literal
    assert isinstance(atom, Decided)
    return atom


# --- step 5: merging --------------------------------------------------------------------------------------------------


def _merge(types: Among | None, atoms: Iterable[Atom], *, view: View) -> Conjunction | None:
    """Return the smallest conjunction that says the same, in a fixed order; None where it can never hold."""
    by_attribute: dict[str, list[Atom]] = {EVENT_TYPE: [types]} if types else {}
    decided: list[Decided] = []
    for atom in atoms:
        if isinstance(atom, Decided):
            decided.append(atom)
        else:
            by_attribute.setdefault(atom.attribute, []).append(atom)
    merged: list[Atom] = []
    for name, found in by_attribute.items():
        kept = _merge_attribute(list(dict.fromkeys(found)), view, name)
        if kept is None:
            return None
        merged.extend(kept)
    return (*merged, *_joined(list(dict.fromkeys(decided))))


def _joined(decided: list[Decided]) -> list[Decided]:
    """Return what is to be decided, all that asks operators or variables as one."""
    asked = [each for each in decided if asks_operators(each.node)]
    rest = [each for each in decided if not asks_operators(each.node)]
    if len(asked) < 2:
        return rest + asked
    own = tuple(dict(pair for each in asked for pair in each.own).items())
    return [*rest, Decided(And(tuple(each.node for each in asked)), own)]


def _merge_attribute(atoms: list[Atom], view: View, name: str) -> list[Atom] | None:
    bound = [atom for atom in atoms if isinstance(atom, Bound)]
    asks: list[Atom] = [atom for atom in atoms if not isinstance(atom, Bound)]
    if any(atom.negated for atom in bound):
        return None if asks or not all(atom.negated for atom in bound) else [bound[0]]
    if view[name].ever_multiple:  # each atom may be satisfied by another value
        return asks or [*bound[:1]]
    kept: list[Atom] = [atom for atom in asks if isinstance(atom, Checked)]
    limits = limits_of(view[name].domain)
    for derivation in ("value", "words", "patterns", "latitude", "longitude"):
        columns = [atom for atom in asks if isinstance(atom, Among) and atom.derivation == derivation]
        if not columns:
            continue
        found = _merge_several(columns) if derivation in _SEVERAL else _merge_unique(columns, limits)
        if found is None:
            return None
        kept = [*found, *kept]
    if len(kept) > 1 and any(_contradictory(kept, derivation) for derivation in _SEVERAL):
        return None
    return [_as_bound(atom, view) for atom in kept] or [*bound[:1]]


def _merge_unique(atoms: list[Among], limits: Interval | None) -> list[Among] | None:
    """Return the atoms of a single-valued column as one positive one, and the exclusions that still matter.

    `limits` are those of whole-numbered keys, None where keys are not whole numbers.
    """
    positive = [atom for atom in atoms if not atom.negated]
    negative = [atom for atom in atoms if atom.negated]
    if not positive:
        wide = [atom for atom in negative if not all(interval.is_point() for interval in atom.intervals)]
        if not wide:
            return negative
        # `not (price < 10)` on a single value is `price >= 10`
        positive = [Among(wide[0].attribute, wide[0].derivation, _outside(wide[0].intervals, limits))]
        negative = [atom for atom in negative if atom is not wide[0]]
    intervals = positive[0].intervals
    for atom in positive[1:]:
        intervals = intersection(intervals, atom.intervals)
    kept = []
    for atom in negative:
        if all(interval.is_point() for interval in atom.intervals) and not _all_points(intervals):
            inside = intersection(intervals, atom.intervals)
            if inside:
                kept.append(Among(atom.attribute, atom.derivation, inside, negated=True))
        else:
            intervals = intersection(intervals, _outside(atom.intervals, limits))
    if not (intersection(intervals, [limits]) if limits else intervals):
        return None
    return [Among(positive[0].attribute, positive[0].derivation, intervals), *kept]


def _outside(intervals: tuple[Interval, ...], limits: Interval | None) -> tuple[Interval, ...]:
    """Return the keys outside the intervals; whole-numbered ones between closed ends and within their limits."""
    gaps = complement(intervals)
    if limits is None:
        return gaps
    return intersection([gap for gap in map(whole, gaps) if not gap.is_empty()], [limits])


def _all_points(intervals: tuple[Interval, ...]) -> bool:
    return all(interval.is_point() for interval in intervals)


def _merge_several(atoms: list[Among]) -> list[Among]:
    """Return the atoms of a column of words or patterns, all that is excluded as one."""
    excluded = [atom for atom in atoms if atom.negated]
    if len(excluded) < 2:
        return atoms
    keys = [interval.low for atom in excluded for interval in atom.intervals]
    return [*(atom for atom in atoms if not atom.negated), replace(excluded[0], intervals=points(keys))]


def _contradictory(atoms: list[Atom], derivation: Derivation) -> bool:
    """Return whether all that would do is also excluded, of the words or patterns of a single text."""
    mine = [atom for atom in atoms if isinstance(atom, Among) and atom.derivation == derivation]
    excluded = {interval for atom in mine if atom.negated for interval in atom.intervals}
    return any(excluded.issuperset(atom.intervals) for atom in mine if not atom.negated)


def _as_bound(atom: Atom, view: View) -> Atom:
    """Return `is present` for an atom that every value of its domain satisfies."""
    if not isinstance(atom, Among) or atom.negated or atom.derivation != "value":
        return atom
    everything = limits_of(view[atom.attribute].domain) or Interval()
    covers = intersection(atom.intervals, [everything]) == (everything,)
    return Bound(atom.attribute) if covers else atom


def _without_superfluous(conjunctions: Iterable[Conjunction]) -> tuple[Conjunction, ...]:
    """Return the conjunctions without those that hold only where another one holds."""
    distinct = _with_presence_resolved(list(dict.fromkeys(conjunctions)))
    atom_sets = [frozenset(conjunction) for conjunction in distinct]
    return tuple(
        conjunction
        for conjunction, atoms in zip(distinct, atom_sets, strict=True)
        if not any(other < atoms for other in atom_sets) or _tells(conjunction)
    )


def _tells(conjunction: Conjunction) -> bool:
    """Return whether a match by this conjunction tells the values of variables."""
    return any(isinstance(atom, Decided) and variables_of(atom.node) for atom in conjunction)


def _with_presence_resolved(distinct: list[Conjunction]) -> list[Conjunction]:
    """Return the conjunctions and what follows from them: `p and a is present or p and a is absent` is `p`."""
    known = {frozenset(conjunction) for conjunction in distinct}
    for conjunction in distinct:  # grows while it is walked: what follows may be resolved further
        for atom in conjunction:
            if isinstance(atom, Bound):
                rest = frozenset(conjunction) - {atom}
                if rest | {Bound(atom.attribute, not atom.negated)} in known and rest not in known:
                    known.add(rest)
                    distinct.append(tuple(other for other in conjunction if other != atom))
    return distinct
