"""ConjunctionTable: many conjunctions as flat columns of small integers, which is what gets indexed.

Written by index/lowering.py (from syntax trees) and compile/bulk.py (from the bulk predicate form); read by the
index, which turns it into segments. No value of any type goes further than this: every constant is an integer code.

The code space of a column. Its distinct constants are sorted by key: c[0] < c[1] < ... < c[n-1]. A value v has
    code 2*j + 1   if v == c[j]
    code 2*j       if c[j-1] < v < c[j]     (0: below all; 2*n: above all)
so that every comparison with constants is an interval of codes, and a value that no subscription mentions has a code
too. `price < 1300` is [0, code(1300) - 1], `brand = 'mini'` is [code, code], `kind of` an interval of the hierarchy's
preorder numbers, `starts with` an interval of texts.

Meaning of a predicate kind, for the set of codes that an event has in a column:
    SOME_IN    some code lies in [low, high]
    NONE_IN    the column is present, and no code lies in [low, high]
    SOME_OF    some code lies in one of the intervals of set number `low`
    NONE_OF    the column is present, and no code lies in one of the intervals of set number `low`
    PRESENT    the column is present
    ABSENT     the column is not present
    CHECK      check number `low` holds for the event; evaluated last (see Check)
A column is present in an event when the attribute it comes from is bound, even if it has no code there (a text without
a word has no code in a word column).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tocsin.compile.ids import Ids
    from tocsin.compile.properties import Property
    from tocsin.schema import Domain

Derivation = Literal["value", "words", "patterns", "latitude", "longitude"]


class PredicateKind(IntEnum):
    """What a predicate asks of the codes that an event has in a column; see the module's head."""

    SOME_IN = 0
    NONE_IN = 1
    SOME_OF = 2
    NONE_OF = 3
    PRESENT = 4
    ABSENT = 5
    CHECK = 6


@dataclass(frozen=True, slots=True)
class Column:
    """One column of codes: an attribute's values, or something derived from each of them.

    `derivation` says what is coded: the value's key (`domain.key`), each of the words of a text, each of the patterns
    that a text is like (the constants are the patterns, index/patterns.py), or one coordinate of a point. `multiple` says that an event may have several codes here. `constants` are the distinct keys that predicates mention, ascending: int64 or float64 where all are,
    otherwise objects (texts; numbers of several types, which Python compares exactly).
    """

    attribute: str
    domain: Domain
    multiple: bool
    derivation: Derivation
    constants: npt.NDArray[Any]


class CheckKind(IntEnum):
    """What decides a check."""

    PREDICATE = 0  # a predicate on one attribute (a circle, `like`, a word pattern with proximity)
    FORMULA = 1  # a comparison of formulas
    ASKED = 2  # all that a conjunction asks of operators and variables
    SCOPE = 3  # a condition on elements of an array of objects; decided after predicates


@dataclass(frozen=True, slots=True)
class Check:
    """What codes alone cannot decide.

    It stands beside predicates that hold whenever it holds, where there are any, so that few events reach it.
    `expression` is the condition as a JSON tree (language/documents.py), with its negation if it has one; `own` are the
    subscriber's properties that it mentions, as JSON. A predicate is about one `attribute`, the others have none.
    """

    kind: CheckKind
    expression: str
    attribute: str = ""
    own: str = "{}"
    whole: bool = False  # it is the whole condition of a subscription, beside a weaker one that finds it


class TablePredicates(NamedTuple):
    """What kernels read of a ConjunctionTable, and it says what each is."""

    offset: npt.NDArray[np.int64]
    column: npt.NDArray[np.uint16]
    kind: npt.NDArray[np.uint8]
    low: npt.NDArray[np.int32]
    high: npt.NDArray[np.int32]
    set_offset: npt.NDArray[np.int64]
    set_low: npt.NDArray[np.int32]
    set_high: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class ConjunctionTable:
    """Conjunctions i = 0 .. n-1; the predicates of conjunction i are rows offset[i] .. offset[i+1] of the flat columns.

    A subscription is the disjunction of the conjunctions that carry its number (one, mostly); subscription numbers are
    positions in `ids`. A conjunction without predicates matches every event. On a column that is not multiple, each
    conjunction has at most one SOME_IN predicate (intervals are merged) and never an empty one.
    """

    columns: Sequence[Column]
    ids: Ids  # the identity of each subscription
    subscription: npt.NDArray[np.int64]  # per conjunction: position in ids, ascending
    offset: npt.NDArray[np.int64]  # per conjunction, and one past the end
    column: npt.NDArray[np.uint16]  # per predicate: position in columns
    kind: npt.NDArray[np.uint8]  # per predicate: a PredicateKind
    low: npt.NDArray[np.int32]  # per predicate: first code, or number of the set or check
    high: npt.NDArray[np.int32]  # per predicate: last code (as `low` where it has none)
    set_offset: npt.NDArray[np.int64]  # per set, and one past the end: its disjoint ascending intervals, of one column
    set_low: npt.NDArray[np.int32]
    set_high: npt.NDArray[np.int32]
    checks: Sequence[Check]
    properties: Mapping[str, Property] = field(default_factory=dict)  # by name: `driver.age`

    def __len__(self) -> int:
        return len(self.subscription)

    @property
    def predicates(self) -> TablePredicates:
        """The arrays of predicates."""
        return TablePredicates(
            self.offset, self.column, self.kind, self.low, self.high, self.set_offset, self.set_low, self.set_high
        )
