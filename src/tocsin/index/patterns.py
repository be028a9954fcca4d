"""PatternCoder: which of a column's patterns each text is like, found in one pass over the bytes of the texts.

A column of patterns (compile/table.py) has patterns as constants; an event has the codes of those that some value of its
attribute is like. Of each pattern one literal is an **anchor**, at most ANCHOR bytes that every text like it has; of each
anchor one **gram** (4 bytes, or 2 or 1 where it is short) that few anchors have. The pass looks up the gram at each place
of a text in a bitset, which is nearly always all; then come the anchors with that gram, compared; then, once a text, the
patterns with that anchor, verified in full unless the anchor says all. So the time grows with the text and with what is
nearly found, not with the patterns. Case is folded once per text: here where it is ASCII, by Python where it is not.

What a pattern means is said by language/text_patterns.py. The arrays are made from the constants when a segment is opened, as
those of TextCoder are. Used by index/encode.py.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.index.coded_batch import CodesOfOne, MultipleCodes
from tocsin.index.jit import helper, inlined, kernel
from tocsin.index.raw_memory import (
    ascii_texts,
    byte_at,
    count_ones,
    int32_at,
    int32s_at,
    int64s_at,
    uint8s_at,
    uint64s_at,
    word_at,
)
from tocsin.language.text_patterns import AS_IT_IS, FOLDED, Piece, like_of

if TYPE_CHECKING:
    import pyarrow as pa

Codes = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

ANCHOR = 32  # bytes
ANY = np.uint8(0xFF)  # stands for _: no text in UTF-8 has this byte
LEVELS = (4, 2, 1)  # bytes of a gram
STARTS, ENDS, SURE = 1, 2, 4
PADDING = 16  # bytes behind a text that may be read
LONG = 16  # bytes of a piece from which on it is looked for without trying anything twice
TELLING = 4  # bytes of a literal that tells texts apart
_PADDING = bytes(PADDING)
_MOST_NUMBERS = 2**31 - 1  # of texts, that the scratch tells apart
_MIXER = np.uint64(0x9E3779B97F4A7C15)


class Grams(NamedTuple):
    """The anchors by a gram of theirs: those whose gram hashes to h, if any (bits), are anchor[start[r] : start[r + 1]].

    r is the number of set bits before bit h: rank[h >> 6] in the words before. So there is a start for each hash that occurs,
    and not for the 32 times as many that do not, and all of it stays in the cache.
    """

    bits: Words
    rank: Codes
    start: Codes
    anchor: Codes


class GramLevel(NamedTuple):
    """Grams of one size, hashed to so many bits, that begin there in arrays as those of Grams."""

    size: int
    bits: int
    words: Words
    rank: Codes
    first_word: int
    start: Codes
    first_start: int
    anchor: Codes


class Arrays(NamedTuple):
    """The patterns of one form, flat.

    Pattern p has the pieces pattern[p] .. pattern[p + 1], of the bytes piece[k] .. piece[k + 1] of `data`. Anchor a are the
    bytes anchor[a] .. anchor[a + 1] of `anchor_data`, its gram is gram[a] bytes on; the patterns with it are
    listed[anchored[a] : anchored[a + 1]]. `bare` are the patterns without any literal.
    """

    data: Bytes
    piece: Int64s
    pattern: Int64s
    flags: Bytes
    code: Codes
    anchor_data: Bytes
    anchor: Int64s
    gram: Int64s
    anchored: Int64s
    listed: Codes
    bare: Codes


class Scratch(NamedTuple):
    """What a pass over texts writes beside what it finds.

    fired[a] is the number of the last text that has anchor a. `work` counts PLACES of texts where a gram was looked up,
    bytes COMPARED with anchors, and bytes VERIFIED with patterns: what the pass costs, whatever the machine.
    """

    fired: Codes
    work: Int64s


PLACES, COMPARED, VERIFIED = range(3)


class Place(NamedTuple):
    """Where texts lie in memory, as Arrow has them: addresses of int32 offsets and of bytes; `owner` keeps them there."""

    offsets: int
    data: int
    owner: object


class PatternTexts:
    """Texts of events in the forms in which patterns look at them: event e has the texts offset[e] .. offset[e + 1]."""

    def __init__(
        self, plain: Place, offset: Int64s, present: npt.NDArray[np.bool_], folded: Callable[[], Place]
    ) -> None:
        self.plain, self.offset, self.present = plain, offset, present
        self._folded = folded

    @classmethod
    def of_column(cls, texts: pa.StringArray) -> PatternTexts:
        """Return the texts of events that have one each; a null is no text."""
        present = np.ones(len(texts), np.bool_)
        offset = np.arange(len(texts) + 1)
        if texts.null_count:
            present = texts.is_valid().to_numpy(zero_copy_only=False)
            texts, offset = texts.drop_null(), _sums(present)
        return cls(_place_of(texts), offset, present, lambda: _fold_column(texts))

    @classmethod
    def of_values(cls, values: Sequence[tuple[Any, ...] | None]) -> PatternTexts:
        """Return the texts of events that have any number of them."""
        texts: list[str] = [text for found in values for text in found or ()]
        present = np.array([found is not None for found in values], np.bool_)
        offset = _sums([len(found or ()) for found in values])
        return cls(_laid_out(texts), offset, present, lambda: _fold_values(texts))

    @cached_property
    def folded(self) -> Place:
        """The texts, those beyond ASCII in the form of casefold; the others are folded by the kernel."""
        return self._folded()


def _laid_out(texts: Sequence[str]) -> Place:
    encoded = [text.encode() for text in texts]
    offsets = _sums(list(map(len, encoded))).astype(np.int32)
    data = _joined(encoded)
    return Place(offsets.ctypes.data, data.ctypes.data, (offsets, data))


def _fold_values(texts: Sequence[str]) -> Place:
    return _laid_out([text if text.isascii() else text.casefold() for text in texts])


def _place_of(texts: pa.StringArray) -> Place:
    _, offsets, data = texts.buffers()
    if offsets is None:  # no text at all
        return _laid_out([])
    return Place(offsets.address + 4 * texts.offset, 0 if data is None else data.address, texts)


def _fold_column(texts: pa.StringArray) -> Place:
    import pyarrow as pa
    import pyarrow.compute as pc

    place = _place_of(texts)
    plain = ascii_texts(place.offsets, place.data, len(texts))
    if plain.all():
        return place
    others = [text.casefold() for text in texts.take(pa.array(np.flatnonzero(~plain))).to_pylist()]
    return _place_of(pc.replace_with_mask(texts, pa.array(~plain), pa.array(others, pa.string())))


class PatternCoder:
    """Codes texts by the patterns that they are like; `constants` in ascending order."""

    def __init__(self, constants: Sequence[str]) -> None:
        numbered = list(enumerate(constants))
        self._folded = _Form([(2 * at + 1, text[1:]) for at, text in numbered if text[:1] == FOLDED], fold=True)
        self._plain = _Form([(2 * at + 1, text[1:]) for at, text in numbered if text[:1] == AS_IT_IS], fold=False)

    def coded(self, texts: PatternTexts) -> MultipleCodes:
        """Return the codes of events."""
        plain, folded = self._plain, self._folded
        if folded.arrays is None:
            found = plain.codes(texts.plain, texts.offset)
        elif plain.arrays is None:
            found = folded.codes(texts.folded, texts.offset)
        else:
            found = united(*plain.codes(texts.plain, texts.offset), *folded.codes(texts.folded, texts.offset))
        return MultipleCodes(*found, texts.present)

    @property
    def forms(self) -> list[_Form]:
        """The patterns by the form of the text that they look at."""
        return [form for form in (self._plain, self._folded) if form.arrays is not None]


class _Form:
    """The patterns that look at texts in one form."""

    def __init__(self, patterns: list[tuple[int, str]], *, fold: bool) -> None:
        self.fold = fold
        self.work = np.zeros(3, np.int64)  # of the last pass: see Scratch
        self.arrays: Arrays | None = None
        if patterns:
            self.arrays, self.levels = _arrays(patterns)

    def codes(self, texts: Place, event: Int64s) -> tuple[Int64s, Codes]:
        """Return offset and codes of MultipleCodes, for texts that lie there."""
        offset, codes, work = find_patterns(texts.offsets, texts.data, event, self.fold, self.arrays, *self.levels)
        self.work = work
        return offset, codes


class Stacked(NamedTuple):
    """The patterns of several forms as one: those of form f are searched by the levels f of these arrays.

    Level l of form f has bits[words[f, l] :], 1 << size[f, l] of them (none where size is 0), and start[starts[f, l] :].
    Column c has the forms form[c] .. form[c + 1]; bare[bares[f] : bares[f + 1]] are the bare patterns of form f.
    """

    arrays: Arrays
    bits: Words
    rank: Codes
    start: Codes
    anchor: Codes
    words: Int64s
    starts: Int64s
    size: Int64s
    bares: Int64s
    fold: Bytes
    form: Int64s


class StackedPatterns:
    """The patterns of several columns, found in the texts of one event by one call."""

    def __init__(self, columns: Sequence[tuple[int, str, PatternCoder]]) -> None:
        self._attributes = [attribute for _, attribute, _ in columns]
        self.positions = tuple(position for position, _, _ in columns)
        self._forms = [(attribute, form.fold) for _, attribute, coder in columns for form in coder.forms]
        self._stacked = _stacked([coder.forms for _, _, coder in columns])
        self._own = threading.local()  # per thread: scratch, where all arrays lie, and the number of the next text

    @property
    def work(self) -> Int64s:
        """What this thread's passes have cost so far: see Scratch."""
        self._numbers(0)
        work: Int64s = self._own.scratch.work
        return work

    def coded_one(self, values: Mapping[str, tuple[Any, ...]]) -> CodesOfOne:
        """Return the codes of one event in the columns whose attributes it binds, by position."""
        texts: list[Any] = []
        counts = [0]
        for attribute, _ in self._forms:
            texts += values.get(attribute, ())
            counts.append(len(texts))
        data = "".join(texts).encode()
        offset = [0, *accumulate(map(len, texts))]
        if len(data) != offset[-1]:
            encoded = self._encoded(texts, counts)
            data, offset = b"".join(encoded), [0, *accumulate(map(len, encoded))]
        first = self._numbers(len(texts))
        described = np.array(offset + counts, np.int64)
        ends, codes = find_in_one(np.frombuffer(data + _PADDING, np.uint8), described, first, self._own.places)
        present = np.array([attribute in values for attribute in self._attributes], np.bool_)
        return CodesOfOne(self.positions, ends, codes, present)

    def _encoded(self, texts: list[str], counts: list[int]) -> list[bytes]:
        """Return the texts as bytes, those beyond ASCII folded where their form is; the kernel folds the others."""
        folds = [fold for (_, fold), count in zip(self._forms, np.diff(counts), strict=True) for _ in range(count)]
        return [
            (text.casefold() if fold and not text.isascii() else text).encode()
            for text, fold in zip(texts, folds, strict=True)
        ]

    def _numbers(self, texts: int) -> int:
        """Return the first of so many numbers that this thread's scratch has not seen."""
        first: int = getattr(self._own, "next", _MOST_NUMBERS)
        if first + texts >= _MOST_NUMBERS:
            anchors, work = len(self._stacked.arrays.anchor) - 1, getattr(self._own, "work", np.zeros(3, np.int64))
            self._own.work, self._own.scratch = work, Scratch(np.full(anchors, -1, np.int32), work)
            arrays, *others = self._stacked
            listed = [*arrays, *others, *self._own.scratch]
            self._own.places = np.array([part for each in listed for part in (each.ctypes.data, each.size)], np.int64)
            first = 0
        self._own.next = first + texts
        return first


def _stacked(columns: Sequence[Sequence[_Form]]) -> Stacked:
    forms = [form for column in columns for form in column]
    arrays = [form.arrays for form in forms if form.arrays is not None]  # as all of them have
    levels = [level for form in forms for level in form.levels]
    patterns = _sums([len(each.code) for each in arrays])
    anchors = _sums([len(each.anchor) - 1 for each in arrays])
    listed = [len(level.anchor) for level in levels]
    of_form = np.repeat(np.arange(len(forms)), len(LEVELS))
    return Stacked(
        Arrays(
            data=_joined([each.data[: each.piece[-1]].tobytes() for each in arrays]),
            piece=_one_after_another([each.piece for each in arrays]),
            pattern=_one_after_another([each.pattern for each in arrays]),
            flags=np.concatenate([each.flags for each in arrays]),
            code=np.concatenate([each.code for each in arrays]),
            anchor_data=_joined([each.anchor_data[: each.anchor[-1]].tobytes() for each in arrays]),
            anchor=_one_after_another([each.anchor for each in arrays]),
            gram=np.concatenate([each.gram for each in arrays]),
            anchored=_one_after_another([each.anchored for each in arrays]),
            listed=np.concatenate([e.listed + p for e, p in zip(arrays, patterns, strict=False)]).astype(np.int32),
            bare=np.concatenate([e.bare + p for e, p in zip(arrays, patterns, strict=False)]).astype(np.int32),
        ),
        bits=np.concatenate([level.bits for level in levels]),
        rank=np.concatenate([level.rank for level in levels]),
        start=np.concatenate([e.start + p for e, p in zip(levels, _sums(listed), strict=False)]).astype(np.int32),
        anchor=np.concatenate([e.anchor + anchors[f] for e, f in zip(levels, of_form, strict=True)]).astype(np.int32),
        words=_sums([len(level.bits) for level in levels]),
        starts=_sums([len(level.start) for level in levels]),
        size=np.array([(64 * len(level.bits)).bit_length() - 1 if len(level.bits) else 0 for level in levels]),
        bares=_sums([len(each.bare) for each in arrays]),
        fold=np.array([form.fold for form in forms], np.uint8),
        form=_sums([len(column) for column in columns]),
    )


def _one_after_another(offsets: Sequence[Int64s]) -> Int64s:
    """Return the offsets of several lists for the lists put one after the other."""
    return _sums(np.concatenate([np.diff(each) for each in offsets]))


# --- making the arrays ------------------------------------------------------------------------------------------------


def _arrays(patterns: list[tuple[int, str]]) -> tuple[Arrays, list[Grams]]:
    data, piece_length, pieces, flags = [], [], [], []
    anchors: dict[bytes, list[int]] = {}
    bare: list[int] = []
    likes = [like_of(text) for _, text in patterns]
    cuts = [[_bytes(piece) for piece in like.pieces] for like in likes]
    having = Counter(run[:ANCHOR] for cut in cuts for run in {run for piece in cut for run in piece.split(b"\xff")})
    for number, (like, cut) in enumerate(zip(likes, cuts, strict=True)):
        data += cut
        piece_length += map(len, cut)
        pieces.append(len(cut))
        runs = [run for piece in cut for run in piece.split(b"\xff")]
        # Few patterns have it, so that few are verified where it is found; thousands may share a part such as aaaa.
        literal = max(runs, key=lambda run: (len(run) >= TELLING, -having[run[:ANCHOR]], len(run)), default=b"")
        anchor = literal[:ANCHOR]
        sure = len(cut) == 1 and cut[0] == anchor and not like.starts and not like.ends
        flags.append(STARTS * like.starts | ENDS * like.ends | SURE * sure)
        if anchor:
            anchors.setdefault(anchor, []).append(number)
        else:
            bare.append(number)
    places, grams = _grams(list(anchors))
    arrays = Arrays(
        data=_joined(data),
        piece=_sums(piece_length),
        pattern=_sums(pieces),
        flags=np.array(flags, np.uint8),
        code=np.array([code for code, _ in patterns], np.int32),
        anchor_data=_joined(list(anchors)),
        anchor=_sums(list(map(len, anchors))),
        gram=places,
        anchored=_sums([len(found) for found in anchors.values()]),
        listed=np.array([number for found in anchors.values() for number in found], np.int32),
        bare=np.array(bare, np.int32),
    )
    return arrays, grams


def _bytes(piece: Piece) -> bytes:
    return b"".join(b"\xff" if char is None else char.encode(errors="surrogatepass") for char in piece)


def _joined(parts: Sequence[bytes]) -> Bytes:
    return np.frombuffer(b"".join(parts) + bytes(PADDING), np.uint8).copy()


def _sums(counts: Sequence[int] | npt.NDArray[Any]) -> Int64s:
    found = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=found[1:])
    return found


def _grams(anchors: list[bytes]) -> tuple[Int64s, list[Grams]]:
    """Return the place of each anchor's gram, and the anchors by gram, for each level."""
    data, offset = _joined(anchors), _sums(list(map(len, anchors)))
    places = np.zeros(len(anchors), np.int64)
    found = []
    for level, size in enumerate(LEVELS):
        longest = LEVELS[level - 1] if level else ANCHOR + 1
        lengths = np.diff(offset)
        mine = np.flatnonzero((lengths >= size) & (lengths < longest))
        bits = min(max(int(32 * len(mine)).bit_length(), 8), 22)
        hashes = choose_grams(data, offset, mine, size, bits, places)
        order = np.argsort(hashes, kind="stable")
        words = np.zeros((1 << bits) // 64 if len(mine) else 0, np.uint64)
        distinct, counts = np.unique(hashes, return_counts=True)
        np.bitwise_or.at(words, distinct >> 6, np.uint64(1) << (distinct & 63).astype(np.uint64))
        rank = _sums(np.bincount(distinct >> 6, minlength=len(words)))[:-1].astype(np.int32)
        found.append(Grams(words, rank, _sums(counts).astype(np.int32), mine[order].astype(np.int32)))
    return places, found


@helper
def gram_hash(word: np.uint64, size: int, bits: int) -> np.int64:
    """Return the hash of the first `size` bytes of eight."""
    return np.int64(((word << np.uint64(64 - 8 * size)) * _MIXER) >> np.uint64(64 - bits))


@kernel
def choose_grams(data: Bytes, offset: Int64s, mine: Int64s, size: int, bits: int, places: Int64s) -> Int64s:
    """Write the place of the gram that the fewest of these anchors have, for each of them; return its hash."""
    counts = np.zeros(1 << bits, np.int64)
    base = data.ctypes.data
    for a in mine:
        for at in range(offset[a], offset[a + 1] - size + 1):
            counts[gram_hash(word_at(base + at), size, bits)] += 1
    hashes = np.zeros(len(mine), np.int64)
    for i in range(len(mine)):
        a, least = mine[i], np.int64(1) << 62
        for at in range(offset[a], offset[a + 1] - size + 1):
            h = gram_hash(word_at(base + at), size, bits)
            if counts[h] < least:
                least, hashes[i], places[a] = counts[h], h, at - offset[a]
    return hashes


# --- the pass over texts ----------------------------------------------------------------------------------------------


@inlined
def open_stacked(places: Int64s) -> tuple[Stacked, Scratch]:
    """Return stacked patterns and scratch by the addresses of their arrays, as StackedPatterns notes them."""
    arrays = Arrays(
        uint8s_at(places, 0), int64s_at(places, 1), int64s_at(places, 2), uint8s_at(places, 3), int32s_at(places, 4),
        uint8s_at(places, 5), int64s_at(places, 6), int64s_at(places, 7), int64s_at(places, 8), int32s_at(places, 9),
        int32s_at(places, 10),
    )  # fmt: skip
    stacked = Stacked(
        arrays, uint64s_at(places, 11), int32s_at(places, 12), int32s_at(places, 13), int32s_at(places, 14),
        int64s_at(places, 15), int64s_at(places, 16), int64s_at(places, 17), int64s_at(places, 18), uint8s_at(places, 19),
        int64s_at(places, 20),
    )  # fmt: skip
    return stacked, Scratch(int32s_at(places, 21), int64s_at(places, 22))


@kernel
def find_in_one(data: Bytes, texts: Int64s, first: int, places: Int64s) -> tuple[Int64s, Codes]:
    """Return the codes that one event has in each column, ascending and once: offset by column, codes.

    `texts` are offsets of the texts in `data` and their end, then counts: form f looks at the texts counts[f] .. counts[f + 1].
    To the scratch, text 0 has the number `first`.
    """
    stacked, scratch = open_stacked(places)
    split = len(texts) - len(stacked.fold) - 1
    offset, counts = texts[:split], texts[split:]
    longest, arrays, base = np.int64(0), stacked.arrays, data.ctypes.data
    for t in range(len(offset) - 1):
        longest = max(longest, offset[t + 1] - offset[t])
    text = np.empty(longest + PADDING, np.uint8)
    found, n = np.empty(256, np.int32), 0
    ends = np.zeros(len(stacked.form), np.int64)
    for c in range(len(stacked.form) - 1):
        start = n
        for f in range(stacked.form[c], stacked.form[c + 1]):
            for t in range(counts[f], counts[f + 1]):
                length = offset[t + 1] - offset[t]
                copy_text(base + offset[t], length, stacked.fold[f] != 0, text)
                for z in range(stacked.bares[f], stacked.bares[f + 1]):
                    if is_like_bytes(text, length, arrays.bare[z], arrays, scratch.work):
                        found, n = _put(found, n, arrays.code[arrays.bare[z]])
                for level in range(len(LEVELS)):
                    at = len(LEVELS) * f + level
                    if stacked.size[at]:
                        one = GramLevel(
                            LEVELS[level], np.int64(stacked.size[at]), stacked.bits, stacked.rank,
                            np.int64(stacked.words[at]), stacked.start, np.int64(stacked.starts[at]), stacked.anchor,
                        )  # fmt: skip
                        found, n = _scan(text, length, first + t, one, arrays, scratch, found, n)
        n = _sorted_once(found, start, n)
        ends[c + 1] = n
    return ends, found[:n].copy()


@helper
def _sorted_once(found: Codes, start: int, n: int) -> int:
    """Sort found[start:n] and leave out what is there twice; return the new end."""
    if n - start < 2:
        return n
    found[start:n].sort()
    end, n = n, start + 1
    for j in range(start + 1, end):
        if found[j] != found[n - 1]:
            found[n] = found[j]
            n += 1
    return n


@kernel
def find_patterns(
    offsets: int, texts: int, event: Int64s, fold: bool, arrays: Arrays, four: Grams, two: Grams, one: Grams
) -> tuple[Int64s, Codes, Int64s]:
    """Return the codes of the patterns that some text of each event is like, ascending and once: offset, codes; and the work.

    Text i are the bytes offsets[i] .. of those at `texts`; event e has the texts event[e] .. event[e + 1].
    """
    count, longest = event[-1], np.int64(0)
    for i in range(np.uint64(event[0]), np.uint64(count)):
        longest = max(longest, np.int64(int32_at(offsets, i + np.uint64(1))) - np.int64(int32_at(offsets, i)))
    text = np.empty(longest + PADDING, np.uint8)
    scratch = Scratch(np.full(len(arrays.anchor) - 1, -1, np.int32), np.zeros(3, np.int64))
    found, n = np.empty(4 * len(event) + 64, np.int32), 0
    offset = np.zeros(len(event), np.int64)
    for e in range(len(event) - 1):
        start = n
        for i in range(event[e], event[e + 1]):
            first = np.int64(int32_at(offsets, np.uint64(i)))
            length = np.int64(int32_at(offsets, np.uint64(i + 1))) - first
            copy_text(texts + first, length, fold, text)
            for p in arrays.bare:
                if is_like_bytes(text, length, p, arrays, scratch.work):
                    found, n = _put(found, n, arrays.code[p])
            if len(four.bits):
                found, n = _scan(text, length, i, level_of(four, 4), arrays, scratch, found, n)
            if len(two.bits):
                found, n = _scan(text, length, i, level_of(two, 2), arrays, scratch, found, n)
            if len(one.bits):
                found, n = _scan(text, length, i, level_of(one, 1), arrays, scratch, found, n)
        n = _sorted_once(found, start, n)
        offset[e + 1] = n
    return offset, found[:n].copy(), scratch.work


@helper
def copy_text(address: int, length: int, fold: bool, text: Bytes) -> None:
    """Write the bytes at an address, letters of ASCII small where they are to be folded, and some zeros behind."""
    if fold:
        for at in range(length):
            byte = byte_at(address + at)
            text[at] = byte | (np.uint8(32) if np.uint8(byte - np.uint8(65)) < np.uint8(26) else np.uint8(0))
    else:
        for at in range(length):
            text[at] = byte_at(address + at)
    text[length : length + PADDING] = 0


@helper
def _put(found: Codes, n: int, code: np.int32) -> tuple[Codes, int]:
    if n == len(found):
        grown = np.empty(2 * n, np.int32)
        grown[:n] = found
        found = grown
    found[n] = code
    return found, n + 1


@inlined
def level_of(grams: Grams, size: int) -> GramLevel:
    """Return a level that has its arrays to itself."""
    bits = np.int64(6)
    while (1 << bits) < 64 * len(grams.bits):
        bits += 1
    return GramLevel(size, bits, grams.bits, grams.rank, np.int64(0), grams.start, np.int64(0), grams.anchor)


@helper
def _scan(
    text: Bytes, length: int, number: int, level: GramLevel, arrays: Arrays, scratch: Scratch, found: Codes, n: int
) -> tuple[Codes, int]:
    """Append the codes of the patterns with anchors of one level that the text is like."""
    size, bits, words, rank, first_word, start, first_start, anchor = level
    base, left, right = text.ctypes.data, np.uint64(64 - 8 * size), np.uint64(64 - bits)
    fired, work = scratch
    work[PLACES] += length
    for at in range(length - size + 1):
        h = np.int64(((word_at(base + at) << left) * _MIXER) >> right)
        w, bit = np.uint64(first_word + (h >> 6)), np.uint64(1) << np.uint64(h & 63)
        if not words[w] & bit:
            continue
        r = first_start + rank[w] + count_ones(words[w] & (bit - np.uint64(1)))
        for j in range(start[r], start[r + 1]):
            a = anchor[j]
            if fired[a] == number or not _has_anchor(text, length, at, a, arrays, work):
                continue
            fired[a] = number
            for z in range(arrays.anchored[a], arrays.anchored[a + 1]):
                p = arrays.listed[z]
                if arrays.flags[p] & SURE or is_like_bytes(text, length, p, arrays, work):
                    found, n = _put(found, n, arrays.code[p])
    return found, n


@helper
def _has_anchor(text: Bytes, length: int, at: int, a: int, arrays: Arrays, work: Int64s) -> bool:
    """Return whether the anchor stands where its gram was found."""
    start, size = at - arrays.gram[a], arrays.anchor[a + 1] - arrays.anchor[a]
    if start < 0 or start + size > length:
        return False
    first, i = arrays.anchor[a], 0
    while i < size and text[start + i] == arrays.anchor_data[first + i]:
        i += 1
    work[COMPARED] += i + 1
    return i == size


@helper
def is_like_bytes(text: Bytes, length: int, p: int, arrays: Arrays, work: Int64s) -> bool:
    """Return whether the text is like pattern p: is_like of language/text_patterns.py, on bytes in UTF-8."""
    first, last, flags = arrays.pattern[p], arrays.pattern[p + 1], arrays.flags[p]
    work[VERIFIED] += 1
    at, end = np.int64(0), np.int64(length)
    if first == last:
        return length == 0 or not flags & STARTS
    if flags & STARTS:
        work[VERIFIED] += arrays.piece[first + 1] - arrays.piece[first]
        at = _after_piece(text, 0, end, arrays.piece[first], arrays.piece[first + 1], arrays.data)
        if at < 0 or (first + 1 == last and flags & ENDS):
            return at == end
        first += 1
    if flags & ENDS:
        last -= 1
        work[VERIFIED] += arrays.piece[last + 1] - arrays.piece[last]
        end = _before_piece(text, at, end, arrays.piece[last], arrays.piece[last + 1], arrays.data)
        if end < 0:
            return False
    for k in range(first, last):
        at = _find_piece(text, at, end, arrays.piece[k], arrays.piece[k + 1], arrays.data, work)
        if at < 0:
            return False
    return at <= end


@helper
def _after_piece(text: Bytes, at: int, end: int, first: int, last: int, data: Bytes) -> np.int64:
    """Return the place after the piece data[first:last] that stands at a place of the text, -1 where it does not."""
    for k in range(first, last):
        if at >= end:
            return np.int64(-1)
        if data[k] == ANY:
            at += 1
            while at < end and text[at] & np.uint8(0xC0) == np.uint8(0x80):
                at += 1
        elif text[at] == data[k]:
            at += 1
        else:
            return np.int64(-1)
    return np.int64(at)


@helper
def _before_piece(text: Bytes, at: int, end: int, first: int, last: int, data: Bytes) -> np.int64:
    """Return where the piece begins that the text ends with, not before `at`; -1 where it does not."""
    for k in range(last - 1, first - 1, -1):
        if end <= at:
            return np.int64(-1)
        end -= 1
        if data[k] == ANY:
            while end > at and text[end] & np.uint8(0xC0) == np.uint8(0x80):
                end -= 1
        elif text[end] != data[k]:
            return np.int64(-1)
    return np.int64(end)


@helper
def _find_piece(text: Bytes, at: int, end: int, first: int, last: int, data: Bytes, work: Int64s) -> np.int64:
    """Return the place after the first occurrence of a piece from `at` on, -1 where there is none."""
    if last - first > LONG:
        some = False
        for k in range(first, last):
            some |= data[k] == ANY
        if not some:
            return _find_long(text, at, end, data[first:last], work)
    while at < end:
        # No character begins with a byte that goes on with one.
        if text[at] & np.uint8(0xC0) != np.uint8(0x80):
            work[VERIFIED] += last - first
            after = _after_piece(text, at, end, first, last, data)
            if after >= 0:
                return after
        at += 1
    return np.int64(-1)


@helper
def _find_long(text: Bytes, at: int, end: int, piece: Bytes, work: Int64s) -> np.int64:
    """The same for a long literal: Knuth, Morris and Pratt's, which looks at each byte twice at most."""
    work[VERIFIED] += 2 * (len(piece) + end - at)
    back, k = np.zeros(len(piece), np.int32), 0
    for i in range(1, len(piece)):
        while k > 0 and piece[i] != piece[k]:
            k = back[k - 1]
        if piece[i] == piece[k]:
            k += 1
        back[i] = k
    k = 0
    for i in range(at, end):
        while k > 0 and text[i] != piece[k]:
            k = back[k - 1]
        if text[i] == piece[k]:
            k += 1
        if k == len(piece):
            return np.int64(i + 1)
    return np.int64(-1)


@kernel
def united(a_offset: Int64s, a: Codes, b_offset: Int64s, b: Codes) -> tuple[Int64s, Codes]:
    """Return two lists of ascending codes per event as one, ascending; no code is in both."""
    offset, found, n = np.zeros(len(a_offset), np.int64), np.empty(len(a) + len(b), np.int32), 0
    for e in range(len(offset) - 1):
        i, j = a_offset[e], b_offset[e]
        while i < a_offset[e + 1] or j < b_offset[e + 1]:
            if j == b_offset[e + 1] or (i < a_offset[e + 1] and a[i] < b[j]):
                found[n] = a[i]
                i += 1
            else:
                found[n] = b[j]
                j += 1
            n += 1
        offset[e + 1] = n
    return offset, found
