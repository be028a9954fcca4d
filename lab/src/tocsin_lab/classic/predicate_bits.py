"""TOPSS's predicate bit vector: what its two stages hand to each other (section 3).

The first stage sets a bit for each satisfied predicate in an array of unsigned chars; the second reads the numbers from it.
The other engines hand over the numbers themselves, which saves both; this one shows what the vector costs.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.counting import TableListMatcher
from tocsin_lab.classic.jit import kernel
from tocsin_lab.classic.rows import CodedEvent, grown


class BitVectorMatcher(TableListMatcher):
    """Table, predicate bit vector, lists."""

    name: ClassVar[str] = "counting-table, bit vector"

    def _reset(self) -> None:
        super()._reset()
        self._bits = np.zeros(8, np.uint8)

    def _match(self, event: CodedEvent) -> npt.NDArray[np.int32]:
        satisfied = self.predicates.satisfied(event)
        self._bits = grown(self._bits, len(self.predicates.numbering) // 8 + 1)
        set_all(self._bits, satisfied)
        count = read_all(self._bits, satisfied)
        self.work.subscriptions_checked += self.associated.rows
        return self.associated.matching(satisfied[:count])


@kernel
def set_all(bits, numbers):  # type: ignore[no-untyped-def]
    for i in range(len(numbers)):
        bits[numbers[i] >> 3] |= np.uint8(1 << (numbers[i] & 7))


@kernel
def read_all(bits, found):  # type: ignore[no-untyped-def]
    """Write the numbers whose bits are set, ascending, and clear the vector; return how many there are."""
    count = 0
    for byte in range(len(bits)):
        if bits[byte] != 0:
            for bit in range(8):
                if bits[byte] >> bit & 1:
                    found[count] = 8 * byte + bit
                    count += 1
            bits[byte] = 0
    return count
