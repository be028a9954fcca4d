"""What an offer asks of rows, as requests: intervals of the values in a column, of either side.

Of its rules, the conjuncts that compare one property with constants are intervals of that property's values. Of its static
values, each is a code in the columns of the tier; rows whose hull does not reach it are no candidates. All offers of a batch
are taken together: what they ask of one column becomes requests at once, as arrays.

The rows of a tier as the scan of offers goes through them: living ones, those that ask alike side by side.

A row is a conjunction of a subscription. What it asks is read back from the segment as predicates over codes (the code
space of compile/table.py). The hull of a row in a column is the interval of codes that it can accept; for most rows the
hulls say all that they ask, and the others are `loose`: they are decided after the scan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.index.explain import row_predicates
from tocsin.index.layout import Section
from tocsin.language.formula import ConditionFormula
from tocsin.language.formula_columns import EXACT, ValueColumn, float_bound, integer_bound, is_told_apart_by_value
from tocsin.language.semantics import predicate_holds
from tocsin.language.syntax import And, Node, Op, OperatorCall, Predicate, leaves, names_of
from tocsin.offers import scan_kernel as k
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
