"""Texts made to exhaust the parser end in a clear error, after little work.

How much work is counted in tokens, not seconds: a text that breaks a bound is refused while its tokens are made, before
the grammar's parser runs.
"""

from __future__ import annotations

import contextlib
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import LanguageError, ParseError, TooLarge
from tocsin.language import bounds, parse, parse_condition, parse_expression
from tocsin.language.tokens import scan

REFUSED_WHILE_SCANNED = {
    "100,000 parentheses": "(" * 100_000,
    "nested parentheses": "(" * 60_000,
    "10 MB": "a" * 10_000_000,
    "long list": f"a in ({','.join(['1'] * 30_000)})",
    "long list of texts": "a in (" + ",".join(["'x'"] * 15_000) + ")",
    "nots": "not " * 16_000 + "a = 1",
    "minus signs": "a = " + "- " * 30_000 + "1",
    "plus signs": "a = " + "+" * 60_000 + "1",
    "long sum": "a = 1" + "+1" * 30_000,
    "long product": "?a = 1" + "*9" * 30_000,
    "many predicates": " or ".join(["a=1"] * 25_000),
    "cases": "case when " * 5_000,
    "calls": "f(" * 20_000,
    "tokens": "1 " * 70_000,
    "points": f"a in ({','.join(['(1,2)'] * 12_000)})",
}


@pytest.mark.parametrize("text", REFUSED_WHILE_SCANNED.values(), ids=REFUSED_WHILE_SCANNED)
def test_too_large_a_text_is_refused_before_the_grammar_runs(text: str) -> None:
    with pytest.raises(TooLarge):
        scan(text)
    with pytest.raises(TooLarge) as caught:
        parse(text)
    assert len(str(caught.value)) < 500


REFUSED = {
    "power": "9**9**9",
    "class": "().__class__",
    "class of a text": "''.__class__",
    "import": "__import__('os').system('x')",
    "huge exponent": "a = 1e999999999",
    "huge number": "a = " + "9" * 60_000,
    "huge product": "a = " + "*".join(["9" * 390] * 50),
    "huge text": f"a = '{'x' * 60_000}'",
    "huge name": f"{'a' * 60_000} = 1",
    "huge duration": "a = time '2020-01-01T00:00Z' + 1e390 days",
    "huge gap": "a contains ('x' near[1..99999999999999] 'y')",
    "huge near chain": "a contains (" + " near[1..2] ".join(["'x'"] * 25_000) + ")",
    "open quote": "a = '" + "x" * 60_000,
    "quotes": "'" * 60_001,
    "double quotes": '"' * 60_001,
    "nul": "\0" * 60_000,
    "half a surrogate pair": "a = '\ud800'",
    "nested formula": "?a = " + "(1+" * 190 + "1" + ")" * 190,
    "nested pattern": "a contains " + "(not " * 190 + "'x'" + ")" * 190,
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_is_not_in_the_language_or_too_large_is_a_language_error(text: str) -> None:
    with pytest.raises(LanguageError) as caught:
        parse(text)
    assert len(str(caught.value)) < 500


def test_parsing_within_the_bounds_never_exhausts_the_stack() -> None:
    depth = bounds.MAX_DEPTH - 2
    texts = [
        "(" * bounds.MAX_NESTING + "a = 1" + ")" * bounds.MAX_NESTING,
        "not " * depth + "a = 1",
        "not (" * depth + "a = 1" + ")" * depth,
        "?a = " + "(1 + " * (depth - 1) + "?x" + ")" * (depth - 1),
        "?a = " + "case when ?x = " * (depth // 2 - 1) + "1" + " then 1 end" * (depth // 2 - 1),
    ]
    limit = sys.getrecursionlimit()
    for text in texts:
        sys.setrecursionlimit(_depth_of_stack() + 450)
        try:
            parse(text)
        finally:
            sys.setrecursionlimit(limit)


def _depth_of_stack() -> int:
    depth, frame = 0, sys._getframe()
    while (below := frame.f_back) is not None:
        depth, frame = depth + 1, below
    return depth


def test_a_list_of_ten_thousand_values_is_within_the_bounds() -> None:
    parse(f"a in ({','.join(map(str, range(10_000)))})")


SCRAPS = "a 1 'x' ( ) , and or not = < in contains near[1..2] case when then end ?x - * with where is present time"


@given(st.text(max_size=40) | st.lists(st.sampled_from(SCRAPS.split()), max_size=15).map(" ".join))
def test_any_text_parses_or_gives_a_language_error(text: str) -> None:
    for read in (parse, parse_condition, parse_expression):
        with contextlib.suppress(LanguageError):
            read(text)


def test_a_parse_error_is_not_too_large_and_the_reverse() -> None:
    assert not issubclass(ParseError, TooLarge)
    assert not issubclass(TooLarge, ParseError)
