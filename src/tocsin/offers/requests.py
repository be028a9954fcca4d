"""What an offer asks of rows, as requests: intervals of the values in a column, of either side.

Of its rules, the conjuncts that compare one property with constants are intervals of that property's values. Of its static
values, each is a code in the columns of the tier; rows whose hull does not reach it are no candidates. All offers of a batch
are taken together: what they ask of one column becomes requests at once, as arrays.

The rows of a tier as the scan of offers goes through them: living ones, those that ask alike side by side.

A row is a conjunction of a subscription. What it asks is read back from the segment as predicates over codes (the code
space of compile/table.py). The hull of a row in a column is the interval of codes that it can accept; for most rows the
hulls say all that they ask, and the others are `loose`: they are decided after the scan.

Computed attributes of candidates, in the code space of their tier.

A formula that asks about the subscriber alone gives the same value for every offer. So once it has been computed for as
many rows as there are, it is computed for all of them, and kept: with a bitmap of the rows that accept the value. From then
on the formula costs an offer as much as one more request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.index.coder import Coder
from tocsin.index.explain import row_predicates
from tocsin.index.key_column import KeyColumn, keys_of
from tocsin.index.layout import Section
from tocsin.index.patterns import PatternTexts
from tocsin.language.formula import ConditionFormula
from tocsin.language.formula_columns import EXACT, ValueColumn, float_bound, integer_bound, is_told_apart_by_value
from tocsin.language.formula_vector import compute_column
from tocsin.language.offer import ComputedAttribute
from tocsin.language.semantics import Row, predicate_holds
from tocsin.language.syntax import (
    And,
    Arithmetic,
    Call,
    Case,
    Comparison,
    Expression,
    Negative,
    Node,
    Not,
    Op,
    OperatorCall,
    Or,
    Predicate,
    leaves,
    names_of,
)
from tocsin.offers import scan_kernel as k
from tocsin.offers.programs import admit_column
from tocsin.offers.scan_kernel import BitmapIndex, packed
from tocsin.schema.domain import microseconds

if TYPE_CHECKING:
    from tocsin.index.segment import Segment
    from tocsin.language.offer import Offer

_COMPARED = frozenset({Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE, Op.BETWEEN})
_SMALL = np.iinfo(np.int32)


class Rest(NamedTuple):
    """What is left of rule number `rule` after its intervals: a condition to be decided for the candidates."""

    rule: int
    condition: ConditionFormula


class Requests:
    """Gathers the requests of a batch of offers."""

    def __init__(self, offers: int) -> None:
        self.offers = offers
        self._offer: list[npt.NDArray[np.int64]] = []
        self._asked: list[npt.NDArray[np.int64]] = []

    def ask(self, offers: npt.NDArray[np.int64], column: int, low: Any, high: Any) -> None:
        """Add a request on a column for each of the offers; low and high are numbers, or one for each."""
        asked = np.empty((len(offers), 3), np.int64)
        asked[:, 0], asked[:, 1], asked[:, 2] = column, low, high
        self._offer.append(offers)
        self._asked.append(asked)

    def by_offer(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return all requests, one offer's after another's, and where each offer's start."""
        starts = np.zeros(self.offers + 1, np.int64)
        if not self._asked:
            return np.zeros((0, 3), np.int64), starts
        offer, asked = np.concatenate(self._offer), np.concatenate(self._asked)
        np.cumsum(np.bincount(offer, minlength=self.offers), out=starts[1:])
        return asked[np.argsort(offer, kind="stable")], starts


# --- properties -------------------------------------------------------------------------------------------------------


class PropertyIndex:
    """A property of the rows of a tier: values by position, bitmaps, and the intervals that predicates are."""

    def __init__(self, column: ValueColumn, number: k.Int32s) -> None:
        self.domain, self.members = column.domain, column.members
        values = column.values
        if values.dtype == np.int64 and len(values) and _SMALL.min <= values.min() and values.max() <= _SMALL.max:
            values = values.astype(np.int32)
        self.integers = values.dtype != np.float64
        self.bitmaps = BitmapIndex(values[number], column.absent[number])
        self._places = {} if column.members is None else {member: at for at, member in enumerate(column.members)}

    def takes(self, op: Op) -> bool:
        """Return whether predicates with this operator are intervals."""
        if self.members is not None:
            return op is Op.EQ and is_told_apart_by_value(self.domain)
        return op in _COMPARED

    def intervals(self, op: Op, operands: list[Any]) -> tuple[Any, Any]:
        """Return the least and the greatest numbers, as kernels compare them, that satisfy `value op operand`."""
        if self.members is not None:
            codes = np.array([self._places.get(operand, -1) for operand in operands], np.int64)
            return np.where(codes < 0, 1, codes), np.where(codes < 0, 0, codes)
        if op is Op.BETWEEN:
            from_least = self.intervals(Op.GE, [least for least, _ in operands])
            to_most = self.intervals(Op.LE, [most for _, most in operands])
            return np.maximum(from_least[0], to_most[0]), np.minimum(from_least[1], to_most[1])
        if set(map(type, operands)) == {int} and min(operands) >= -EXACT and max(operands) <= EXACT:
            return self._at_once(op, np.array(operands, np.int64))
        found = [self._interval(op, operand) for operand in operands]
        return np.array([low for low, _ in found], np.int64), np.array([high for _, high in found], np.int64)

    def _at_once(self, op: Op, numbers: npt.NDArray[np.int64]) -> tuple[Any, Any]:
        keys = numbers if self.integers else ordered_bits(numbers.astype(np.float64))
        match op:
            case Op.EQ:
                return keys, keys
            case Op.LE:
                return k.LEAST, keys
            case Op.GE:
                return keys, k.MOST
            case Op.LT:
                return k.LEAST, keys - 1
            case _:
                return keys + 1, k.MOST

    def _interval(self, op: Op, operand: Any) -> tuple[int, int]:
        constant = microseconds(operand) if self.domain.kind == "time" else operand
        op, bound = integer_bound(op, constant) if self.integers else float_bound(op, constant)
        if bound is None:
            return 1, 0
        key = int(bound) if self.integers else int(ordered_bits(np.array([bound], np.float64))[0])
        match op:
            case Op.EQ:
                return key, key
            case Op.LE:
                return k.LEAST, key
            case Op.GE:
                return key, k.MOST
            case Op.LT:
                return (k.LEAST, key - 1) if key > k.LEAST else (1, 0)
            case _:
                return (key + 1, k.MOST) if key < k.MOST else (1, 0)


def ordered_bits(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return floats as integers that have the order of the floats, as kernels compare them."""
    bits = (numbers + 0.0).view(np.int64)
    return bits ^ ((bits >> 63) & k.MOST)


# --- columns of codes -------------------------------------------------------------------------------------------------


class HullIndex:
    """The hulls of all rows in one column, with bitmaps; a column is asked for the first time by the first offer."""

    def __init__(self, rows: TierRows, column: int) -> None:
        lows, highs = rows.hull(column)
        self.optional = packed(lows == k.ABSENT)  # rows that do not need the attribute
        self.all_optional = bool((lows == k.ABSENT).all())
        self.least_low = int(lows.min(initial=_SMALL.max))
        self.greatest_low = int(lows.max(initial=k.ABSENT))
        self.least_high = int(highs.min(initial=_SMALL.max))
        self.is_equality = bool((lows == highs).all())
        self._lows, self._highs = lows, highs
        self._bitmaps: dict[str, BitmapIndex] = {}

    def bitmaps(self, side: str) -> BitmapIndex:
        """Return the bitmaps of the "low" or "high" ends."""
        found = self._bitmaps.get(side)
        if found is None:
            values = self._lows if side == "low" else self._highs
            found = self._bitmaps[side] = BitmapIndex(values, np.zeros(len(values), np.bool_))
        return found


# --- rules ------------------------------------------------------------------------------------------------------------


class Rules:
    """The rules of a batch of offers, divided: what is an interval of a property, what is left, whom nothing can satisfy."""

    def __init__(self, offers: Sequence[Offer], property_of: Callable[[str], PropertyIndex | None]) -> None:
        """Divide the rules; property_of(name) is the index of a property, None where no row has it."""
        self.slots: dict[tuple[str, Op], tuple[list[int], list[Any]]] = {}
        self.rest: dict[int, list[Rest]] = {}  # by offer
        self.refused: list[int] = []  # offers whose rules are false for everybody
        self._property_of = property_of
        for at, offer in enumerate(offers):
            for number, rule in enumerate(offer.rules):
                root = rule.root
                self._divide(at, offer, number, root.parts if type(root) is And else (root,))

    def _divide(self, at: int, offer: Offer, number: int, parts: tuple[Node, ...]) -> None:
        left: list[Node] = []
        for part in parts:
            if type(part) is not Predicate:
                left.append(part)
                continue
            slot = self.slots.get((part.attribute, part.op))
            if slot is None:
                if not self._takes(at, offer, part):
                    left.append(part)
                    continue
                slot = self.slots.get((part.attribute, part.op))
                if slot is None:
                    continue
            slot[0].append(at)
            slot[1].append(part.operand)
        if left and not any(asks_operator(part) for part in left):
            condition: Node = left[0] if len(left) == 1 else And(tuple(left))
            names = tuple(dict.fromkeys(name for part in left for name in names_of(part)))
            self.rest.setdefault(at, []).append(Rest(number, ConditionFormula(condition, names)))

    def _takes(self, at: int, offer: Offer, predicate: Predicate) -> bool:
        """Make a slot for the predicate, or decide it where it is the same for all rows; return whether that could be."""
        name = predicate.attribute
        if any(each.name == name for each in offer.computed):
            return False
        index = self._property_of(name)
        if index is not None:
            if not index.takes(predicate.op):
                return False
            self.slots[name, predicate.op] = [], []
            return True
        if not predicate_holds(predicate, offer.values.get(name)):
            self.refused.append(at)
        return True


def asks_operator(node: Node) -> bool:
    """Return whether a condition calls an operator; such rules are decided elsewhere."""
    return any(isinstance(leaf, OperatorCall) and leaf.function is None for leaf in leaves(node))


# The rows of a tier as the scan of offers goes through them.


UNBOUNDED = np.iinfo(np.int32).max  # the high of a row that asks nothing
_SAMPLE = 20_000


class TierRows:
    """The rows that were alive when this was made, by position: `row` in the segment, `number` of the subscription."""

    def __init__(self, segment: Segment, computed: Collection[str] = ()) -> None:
        """Read the rows; attributes that offers mostly compute are no reason to put rows side by side."""
        self.segment = segment
        self._dead = segment.dead
        rows = np.flatnonzero(segment.alive_rows()).astype(np.int32)
        row_of, column, kind, low, high = row_predicates(segment)
        offset = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(np.bincount(row_of, minlength=segment.section(Section.STRIPE_ROW)[-1])[rows], out=offset[1:])
        sets = [segment.section(each) for each in (Section.SET_OFFSET, Section.SET_LOW, Section.SET_HIGH)]
        self.asked = k.RowPredicates(offset, column, kind, low, high, *sets)
        self.row = rows
        self.size = len(rows)
        self._hulls: dict[int, tuple[k.Int32s, k.Int32s]] = {}
        order = self._order({at for at, each in enumerate(segment.columns) if each.attribute in computed})
        if order is not None:
            self._reorder(order)
        self.number = segment.numbers_of_rows()[self.row]
        self.loose = self._loose()
        self.some_loose = bool(self.loose.any())

    def hull(self, column: int) -> tuple[k.Int32s, k.Int32s]:
        """Return the least and the greatest code that each row accepts in a column; ABSENT is less than all codes."""
        found = self._hulls.get(column)
        if found is None:
            found = np.full(self.size, k.ABSENT, np.int32), np.full(self.size, UNBOUNDED, np.int32)
            k.hull(self.asked, column, *found)
            self._hulls[column] = found
        return found

    def holding(self, given: k.Given, positions: k.Int32s, offers: k.Int32s) -> k.Flags:
        """Return for which pairs of a row and an offer all that the row asks is satisfied."""
        holds = np.empty(len(positions), np.bool_)
        k.decide_rows(self.asked, given, positions, offers, holds)
        return holds

    def alive(self, positions: k.Int32s) -> k.Flags | None:
        """Return which of the rows are still alive; None where all are."""
        if self.segment.dead == self._dead:
            return None
        return self.segment.living(self.row[positions])

    def _loose(self) -> k.Flags:
        """Return which rows ask something that no interval of codes says."""
        exact = np.isin(self.asked.kind, (k.SOME_IN, k.PRESENT, k.IS_ABSENT))
        several = np.array([each.multiple for each in self.segment.columns] or [False])
        # On a column of several codes, two intervals may be satisfied by different ones.
        position = np.repeat(np.arange(self.size), np.diff(self.asked.offset))
        loose = np.zeros(self.size, np.bool_)
        loose[position[~exact]] = True
        if several.any():
            chosen = np.flatnonzero(several[self.asked.column])
            pairs = position[chosen] * len(several) + self.asked.column[chosen]
            loose[position[chosen[1:][pairs[1:] == pairs[:-1]]]] = True
        return loose

    # --- the order ----------------------------------------------------------------------------------------------------

    def _order(self, left_out: Collection[int]) -> npt.NDArray[np.int64] | None:
        """Return positions in an order that puts rows with like hulls together; None where that does not pay.

        First by columns in which most rows accept one code only, those with the fewest codes first while they leave whole
        blocks, then by one more in which most rows have a bound.
        """
        blocks = self.size // (64 * k.BLOCK)
        if blocks < 2:
            return None
        single: list[tuple[int, k.Int32s]] = []
        ranged: list[k.Int32s] = []
        asking = np.bincount(self.asked.column, minlength=len(self.segment.columns))
        for column in np.flatnonzero(2 * asking > self.size).tolist():
            if column in left_out:
                continue
            lows, highs = self.hull(column)
            sample = slice(None, None, max(1, self.size // _SAMPLE))
            some_low, some_high = lows[sample], highs[sample]
            if (some_low == some_high).mean() > 0.5:
                single.append((len(np.unique(some_low)), lows))
            elif (some_high < 2 * len(self.segment.columns[column].constants)).mean() > 0.5:
                ranged.append(highs)
            elif (some_low > 0).mean() > 0.5:
                ranged.append(lows)
        keys: list[k.Int32s] = []
        combined = 1
        for distinct, lows in sorted(single, key=lambda one: one[0]):
            if combined < blocks:
                keys.append(lows)
                combined *= distinct
        if ranged and combined < blocks:
            keys.append(ranged[0])
        return np.lexsort(keys[::-1]) if keys else None

    def _reorder(self, order: npt.NDArray[np.int64]) -> None:
        start, counts = self.asked.offset[:-1][order], np.diff(self.asked.offset)[order]
        offset = np.zeros(self.size + 1, np.int64)
        np.cumsum(counts, out=offset[1:])
        moved = np.repeat(start - offset[:-1], counts) + np.arange(offset[-1])
        _, column, kind, low, high, *sets = self.asked
        self.asked = k.RowPredicates(offset, column[moved], kind[moved], low[moved], high[moved], *sets)
        self.row = self.row[order]
        self._hulls = {}


# --- Computing attributes ---------------------------------------------------------------------------------------------


MOST_REMEMBERED = 32  # formulas whose rows are counted
MOST_KEPT = 8
FEWEST_KEPT = 1_000  # subscriptions from which on values are kept


def compute(attribute: ComputedAttribute, columns: Mapping[str, ValueColumn], size: int, constants: Row) -> ValueColumn:
    """Return the attribute's values for `size` rows; rows for which it fails are marked."""
    return _admitted(attribute, compute_column(attribute.formula, columns, size, constants))


def _admitted(attribute: ComputedAttribute, found: ValueColumn) -> ValueColumn:
    column = admit_column(found, attribute.domain, attribute.value)  # type: ignore[arg-type]
    if column.failed is None or not column.failed.any():
        return replace(column, failed=None, reasons=())
    return replace(column, absent=column.absent | (column.failed != 0))


class CodedValues:
    """Values in one column of the tier's codes: `values` are codes, or numbers of lists; see scan_kernel.Given."""

    def __init__(self, coder: Coder, column: ValueColumn) -> None:
        self.is_list = coder.column.derivation in ("words", "patterns")
        self.offset, self.codes = np.zeros(1, np.int64), np.zeros(0, np.int32)
        if column.absent.all():
            self.values = np.full(len(column), k.ABSENT, np.int32)
        elif self.is_list:
            self.values = column.values.astype(np.int32)
            self._list_words(coder, column)
        else:
            self.values = coder.code(_keys(coder, column)).astype(np.int32)
        self.values[column.absent] = k.ABSENT
        if column.failed is not None:
            self.values[column.failed != 0] = k.UNKNOWN

    def _list_words(self, coder: Coder, column: ValueColumn) -> None:
        if coder.patterns is not None:
            found = coder.patterns.coded(PatternTexts.of_values([(member,) for member in _members(column)]))
            self.offset, self.codes = found.offset, found.codes
            return
        listed = [
            sorted({coder.code_of(key) for key in keys_of(column.domain, "words", member)} - {0})
            for member in _members(column)
        ]
        self.offset = np.zeros(len(listed) + 1, np.int64)
        np.cumsum([len(codes) for codes in listed], out=self.offset[1:])
        self.codes = np.array([code for codes in listed for code in codes], np.int32)


def _members(column: ValueColumn) -> list[Any]:
    members: tuple[Any, ...] = column.members or ()
    return ["" if member is None else member for member in members]


def _keys(coder: Coder, column: ValueColumn) -> KeyColumn:
    if column.members is None:
        return KeyColumn(np.ascontiguousarray(column.values), None)
    members: Sequence[Any] = column.members
    derivation = coder.column.derivation
    listed = [keys_of(column.domain, derivation, member)[0] for member in members]
    return KeyColumn(column.values.astype(np.int32), None, listed)


CodedPairs = dict[int, tuple[k.Int32s, CodedValues]]  # column -> what each pair has there, and what that means


@dataclass(slots=True)
class Known:
    """A computed attribute, how many rows it was computed for, and its values where they are kept."""

    attribute: ComputedAttribute
    computed: int = 0
    kept: Kept | None = None


class Kept:
    """An attribute's values for all rows of a tier, by position, and which rows accept them."""

    def __init__(self, rows: TierRows, column: ValueColumn, coders: Mapping[int, Coder], columns: int) -> None:
        """Keep a column, which has the values by position."""
        self.column = column
        self._all_present = not column.absent.any()  # then none has failed, either
        self.coded = {at: CodedValues(coder, column) for at, coder in coders.items()}
        self.accepting: k.Words | None = None  # None: all
        if self.coded:
            positions = np.arange(rows.size, dtype=np.int32)
            unknown = np.full((columns, 1), k.UNKNOWN, np.int32)
            given = given_of(unknown, {}, self.codes(positions))
            self.accepting = packed(rows.holding(given, positions, np.zeros(rows.size, np.int32)))

    def codes(self, positions: npt.NDArray[Any]) -> CodedPairs:
        """Return, by column, what the rows at these positions have there."""
        return {at: (coded.values[positions], coded) for at, coded in self.coded.items()}

    def take(self, positions: npt.NDArray[Any]) -> ValueColumn:
        """Return the values of the rows at these positions."""
        if not self._all_present:
            return self.column.take(positions)
        values = self.column.values.take(positions)
        return ValueColumn(self.column.domain, values, np.zeros(len(positions), np.bool_), self.column.members)


class Computing:
    """Computes the attributes of offers for the rows of one tier. `of` is not safe to ask from several threads."""

    def __init__(self, rows: TierRows, coders: Sequence[Coder], own: frozenset[str]) -> None:
        """Compute over a tier; `own` are the names of properties, whether anybody has them or not."""
        self.rows, self.own = rows, own
        self.size = len(rows.segment)
        self.columns = len(coders)
        self._coders: dict[str, dict[int, Coder]] = {}
        for at, coder in enumerate(coders):
            self._coders.setdefault(coder.column.attribute, {})[at] = coder
        self._known: list[Known] = []  # the last one used comes first

    def coders(self, name: str) -> Mapping[int, Coder]:
        """Return the coders of an attribute's columns, by column."""
        return self._coders.get(name, {})

    def of(self, attribute: ComputedAttribute) -> Known:
        """Return what is known of an attribute; its values are kept, where that pays from now on."""
        known = self._of(attribute)
        if known.kept is None and known.computed >= self.size >= FEWEST_KEPT and self._is_lasting(attribute):
            stored = self.rows.segment.properties
            columns = {name: stored[name].column for name in attribute.formula.names if name in stored}
            column = compute(attribute, columns, self.size, {})
            known.kept = Kept(self.rows, column.take(self.rows.number), self.coders(attribute.name), self.columns)
            for other in [each for each in self._known if each.kept is not None][MOST_KEPT:]:
                other.kept, other.computed = None, 0
        return known

    def _of(self, attribute: ComputedAttribute) -> Known:
        # By identity: a new version of a program makes a formula that equals the old one.
        known = self._known
        for at, each in enumerate(known):
            if each.attribute.formula is attribute.formula and each.attribute.name == attribute.name:
                if at:
                    known.insert(0, known.pop(at))
                return each
        found = Known(attribute)
        known.insert(0, found)
        if len(known) > MOST_REMEMBERED:
            known.pop()
        return found

    def _is_lasting(self, attribute: ComputedAttribute) -> bool:
        """Return whether it asks nothing of the offer, nor of anything that may say something else later."""
        names = attribute.formula.names
        return all(name in self.own for name in names) and _is_lasting(attribute.formula.root)


def _is_lasting(tree: Expression | Node) -> bool:
    """Return whether all functions that are called say the same whenever they are asked."""
    match tree:
        case Call(_, parts, function=function) | OperatorCall(_, parts, function=function):
            return function is not None and function.lasting and all(map(_is_lasting, parts[function.leading :]))
        case Negative(part) | Not(part):
            return _is_lasting(part)
        case Arithmetic(_, left, right) | Comparison(left, _, right):
            return _is_lasting(left) and _is_lasting(right)
        case And(parts) | Or(parts):
            return all(map(_is_lasting, parts))
        case Case(branches, otherwise):
            chosen = [part for branch in branches for part in branch]
            return all(map(_is_lasting, chosen)) and (otherwise is None or _is_lasting(otherwise))
        case _:
            return True


Lists = Mapping[int, tuple[npt.NDArray[np.int64], k.Int32s]]  # column -> offset and codes of its lists


def given_of(codes: k.Int32s, lists: Lists, computed: CodedPairs) -> k.Given:
    """Return what pairs have: the offers' codes and lists, and by column what was computed for each pair."""
    columns = len(codes)
    per_pair, starts = np.full(columns, -1, np.int64), np.full(columns, -1, np.int64)
    offsets: list[npt.NDArray[np.int64]] = []
    listed: list[k.Int32s] = []
    places = total = 0
    every = dict(lists)
    for row, (column, (_, coded)) in enumerate(computed.items()):
        per_pair[column] = row
        if coded.is_list:
            every[column] = coded.offset, coded.codes
        else:
            every.pop(column, None)
    for column, (offset, of_column) in every.items():
        starts[column] = places
        offsets.append(offset + total)
        listed.append(of_column)
        places += len(offset)
        total += len(of_column)
    values = [value for value, _ in computed.values()]
    return k.Given(
        codes,
        np.stack(values) if values else np.zeros((1, 0), np.int32),
        per_pair,
        starts,
        np.concatenate(offsets) if offsets else np.zeros(1, np.int64),
        np.concatenate(listed) if listed else np.zeros(0, np.int32),
    )
