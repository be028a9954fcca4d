"""Patterns found in the bytes of texts: the answers of is_like, in batches and singly; nothing takes long."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tocsin.index.patterns import ANCHOR, PatternCoder, PatternTexts, StackedPatterns
from tocsin.language.text_patterns import (
    LARGEST_PROGRAM,
    LONGEST_PATTERN,
    LONGEST_PIECE,
    canonical_like,
    escaped,
    is_like,
    is_like_key,
    matches,
    needed_text,
    predicate_of_key,
    regex_of,
    wrong_like,
    wrong_regex,
)


def _text(random: Random, longest: int, letters: str) -> str:
    return "".join(random.choice(letters) for _ in range(random.randrange(longest)))


def _of_one(coder: PatternCoder, texts: tuple[str, ...]) -> list[int]:
    """Return the codes of one event, beside a second column with the same texts."""
    columns = [(3, "a", PatternCoder(["c%zz%", "f%", "fb%"])), (5, "b", coder)]
    codes: list[int] = StackedPatterns(columns).coded_one({"a": (), "b": texts})[5].codes.tolist()
    return codes


@pytest.mark.parametrize("seed", range(8))
def test_patterns_are_found_as_the_definition_says(seed: int) -> None:
    random = Random(seed)
    letters = random.choice(["ab", "abAB", "aéß", "abcdefgh"])
    parts = ["%".join(_text(random, random.choice([2, 3, 6, 12, 80]), letters + "_") for _ in range(random.randint(1, 3)))
             for _ in range(80)]  # fmt: skip
    keys = sorted(
        {f"f{canonical_like(p.casefold())}" if random.random() < 0.5 else f"c{canonical_like(p)}" for p in parts}
    )
    coder = PatternCoder(keys)
    events = [
        tuple(_text(random, random.choice([1, 2, 4, 9, 30, 150]), letters) for _ in range(random.randrange(3)))
        for _ in range(40)
    ]
    found = coder.coded(PatternTexts.of_values(events))
    for number, texts in enumerate(events):
        expected = [2 * at + 1 for at, key in enumerate(keys) if any(is_like_key(text, key) for text in texts)]
        assert found.codes[found.offset[number] : found.offset[number + 1]].tolist() == expected
        assert _of_one(coder, texts) == expected


def test_nulls_have_no_patterns_and_slices_are_read_where_they_lie() -> None:
    texts = pa.array(["skipped", "Soaked", None, "walnut", "OAK"])[1:]
    found = PatternCoder(["c%oak%", "f%oak%"]).coded(PatternTexts.of_column(texts))
    assert found.present.tolist() == [True, False, True, True]
    assert np.split(found.codes, found.offset[1:-1])[0].tolist() == [1, 3]
    assert np.diff(found.offset).tolist() == [2, 0, 0, 1]


WORST_LIKES = [
    ("%" + "a" * 3_000 + "b%", "a" * 250_000),
    ("%" + "a" * 30 + "_" * 32 + "b%", "a" * 250_000),
    ("%" + "%".join(["ab"] * 600) + "%c", "ab" * 125_000),
    ("%" + "a_" * 31 + "b", "é" * 125_000),
    ("%" + "a_" * 31 + "b%", "a" * 250_000),
    ("%" + "_" * 63 + "b%", "a" * 250_000),
    ("_" * 64 + "%" + "a" * 16 + "b%" + "a" * 15 + "b", "a" * 249_984 + "a" * 15 + "b"),
]


@pytest.mark.parametrize(("pattern", "text"), WORST_LIKES)
def test_the_worst_like_patterns_are_decided(pattern: str, text: str) -> None:
    assert wrong_like(pattern) is None
    coder = PatternCoder([f"c{canonical_like(pattern)}"])
    assert bool(_of_one(coder, (text,))) == is_like(text, pattern)


@pytest.mark.parametrize(("pattern", "text"), WORST_LIKES)
def test_the_work_of_the_worst_like_patterns_is_bounded_by_the_text(pattern: str, text: str) -> None:
    coder = PatternCoder([f"c{canonical_like(pattern)}"])
    stacked = StackedPatterns([(0, "a", coder)])
    size, pieces = len(text.encode()), LONGEST_PATTERN * 4
    stacked.coded_one({"a": (text,)})
    places, compared, verified = stacked.work.tolist()
    assert places <= size
    assert compared <= ANCHOR * size
    assert verified <= LONGEST_PIECE * 4 * size + pieces
    stacked.coded_one({"a": (text,)})  # what was found before is looked for anew
    assert stacked.work.tolist() == [2 * places, 2 * compared, 2 * verified]
    coder.coded(PatternTexts.of_values([(text,)]))
    assert sum(form.work.sum() for form in coder.forms) == (places + compared + verified)


def test_the_work_of_many_patterns_is_what_is_nearly_found_and_not_their_number() -> None:
    random = Random(5)
    texts = {"".join(random.choice("cdefghijklmnop") for _ in range(12)) for _ in range(4_000)}
    few, many = (PatternCoder([f"c%{text}%" for text in sorted(texts)[:count]]) for count in (40, 4_000))
    event = ("".join(random.choice("cdefghijklmnop") for _ in range(20_000)),)
    for coder in (few, many):
        coder.coded(PatternTexts.of_values([event]))
    places, compared, verified = many.forms[0].work.tolist()
    assert places == few.forms[0].work[0] == 20_000
    assert compared < 20_000  # each of 4,000 anchors at each place would be 80,000,000
    assert verified == 0


@pytest.mark.parametrize("pattern", ["(a*)*d", "(x+x+)+y", "([ab]*)*c", "(a|a)*$b", "[ab]*a[ab]{400}c", "a{900}"])
def test_the_worst_regular_expressions_are_decided(pattern: str) -> None:
    assert wrong_regex(pattern) is None
    assert matches("ab" * 125_000, pattern, ignoring_case=True) is False
    # RE2 looks at each byte once for each step of the program at most: the program is what bounds it.
    assert regex_of(pattern, ignoring_case=True).programsize <= LARGEST_PROGRAM


@pytest.mark.parametrize(
    "pattern", [".{1000}.{1000}", "(.{1,100}a){1,10}", r"\pL{1,300}", "a" * 5_000, "(?=a)b", r"(a)\1"]
)
def test_what_would_take_long_is_refused(pattern: str) -> None:
    assert wrong_regex(pattern) is not None


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        ("abc", "abc"),
        (r"(?i)\\Cmd\.exe\s+-[a-z]", "\\cmd.exe"),
        ("ab*c", "a"),
        ("(abc)+d", "d"),
        ("abc|d", ""),
        (r"\Qa|b\E", ""),
        ("[abc]defg?", "def"),
        ("a+bc{2}d", "a"),
        ("x{0}y", "y"),
        ("(?:a|b)cd", "cd"),
        ("éab", "ab"),
        (r"\d+foo\b", "foo"),
    ],
)
def test_what_a_regular_expression_needs(pattern: str, needed: str) -> None:
    assert needed_text(pattern) == needed


def test_what_is_needed_is_in_everything_that_matches() -> None:
    random = Random(3)
    pieces = ["a", "b", "C", ".", "a*", "b?", "(ab|c)", "[ab]", "c+", r"\.", "(?:b)", "a{2}", "^", "$", r"\w", "K"]
    for _ in range(500):
        pattern = "".join(random.choice(pieces) for _ in range(random.randint(1, 5)))
        text = _text(random, 9, "abcABC.k\u212a")
        if matches(text, pattern, ignoring_case=True):
            assert needed_text(pattern) in text.casefold()


def test_keys_read_as_predicates() -> None:
    schema = tocsin.Schema.infer([{"title": "x"}])
    for key in ["c%oak%", "foak%", "c%oak", "fo_k", "c%a%b%", r"c\%", "f"]:
        predicate = tocsin.bind(tocsin.language.render(predicate_of_key("title", key)), schema).subscription.where
        for text in ["oak", "Soaked", "OAK", "%", "", "a b", "o_k"]:
            assert tocsin.language.semantics.predicate_holds(predicate, (text,)) == is_like_key(text, key)  # type: ignore[arg-type]


def test_a_text_is_like_its_escaped_form_only() -> None:
    for text in ["100%", "a_b", "C:\\x", "", "é"]:
        assert is_like(text, escaped(text))
        assert not is_like(text + "x", escaped(text))
