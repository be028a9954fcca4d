"""WordTokens: the words of a batch of texts, cut once, in bytes where Arrow has them; no word becomes a Python object.

Each text is a list of numbers of words, in order; the batch has a vocabulary of its own. A segment codes the vocabulary
by its constants, and so its events; word patterns are looked for among the numbers. What a word is, is said by
language/text_patterns.py: texts in ASCII are cut here by the same rule, others are brought into the form in which words are
compared there, and are cut here at the blanks. Used by index/encode.py and matching/deciders.py.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tocsin.index.coder import TextCoder, places_of_texts
from tocsin.index.jit import helper, kernel
from tocsin.index.key_column import MultipleCodes
from tocsin.index.raw_memory import ascii_texts, byte_at, int32_at
from tocsin.language.syntax import Words
from tocsin.language.text_patterns import words

if TYPE_CHECKING:
    import pyarrow as pa

Codes = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
_FNV_START, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


@dataclass(frozen=True, slots=True)
class WordTokens:
    """Text e has the words tokens[offset[e] : offset[e + 1]]; word w is the bytes word[w] .. word[w + 1] of `data`."""

    tokens: Codes
    offset: Int64s
    present: npt.NDArray[np.bool_]
    data: Bytes
    word: Int64s

    @classmethod
    def of(cls, texts: pa.StringArray) -> WordTokens:
        """Return the words of texts; a null has none, and is not present."""
        import pyarrow as pa

        _, offsets, data = texts.buffers()
        start, address = offsets.address + 4 * texts.offset, 0 if data is None else data.address
        plain = ascii_texts(start, address, len(texts))
        present = np.ones(len(texts), np.bool_)
        if texts.null_count:
            present = texts.is_valid().to_numpy(zero_copy_only=False)
            plain |= ~present
        if not plain.all():
            others = np.flatnonzero(~plain)
            compared = [" ".join(words(text)) for text in texts.take(pa.array(others)).to_pylist()]
            texts = pa.compute.replace_with_mask(texts, pa.array(~plain), pa.array(compared, pa.string()))
            _, offsets, data = texts.buffers()
            start, address = offsets.address + 4 * texts.offset, 0 if data is None else data.address
        tokens, offset, vocabulary, word = cut_words(start, address, present)
        return cls(tokens, offset, present, vocabulary, word)

    def coded(self, coder: TextCoder) -> MultipleCodes:
        """Return the distinct words of each text that are constants, as codes, ascending."""
        table = coder.table
        place = places_of_texts(self.data.ctypes.data, self.word, coder.data.ctypes.data, coder.offset, table)
        offset, codes = distinct_codes(self.tokens, self.offset, place, len(coder.offset) - 1)
        return MultipleCodes(offset, codes, self.present)

    def satisfying(self, patterns: WordPatterns, chosen: npt.NDArray[np.int32], texts: Int64s) -> npt.NDArray[np.bool_]:
        """Return whether text texts[i] satisfies pattern chosen[i], for each i."""
        coder = patterns.coder
        place = places_of_texts(self.data.ctypes.data, self.word, coder.data.ctypes.data, coder.offset, coder.table)
        number = np.full(len(coder.offset) - 1, -1, np.int64)
        number[place[place >= 0]] = np.flatnonzero(place >= 0)
        return in_order(
            self.tokens, self.offset, number[patterns.words], patterns.gaps, patterns.offset, chosen, texts
        )  # fmt: skip


class WordPatterns:
    """Words in order, with so many others between: pattern p are words[offset[p] : offset[p + 1]], the gaps beside them."""

    def __init__(self, patterns: Sequence[Words]) -> None:
        places: dict[str, int] = {}
        self.words = np.array(
            [places.setdefault(word, len(places)) for pattern in patterns for word in pattern.words], np.int64
        )
        self.gaps = np.array(
            [gap for pattern in patterns for gap in ((0, 0), *pattern.gaps)], np.int64
        ).reshape(-1, 2)  # before each word, and nothing before the first  # fmt: skip
        self.offset = np.zeros(len(patterns) + 1, np.int64)
        np.cumsum([len(pattern.words) for pattern in patterns], out=self.offset[1:])
        self.coder = TextCoder(list(places))


@helper
def is_word_byte(byte: np.uint8) -> bool:
    """Return whether a byte is part of a word: a digit, a letter, or of a letter beyond ASCII."""
    return byte >= 128 or 48 <= byte <= 57 or 97 <= (byte | 32) <= 122


@kernel
def cut_words(offsets: int, texts: int, present: npt.NDArray[np.bool_]) -> tuple[Codes, Int64s, Bytes, Int64s]:
    """Return the fields tokens, offset, data and word of WordTokens; letters of ASCII become small.

    Words are longest runs of is_word_byte.
    """
    count = len(present)
    total = np.int64(int32_at(offsets, np.uint64(count))) - np.int64(int32_at(offsets, np.uint64(0)))
    tokens, offset = np.empty(total // 2 + count + 1, np.int32), np.zeros(count + 1, np.int64)
    data, word = np.empty(total + 1, np.uint8), np.zeros(total // 2 + count + 2, np.int64)
    hashes = np.empty(len(word), np.uint64)
    bits = 10
    table = np.full(1 << bits, -1, np.int32)
    n, known, end = 0, 0, np.int64(0)
    for i in range(count):
        if present[i]:
            at = texts + np.int64(int32_at(offsets, np.uint64(i)))
            stop = texts + np.int64(int32_at(offsets, np.uint64(i + 1)))
            while at < stop:
                byte = byte_at(at)
                if not is_word_byte(byte):
                    at += 1
                    continue
                # The word is written behind the vocabulary; it stays there if it is new.
                h, z = _FNV_START, end
                while True:
                    if byte - np.uint8(65) < 26:
                        byte |= np.uint8(32)
                    data[z] = byte
                    h = (h ^ np.uint64(byte)) * _FNV_PRIME
                    z += 1
                    at += 1
                    if at == stop:
                        break
                    byte = byte_at(at)
                    if not is_word_byte(byte):
                        break
                mixed = h ^ (h >> np.uint64(32))
                mask = (1 << bits) - 1
                slot = np.int64(mixed) & mask
                found = np.int64(table[slot])
                while found >= 0:
                    if hashes[found] == h and same_bytes(data, word[found], word[found + 1], end, z):
                        break
                    slot = (slot + 1) & mask
                    found = np.int64(table[slot])
                if found < 0:
                    found = known
                    hashes[known], table[slot] = h, known
                    known += 1
                    word[known] = end = z
                    if 2 * known > len(table):
                        bits += 2
                        table = np.full(1 << bits, -1, np.int32)
                        for w in range(known):
                            slot = np.int64(hashes[w] ^ (hashes[w] >> np.uint64(32))) & ((1 << bits) - 1)
                            while table[slot] >= 0:
                                slot = (slot + 1) & ((1 << bits) - 1)
                            table[slot] = w
                tokens[n] = found
                n += 1
        offset[i + 1] = n
    return tokens[:n].copy(), offset, data[: end + 1].copy(), word[: known + 1].copy()


@helper
def same_bytes(data: Bytes, a: int, a_end: int, b: int, b_end: int) -> bool:
    """Return whether data[a:a_end] and data[b:b_end] are the same."""
    if a_end - a != b_end - b:
        return False
    i = 0
    while a + i < a_end and data[a + i] == data[b + i]:
        i += 1
    return a + i == a_end


@kernel
def distinct_codes(tokens: Codes, offset: Int64s, place: Int64s, constants: int) -> tuple[Int64s, Codes]:
    """Return the codes 2 * place[w] + 1 of the words w of each text, ascending and once; those without a place left out."""
    # A few texts are cheaper to sort than all constants to clear.
    few = 8 * len(tokens) < constants
    last = np.full(0 if few else constants + 1, -1, np.int64)
    kept_offset, kept = np.zeros(len(offset), np.int64), np.empty(len(tokens), np.int32)
    n = 0
    for e in range(len(offset) - 1):
        start = n
        for i in range(offset[e], offset[e + 1]):
            c = place[tokens[i]]
            if c >= 0 and (few or last[c] != e):
                if not few:
                    last[c] = e
                kept[n] = 2 * c + 1
                n += 1
        kept[start:n].sort()
        if few:
            end, n = n, start
            for i in range(start, end):
                if n == start or kept[n - 1] != kept[i]:
                    kept[n] = kept[i]
                    n += 1
        kept_offset[e + 1] = n
    return kept_offset, kept[:n].copy()


@kernel
def in_order(
    tokens: Codes, offset: Int64s, word: Int64s, gaps: npt.NDArray[np.int64], pattern: Int64s, chosen: Codes,
    texts: Int64s,
) -> npt.NDArray[np.bool_]:  # fmt: skip
    """Return which texts[i] have the words of pattern chosen[i] in order, with gaps[w, 0] .. gaps[w, 1] words before word w.

    The words of pattern p are word[pattern[p] : pattern[p + 1]]; -1 where no text has it.
    """
    holds = np.zeros(len(texts), np.bool_)
    longest = 0
    for e in texts:
        longest = max(longest, offset[e + 1] - offset[e])
    # before[p]: how many of the first p words end what was found so far.
    before, after = np.zeros(longest + 1, np.int64), np.zeros(longest + 1, np.int64)
    for z in range(len(texts)):
        start, length = offset[texts[z]], offset[texts[z] + 1] - offset[texts[z]]
        first, last = pattern[chosen[z]], pattern[chosen[z] + 1]
        for p in range(length):
            before[p + 1] = before[p] + (tokens[start + p] == word[first])
        for w in range(first + 1, last):
            least, most = gaps[w, 0], gaps[w, 1]
            for p in range(length):
                ends = False
                if tokens[start + p] == word[w]:
                    low, high = max(p - 1 - most, 0), p - least
                    ends = high > low and before[high] > before[low]
                after[p + 1] = after[p] + ends
            before, after = after, before
        holds[z] = before[length] > 0
    return holds
