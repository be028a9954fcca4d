"""GrowingArray: a NumPy array that only grows at its end, so that what was seen of it stays as it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", bound=np.generic)


class GrowingArray(Generic[T]):
    """Appending takes amortised constant time, and a view none; views of different sizes agree where both reach."""

    def __init__(self, kind: type[T], values: npt.NDArray[T] | Sequence[object] = ()) -> None:
        self._room: npt.NDArray[T] = np.array(values, kind)
        self._size = len(values)

    def __len__(self) -> int:
        return self._size

    def extend(self, values: Sequence[int]) -> None:
        """Append values."""
        size = self._size + len(values)
        if size > len(self._room):
            room = np.empty(max(16, 2 * size), self._room.dtype)
            room[: self._size] = self._room[: self._size]
            self._room = room  # views of the old one keep it
        self._room[self._size : size] = values
        self._size = size

    @property
    def view(self) -> npt.NDArray[T]:
        """The values so far; nothing that is appended later changes them."""
        return self._room[: self._size]
