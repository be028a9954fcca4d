"""The bit kernels against NumPy, and the portable one against the fast one."""

# Numba gives compiled functions and intrinsics types that mypy cannot follow.
# mypy: disable-error-code="call-arg, unreachable, type-var, assignment"

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt
import pytest

from tocsin.matching.columnar.bits import (
    FEW,
    HAS_AVX2,
    HAS_SPREAD,
    append_selected_avx2,
    append_selected_portable,
    many_of_eight,
    prefetch,
    some_of_eight,
    spread_at_once,
    spread_portable,
)
from tocsin.matching.columnar.workspace import group_runs

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


@numba.njit
def _masks(words: npt.NDArray[np.uint64], at: np.uint64) -> tuple[np.uint64, np.uint64]:
    prefetch(words, 1 << 20)
    return some_of_eight(words, at), many_of_eight(words, at)


def test_masks_tell_words_with_some_bits_and_with_many() -> None:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2 * FEW, 300)
    words = np.array([sum(1 << int(b) for b in rng.choice(64, n, replace=False)) for n in bits], np.uint64)
    for at in range(len(words) - 8):
        masks: tuple[int, int] = _masks(words, np.uint64(at))
        for mask, limit in zip(masks, (0, FEW), strict=True):
            assert [mask >> i & 1 for i in range(8)] == [int(n > limit) for n in bits[at : at + 8]]


@pytest.mark.parametrize("count", [0, 1, 400])
def test_runs_of_an_event_stand_together_in_their_order(count: int) -> None:
    rng = np.random.default_rng(2)
    runs = rng.integers(0, 1000, (count, 4)).astype(np.int32)
    runs[:, 0] = rng.integers(0, 50, count)
    start, grouped = np.full(60, 77, np.int32), np.zeros((count + 5, 4), np.int32)
    group_runs(runs, count, 50, start, grouped)
    for event in range(50):
        assert grouped[start[event] : start[event + 1]].tolist() == runs[runs[:, 0] == event].tolist()


@numba.njit
def _spread_at_once(bits: np.uint64, mask: np.uint64) -> np.uint64:
    return spread_at_once(bits, mask)


@pytest.mark.parametrize(
    "way",
    [
        spread_portable,
        pytest.param(_spread_at_once, marks=pytest.mark.skipif(not HAS_SPREAD, reason="no such instruction")),
    ],
)
def test_bits_are_spread_to_the_places_of_a_mask(way: numba.core.dispatcher.Dispatcher) -> None:
    rng = np.random.default_rng(2)
    for mask in [*WORDS, *(int(word) for word in rng.integers(0, 2**64, 100, dtype=np.uint64))]:
        bits = int(rng.integers(0, 2**64, dtype=np.uint64))
        places = [at for at in range(64) if mask >> at & 1]
        right = sum((bits >> rank & 1) << place for rank, place in enumerate(places))
        assert int(way(np.uint64(bits), np.uint64(mask))) == right
