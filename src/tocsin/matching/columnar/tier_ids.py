"""TierIds: the ids of all tiers, one behind the other; what matching finds are places among them.

Only where some ids are texts, or numbers among texts: see Matches. Ids are decoded where somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tocsin.compile.ids import Ids, TextIds, joined_ids

if TYPE_CHECKING:
    import pyarrow as pa

INT32_BYTES = 2**31 - 1  # of a text array with offsets of 32 bits


class TierIds:
    """Ids by code."""

    def __init__(self, ids: Sequence[Ids]) -> None:
        self._ids = ids
        self._first = np.cumsum([0, *(len(each) for each in ids)])

    def __len__(self) -> int:
        return int(self._first[-1])

    def take(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the ids of these codes, as objects."""
        if len(self._ids) == 1:
            return _taken(self._ids[0], codes)
        found = np.empty(len(codes), object)
        tier = np.searchsorted(self._first, codes, side="right") - 1
        for at in np.unique(tier).tolist():
            mine = tier == at
            found[mine] = _taken(self._ids[at], codes[mine] - self._first[at])
        return found

    @cached_property
    def arrow(self) -> pa.Array:
        """All ids as an Arrow array: whole numbers, or texts. Raises TypeError where there are both."""
        import pyarrow as pa

        ids = joined_ids(self._ids)
        if not isinstance(ids, TextIds):
            return pa.array(ids)
        if ids.has_numbers:
            raise TypeError(
                "some ids are texts and some are numbers: an Arrow column holds either; ask for `ids` instead"
            )
        small = len(ids.data) <= INT32_BYTES
        offset = pa.py_buffer(np.ascontiguousarray(ids.offset, np.int32 if small else np.int64))
        kind = pa.StringArray if small else pa.LargeStringArray
        texts = kind.from_buffers(len(ids), offset, pa.py_buffer(np.ascontiguousarray(ids.data)))
        texts.validate(full=True)  # a text that is no valid UTF-8 (lone surrogates) has no Arrow form
        return texts


def _taken(ids: Ids, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if isinstance(ids, TextIds):
        return ids.take(numbers)
    found = np.empty(len(numbers), object)
    found[:] = ids[numbers].tolist()
    return found
