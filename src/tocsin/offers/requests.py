"""What an offer asks of rows, as requests: intervals of the values in a column, of either side.

Of its rules, the conjuncts that compare one property with constants are intervals of that property's values. Of its static
values, each is a code in the columns of the tier; rows whose hull does not reach it are no candidates. All offers of a batch
are taken together: what they ask of one column becomes requests at once, as arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.language.formula import ConditionFormula
from tocsin.language.formula_columns import EXACT, Column
from tocsin.language.formula_compare import float_bound, integer_bound, is_told_apart_by_value
from tocsin.language.semantics import predicate_holds
from tocsin.language.syntax import And, Node, Op, OperatorCall, Predicate, leaves, names_of
from tocsin.offers import scan_kernel as k
from tocsin.offers.bitmaps import BitmapIndex, packed
from tocsin.schema.domain import microseconds

if TYPE_CHECKING:
    from tocsin.language.offer import Offer
    from tocsin.offers.rows import TierRows

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

    def __init__(self, column: Column, number: k.Int32s) -> None:
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
