"""The bit kernels against NumPy, and the portable one against the fast one."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt
import pytest

from tocsin.matching.columnar.bits import HAS_AVX2, append_selected_avx2, append_selected_portable

WORDS = [0, 1, 2**63, 2**64 - 1, 0b1011, 0x00FF00FF00FF00FF, 0xF0F0F0F0F0F0F0F0, 0x123456789ABCDEF0]


@numba.njit
def _portable(word: np.uint64, numbers: npt.NDArray[np.int32], out: npt.NDArray[np.int32]) -> int:
    return append_selected_portable(word, numbers, 3, out, 0)


@numba.njit
def _avx2(word: np.uint64, numbers: npt.NDArray[np.int32], out: npt.NDArray[np.int32]) -> int:
    return append_selected_avx2(word, numbers, 3, out, 0)


@pytest.mark.parametrize(
    "way", [_portable, pytest.param(_avx2, marks=pytest.mark.skipif(not HAS_AVX2, reason="no AVX2"))]
)
def test_selected_numbers_are_those_of_the_bits(way: numba.core.dispatcher.Dispatcher) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 10**6, 64 + 3 + 64).astype(np.int32)
    words = [*WORDS, *(int(word) for word in rng.integers(0, 2**64, 200, dtype=np.uint64))]
    for word in words:
        out = np.zeros(200, np.int32)
        count = way(np.uint64(word), numbers, out)
        expected = [numbers[3 + bit] for bit in range(64) if word >> bit & 1]
        assert out[:count].tolist() == expected
