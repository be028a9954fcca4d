"""Syntax errors: they point at the place and say what would be right."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tocsin.errors import LanguageError, ParseError
from tocsin.language import parse, parse_condition, parse_expression


def shown(error: LanguageError) -> str:
    return str(error).strip("\n")


@pytest.mark.parametrize(
    "expected",
    [
        """
        price < < 3
                ^ found '<'; expected a value
        """,
        """
        car where
                 ^ the text ends here; expected a condition, such as price < 100
        """,
        """
        car where price
                  ^^^^^ price alone is not a condition; compare it, such as: price = true
        """,
        """
        (price < 3 and brand = 'x'
        ^ this ( is never closed
        """,
        """
        price < 3)
                 ^ this ) closes nothing
        """,
        """
        brand = 'mini
                ^^^^^ this quote is never closed; a text is written like 'O''Brien'
        """,
        """
        name = 'O'Brien'
                       ^ this quote is never closed; a text is written like 'O''Brien'
        """,
        """
        "seller name = 3
        ^^^^^^^^^^^^^^^^ this quote is never closed; a name is written like "seller name"
        """,
        """
        brand = "mini"
                ^^^^^^ double quotes are for names; text goes in single quotes: 'mini'
        """,
        """
        brand in ("mini", 'cooper')
                  ^^^^^^ expected a constant; "mini" is a name. Text goes in single quotes: 'mini'
        """,
        """
        price < 3 && brand = 'x'
                  ^^ '&&' is not in the language; write `and` for &&
        """,
        """
        price < 3 || brand = 'x'
                  ^^ '||' is not in the language; write `or` for ||
        """,
        """
        !sold
        ^ '!' is not in the language; write `not` before a condition, or != between two values
        """,
        """
        price = null
        ^^^^^^^^^^^^ to ask whether there is a value, write: price is absent
        """,
        """
        price in (1, null)
                     ^^^^ there is no null; to ask whether there is a value, write: is absent, is present
        """,
        """
        price is 3
              ^^ found 'is'; write: is present, is absent, or is not …
        """,
        """
        1 < price < 5
                  ^ found '<'; comparisons do not chain; write: 1 < price and price < 5
        """,
        """
        car antique where price < 3
            ^^^^^^^ found 'antique'; put a comma between event types
        """,
        """
        car price < 3
            ^^^^^ found 'price'; expected an operator such as =, <, in, contains, or a comma between event types before where
        """,
        """
        car where a = 1 where b = 2
                        ^^^^^ found 'where'; where stands once, after the event types
        """,
        """
        brand in 'mini'
                 ^^^^^^ found 'mini'; in takes a list in parentheses: brand in ('mini', 'cooper')
        """,
        """
        brand in ['mini']
                 ^ '[' is not in the language; lists go in parentheses: brand in ('mini', 'cooper')
        """,
        """
        brand in ()
                  ^ found ')'; expected a value
        """,
        """
        title contains any 'oak'
                           ^^^^^ found 'oak'; contains any takes a list in parentheses: contains any ('oak', 'walnut')
        """,
        """
        title contains ('a' near[5] 'b')
                                ^ near takes the least and the most words between: near[1..5]
        """,
        """
        title contains ('a' near[5..1] 'b')
                            ^^^^^^^^^^ the least comes first: near[1..5]
        """,
        """
        title contains 'a' and 'b'
                               ^^^ 'b' is not a condition; words go after contains: title contains ('b')
        """,
        """
        title contains ('a' and price)
                                ^^^^^ a word pattern is made of words in single quotes, near[1..5], and, or, not; found price
        """,
        """
        title = 'a' near[1..5] 'b'
                ^^^^^^^^^^^^^^^^^^ word patterns go in parentheses after contains: contains ('a' near[1..5] 'b')
        """,
        """
        price < 1 / 0
                ^^^^^ division by zero
        """,
        """
        price < 2 * 'x'
                ^^^^^^^ cannot compute number * text
        """,
        """
        closes < 2 hours
                 ^^^^^^^ a duration is not a value; add it to a time: time '2026-11-15T10:00Z' + 2 hours
        """,
        """
        closes < time 'noon'
                 ^^^^^^^^^^^ 'noon' is not a time such as '2026-11-15T10:00:00Z'
        """,
        """
        closes < time '2026-11-15T10:00'
                 ^^^^^^^^^^^^^^^^^^^^^^^ '2026-11-15T10:00:00' is not a time with its zone, such as '2026-11-15T10:00:00Z'
        """,
        """
        place within 5 of (1, 2)
                       ^^ found 'of'; expected a unit such as km or hours
        """,
        """
        place in box (1, 2, 3)
                     ^^^^^^^^^ a box has four corners: in box (south, west, north, east)
        """,
        """
        place = (1, 'x')
                    ^^^ a point is a pair of numbers, such as (40.85, -73.88); 'x' is not one of them
        """,
        """
        'x' in (1, 2)
        ^^^ `in` asks about an attribute; 'x' is not one
        """,
        """
        ?x > (a = 1)
              ^^^^^ a = 1 is a condition; a value is expected here
        """,
        """
        case when a = 1 then 2
        ^^^^ this case has no end
        """,
        """
        and = 3
        ^^^ found 'and'; expected an event type, or a condition such as price < 100. and is a keyword; as a name it is written "and"
        """,
        """
        car with age = 1, age = 2
                          ^^^^^^^ age is given twice
        """,
        """
        car with age
                    ^ the text ends here; expected '='
        """,
        """
        a =< 3
          ^^ '=<' is not in the language; write <= or >=
        """,
        """
        price < 2 ** 3
                  ^^ '**' is not in the language; there are no powers in this language
        """,
        """
        price < 3;
                 ^ ';' is not in the language; leave out the semicolon: a subscription is one expression
        """,
        """
        brand = ‘mini’
                ^ '‘' is not in the language; use the straight quote '
        """,
        """
        price < 1e999
                ^^^^^ a number is finite and has at most 800 digits, and an exponent of at most 400
        """,
    ],
)
def test_the_place_is_marked_and_the_right_is_said(expected: str) -> None:
    expected = dedent(expected).strip("\n")
    with pytest.raises(LanguageError) as caught:
        parse(expected.split("\n")[0])
    assert shown(caught.value) == expected


def test_the_line_of_the_place_is_shown() -> None:
    with pytest.raises(ParseError) as caught:
        parse("car\nwhere price < 3\n  and brand == == 'x'\n  and a = 1")
    assert shown(caught.value).startswith("  and brand == == 'x'\n               ^^ found '=='")


@pytest.mark.parametrize("text", ["", "  ", "-- nothing"])
def test_an_empty_text_is_told_how_to_ask_for_everything(text: str) -> None:
    with pytest.raises(ParseError, match="write `true`"):
        parse(text)


@pytest.mark.parametrize("text", [b"car", None, 5])
def test_only_text_is_a_text(text: object) -> None:
    with pytest.raises(ParseError, match="the text form is a text"):
        parse(text)  # type: ignore[arg-type]


def test_a_condition_has_no_event_types() -> None:
    with pytest.raises(ParseError, match="car alone is not a condition"):
        parse_condition("car")


def test_an_expression_is_a_value() -> None:
    with pytest.raises(ParseError, match="is a condition; a value is expected here"):
        parse_expression("price < 3")
