"""Texts are coded where Arrow has them, as each would be alone."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pyarrow as pa
import pytest

from tocsin.index.coder import TextCoder

CONSTANTS = sorted(
    [
        "",
        "a",
        "ab",
        "abcdefgh",
        "abcdefghi",
        "abcdefgh\0",
        "b" * 40,
        "b" * 41,
        "Zürich",
        "zürich",
        "\0",
        "日本",
        "😀",
        "z😀",
    ]
)


def code_of(text: str) -> int:
    place = bisect_left(CONSTANTS, text)
    return 2 * place + (place < len(CONSTANTS) and CONSTANTS[place] == text)


def codes(coder: TextCoder, texts: pa.StringArray) -> list[int]:
    found = np.zeros(len(texts), np.int32)
    coder.code_into(texts, found)
    listed: list[int] = found.tolist()
    return listed


OTHERS = [
    "A",
    "aa",
    "abcdefg",
    "abcdefgj",
    "b" * 39,
    "b" * 42,
    "\0\0",
    "日",
    "日本語",
    "😁",
    "~",
    "\U0010ffff",
    "\uffff",
]


@pytest.mark.parametrize("start", [0, 1, 7])
def test_constants_and_others_have_the_codes_of_their_order(start: int) -> None:
    texts = [*CONSTANTS, *OTHERS, *CONSTANTS[::-1]]
    array = pa.array(texts).slice(start, len(texts) - start - 2)
    assert codes(TextCoder(CONSTANTS), array) == [code_of(text) for text in array.to_pylist()]


def test_no_constants_and_only_empty_texts() -> None:
    assert codes(TextCoder([]), pa.array(["", "x"])) == [0, 0]
    assert codes(TextCoder(["", "x"]), pa.array(["", ""])) == [1, 1]


def test_many_constants_are_told_apart() -> None:
    constants = sorted(f"common beginning {number} common end" for number in range(3_000))
    found = codes(TextCoder(constants), pa.array(constants))
    assert found == [2 * place + 1 for place in range(len(constants))]
