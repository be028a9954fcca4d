"""Words of texts in bytes against language/text_patterns.py, which says what a word is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tocsin.index.coder import TextCoder
from tocsin.index.word_tokens import WordPatterns, WordTokens
from tocsin.language.syntax import Words
from tocsin.language.text_patterns import satisfies, words

SOME = [
    "a",
    "B2",
    "straße",
    "STRASSE",
    "é",
    "e\u0301",
    "K",
    "_",
    "ab_cd",
    "x-y",
    "İ",
    "ǅ",
    "٣",
    " ",
    "\n",
    "٠",
    "a\u200db",
    "abcdefg",
    "ABCDEFGH",
    "abcdefghi",
    "abcdefghj",
    "été-abcdefghijklmnopqrst",
]
texts = st.lists(st.one_of(st.none(), st.text(), st.lists(st.sampled_from(SOME)).map(" ".join)), max_size=12)
short = st.lists(st.sampled_from("abcdE"), max_size=30).map(" ".join)
gaps = st.tuples(st.integers(0, 3), st.integers(0, 4)).map(lambda gap: (gap[0], gap[0] + gap[1]))


def listed(tokens: WordTokens) -> list[list[str]]:
    vocabulary = [bytes(tokens.data[a:b]).decode() for a, b in zip(tokens.word[:-1], tokens.word[1:], strict=True)]
    assert len(set(vocabulary)) == len(vocabulary)
    return [
        [vocabulary[number] for number in tokens.tokens[a:b]]
        for a, b in zip(tokens.offset[:-1], tokens.offset[1:], strict=True)
    ]


@given(texts)
def test_words_are_those_of_the_definition(batch: list[str | None]) -> None:
    for array in (pa.array(batch, pa.string()), pa.array([None, "zz", *batch], pa.string()).slice(2)):
        tokens = WordTokens.of(array)
        assert listed(tokens) == [[] if text is None else words(text) for text in batch]
        assert tokens.present.tolist() == [text is not None for text in batch]


@given(texts, st.lists(st.sampled_from([word for text in SOME for word in words(text)]), unique=True))
def test_codes_are_the_known_words_ascending_and_once(batch: list[str | None], known: list[str]) -> None:
    constants = sorted(known)
    for more in (0, 2_000):  # so many constants that few texts are sorted, or so few that they are not
        extended = sorted([*constants, *(f"zz{number}" for number in range(more))])
        coded = WordTokens.of(pa.array(batch, pa.string())).coded(TextCoder(extended))
        expected = [
            sorted({2 * extended.index(word) + 1 for word in words(text or "") if word in extended}) for text in batch
        ]
        assert [coded.codes[a:b].tolist() for a, b in zip(coded.offset[:-1], coded.offset[1:], strict=True)] == expected


@given(st.lists(short, min_size=1, max_size=5), st.data())
def test_patterns_are_found_where_the_definition_finds_them(batch: list[str], data: st.DataObject) -> None:
    word = st.sampled_from(["a", "b", "c", "e", "nowhere"])
    patterns = [
        Words(tuple(found), tuple(data.draw(st.lists(gaps, min_size=len(found) - 1, max_size=len(found) - 1))))
        for found in data.draw(st.lists(st.lists(word, min_size=1, max_size=4), min_size=1, max_size=4))
    ]
    tokens = WordTokens.of(pa.array(batch, pa.string()))
    pairs = [(p, t) for p in range(len(patterns)) for t in range(len(batch))]
    chosen, of_text = (np.array(each, np.int64) for each in zip(*pairs, strict=True))
    found = tokens.satisfying(WordPatterns(patterns), chosen.astype(np.int32), of_text)
    assert found.tolist() == [satisfies(words(batch[t]), patterns[p]) for p, t in pairs]
