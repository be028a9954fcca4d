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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.index.coded_batch import MultipleCodes
from tocsin.index.coder import TextCoder, places_of_texts
from tocsin.index.jit import helper, kernel
from tocsin.index.raw_memory import ascii_texts, byte_at, int32_at
from tocsin.language.syntax import Words
from tocsin.language.text_patterns import words

if TYPE_CHECKING:
    import pyarrow as pa

Codes = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
_FNV_PRIME, _SPREAD = np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class WordTokens:
    """Text e has the words tokens[offset[e] : offset[e + 1]]; word w is the bytes word[w] .. word[w + 1] of `data`."""

    tokens: Codes
    offset: Int64s
    present: npt.NDArray[np.bool_]
    data: Bytes
    word: Int64s
    places: dict[TextCoder, Int64s] = field(default_factory=dict)  # of the words among the constants of coders, so far

    @classmethod
    def of_one(cls, text: str | None) -> WordTokens:
        """Return the words of one text."""
        plain = "" if text is None else text if text.isascii() else " ".join(words(text))
        data = np.frombuffer(plain.encode() or b" ", np.uint8)
        ends, present = np.array([0, len(data)], np.int32), np.array([text is not None])
        tokens, offset, vocabulary, word = cut_words(ends.ctypes.data, data.ctypes.data, present)
        return cls(tokens, offset, present, vocabulary, word)

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
        offset, codes = distinct_codes(self.tokens, self.offset, self._places(coder), len(coder.offset) - 1)
        return MultipleCodes(offset, codes, self.present)

    def satisfying(self, patterns: WordPatterns, chosen: npt.NDArray[np.int32], texts: Int64s) -> npt.NDArray[np.bool_]:
        """Return whether text texts[i] satisfies pattern chosen[i], for each i."""
        coder = patterns.coder
        asked = AskedWords(patterns.words, patterns.gaps, patterns.offset)
        return in_order(self.tokens, self.offset, self._places(coder), len(coder.offset) - 1, asked, chosen, texts)

    def _places(self, coder: TextCoder) -> Int64s:
        known = self.places.get(coder)
        if known is None:
            known = self.places[coder] = places_of_texts(
                self.data.ctypes.data, self.word, coder.data.ctypes.data, coder.offset, coder.table
            )
        return known


class AskedWords(NamedTuple):
    """What kernels read of WordPatterns."""

    words: Int64s
    gaps: Int64s
    offset: Int64s


class WordPatterns:
    """Words in order, with so many others between: pattern p are words[offset[p] : offset[p + 1]], the gaps beside them.

    Words are numbered as the coder of a segment's words has them, if it has them all: what codes texts then finds them here.
    """

    def __init__(self, patterns: Sequence[Words], coder: TextCoder | None = None) -> None:
        asked = [word for pattern in patterns for word in pattern.words]
        places = {word: place for place, word in enumerate(coder.constants)} if coder is not None else {}
        if coder is None or not all(word in places for word in asked):
            places = {word: place for place, word in enumerate(dict.fromkeys(asked))}
            coder = TextCoder(list(places))
        self.coder = coder
        self.words = np.array([places[word] for word in asked], np.int64)
        self.gaps = np.array(
            [gap for pattern in patterns for gap in ((0, 0), *pattern.gaps)], np.int64
        ).reshape(-1, 2)  # before each word, and nothing before the first  # fmt: skip
        self.offset = np.zeros(len(patterns) + 1, np.int64)
        np.cumsum([len(pattern.words) for pattern in patterns], out=self.offset[1:])


# What a byte is within a word: itself, a small letter for a capital one, 0 where it separates words.
_WITHIN = np.array(
    [byte if byte >= 128 or chr(byte).isalnum() else 0 for byte in b"".join(bytes([n]).lower() for n in range(256))], np.uint8
)  # fmt: skip
_SHORT = 8  # bytes of a word that is its own hash


@kernel
def cut_words(offsets: int, texts: int, present: npt.NDArray[np.bool_]) -> tuple[Codes, Int64s, Bytes, Int64s]:
    """Return the fields tokens, offset, data and word of WordTokens; letters of ASCII become small.

    Words are longest runs of letters, digits, and bytes of letters beyond ASCII.
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
                byte = _WITHIN[byte_at(at)]
                at += 1
                if byte == 0:
                    continue
                # The word is written behind the vocabulary; it stays there if it is new. Its first bytes are its hash.
                h, z = np.uint64(0), np.uint64(end)
                short = z + np.uint64(_SHORT)
                while byte != 0:
                    data[z] = byte
                    z += np.uint64(1)
                    h = (h << np.uint64(8)) | np.uint64(byte)
                    if at == stop or z == short:
                        break
                    byte = _WITHIN[byte_at(at)]
                    at += 1
                if z == short:
                    while at < stop:
                        byte = _WITHIN[byte_at(at)]
                        at += 1
                        if byte == 0:
                            break
                        data[z] = byte
                        z += np.uint64(1)
                        h = (h ^ np.uint64(byte)) * _FNV_PRIME
                length = np.int64(z) - end
                mask = (1 << bits) - 1
                slot = np.int64((h * _SPREAD) >> np.uint64(64 - bits))
                found = np.int64(table[slot])
                while found >= 0:
                    alike = hashes[found] == h and word[found + 1] - word[found] == length
                    # Short words of one hash and length are the same.
                    if alike and (length <= _SHORT or same_bytes(data, word[found], word[found + 1], end, np.int64(z))):
                        break
                    slot = (slot + 1) & mask
                    found = np.int64(table[slot])
                if found < 0:
                    found = known
                    hashes[known], table[slot] = h, known
                    known += 1
                    end = np.int64(z)
                    word[known] = end
                    if 2 * known > len(table):
                        bits += 2
                        table = np.full(1 << bits, -1, np.int32)
                        for w in range(known):
                            slot = np.int64((hashes[w] * _SPREAD) >> np.uint64(64 - bits))
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
    tokens: Codes, offset: Int64s, place: Int64s, words: int, asked: AskedWords, chosen: Codes, texts: Int64s
) -> npt.NDArray[np.bool_]:
    """Return which texts[i] have the words of pattern chosen[i] in order, with gaps[w, 0] .. gaps[w, 1] words before word w.

    The words of pattern p are word[pattern[p] : pattern[p + 1]], each a number below `words`; place[t] is the number that
    token t has among them, -1 for none. Of a text, the places of each word that patterns ask for are chained, so that a
    pattern takes as long as its words occur; texts that follow one another are chained once.
    """
    word, gaps, pattern = asked
    holds = np.zeros(len(texts), np.bool_)
    longest = 0
    for text in texts:
        longest = max(longest, offset[text + 1] - offset[text])
    # `known` is never cleared: what it says of a word counts only where `listed` has the word there.
    known, listed = np.empty(words, np.int32), np.empty(longest + 1, np.int32)
    head, after = np.empty(longest + 1, np.int32), np.empty(longest + 1, np.int32)
    # Where what was found so far ends, ascending; and where it then ends.
    ends, longer = np.empty(longest + 1, np.int32), np.empty(longest + 1, np.int32)
    current, count = np.int64(-1), 0
    for z in range(len(texts)):
        if texts[z] != current:
            current, count = texts[z], 0
            start = offset[current]
            for p in range(offset[current + 1] - start - 1, -1, -1):
                w = place[tokens[start + p]]
                if w < 0:
                    continue
                at = np.int64(known[w])
                if not (0 <= at < count and listed[at] == w):
                    at = count
                    known[w], listed[at], head[at] = at, w, -1
                    count += 1
                after[p], head[at] = head[at], p
        first, last = pattern[chosen[z]], pattern[chosen[z] + 1]
        found = 0
        for w in range(first, last):
            at, p = np.int64(known[word[w]]), np.int64(-1)
            if 0 <= at < count and listed[at] == word[w]:
                p = np.int64(head[at])
            kept, e = 0, 0
            while p >= 0:
                following = np.int64(after[p])
                if w == first:
                    ends[kept] = p
                    kept += 1
                else:
                    # The ends that may come before p move on with it.
                    while e < found and ends[e] < p - 1 - gaps[w, 1]:
                        e += 1
                    if e < found and ends[e] <= p - 1 - gaps[w, 0]:
                        longer[kept] = p
                        kept += 1
                p = following
            found = kept
            if w > first:
                ends, longer = longer, ends
            if found == 0:
                break
        holds[z] = found > 0
    return holds
