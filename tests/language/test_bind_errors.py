"""Binding errors: they point at the place and say what would be right."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.language.market import MARKET, AnyOperators
from tocsin.errors import BindError
from tocsin.language import attributes, bind, parse, subscription


@pytest.mark.parametrize(
    "expected",
    [
        """
        price < 'cheap'
                ^^^^^^^ price is numeric; 'cheap' is text. Write a number, such as: price < 100
        """,
        """
        price = true
                ^^^^ price is numeric; true is true or false. Write a number, such as: price = 100
        """,
        """
        title = 3
                ^ title is text; 3 is a number. Write a text, such as: title = 'mini'
        """,
        """
        sold = 3
               ^ sold is boolean; 3 is a number. Write true or false, such as: sold = true
        """,
        """
        closes < 5
                 ^ closes is a time; 5 is a number. Write a time, such as: closes < time '2026-11-15T10:00Z'
        """,
        """
        closes < 'noon'
                 ^^^^^^ closes: 'noon' is not a time such as '2026-11-15T10:00:00Z'
        """,
        """
        place = 5
                ^ place is a point; 5 is a number. Write a point, such as: place = (40.85, -73.88)
        """,
        """
        place = (100, 3)
                ^^^^^^^^ place: (100.0, 3.0) is not a point with latitude -90 .. 90 and longitude -180 .. 180
        """,
        """
        colour = 'brwon'
                 ^^^^^^^ colour: 'brwon' is not one of red, green, blue, brown; did you mean brown?
        """,
        """
        colour = 5
                 ^ colour is enumerated; 5 is a number. Write one of its values, such as: colour = 'red'
        """,
        """
        category kind of 'tabel'
                         ^^^^^^^ category: 'tabel' is not in the hierarchy 'category'; did you mean table?
        """,
        """
        price in (1, 'x')
                 ^^^^^^^^ price is numeric; 'x' is text. Write a number, such as: price in (100)
        """,
        """
        price between 1 and 'x'
                      ^^^^^^^^^ price is numeric; 'x' is text. Write a number, such as: price between 100 and 100
        """,
        """
        car where prise < 3
                  ^^^^^ there is no attribute 'prise'; did you mean price?
        """,
        """
        car where 3 > prise
                      ^^^^^ there is no attribute 'prise'; did you mean price?
        """,
        """
        car where pages < 3
                  ^^^^^ events of type car have no attribute 'pages'; those of type book have
        """,
        """
        unused = 3
        ^^^^^^ no event type has the attribute 'unused' yet
        """,
        """
        book, cra where price < 3
              ^^^ there is no event type 'cra'; did you mean car?
        """,
        """
        price like 'x'
        ^^^^^^^^^^^^^^ price is numeric and has no operator `like`; it has: =, !=, <, <=, >, >=, in, between, is present, is absent
        """,
        """
        colour < 'red'
        ^^^^^^^^^^^^^^ colour is enumerated and has no operator `<` in the domain 'colour'; it has: =, !=, in, is present, is absent
        """,
        """
        code > 'x'
        ^^^^^^^^^^ code is text and has no operator `>` in the domain 'code'; it has: =, <, in, ends with, contains text, like, matches, in network, is present, is absent
        """,
        """
        code = 'longer'
               ^^^^^^^^ code: 'longer' is not a text of at most 5 characters
        """,
        """
        colour contains 'red'
        ^^^^^^^^^^^^^^^^^^^^^ colour is enumerated and has one value in an event, so it contains nothing. Write: colour = 'red'
        """,
        """
        colour contains any ('red')
        ^^^^^^^^^^^^^^^^^^^^^^^^^^^ colour is enumerated and has one value in an event, so it contains nothing. Write: colour in (…)
        """,
        """
        tags contains ('red' and 'blue')
                      ^^^^^^^^^^^^^^^^^^ word patterns are for text; tags is enumerated
        """,
        """
        title contains '--'
                       ^^^^ '--' has no word to look for; words are made of letters and digits
        """,
        """
        title contains any ('a', '!')
                           ^^^^^^^^^^ '!' has no word to look for; words are made of letters and digits
        """,
        """
        title contains ('old chair' and 'x')
                       ^^^^^^^^^^^^^^^^^^^^^ 'old chair' is 2 words; in a word pattern, write: 'old' near[0..0] 'chair'
        """,
        """
        place within 5 hours of (1, 2)
                                ^^^^^^ place is a point; hours does not measure that. Units: m, km, mi
        """,
        """
        closes within 5 km of time '2026-11-15T10:00Z'
                              ^^^^^^^^^^^^^^^^^^^^^^^^ closes is a time; km does not measure that. Units: seconds, minutes, hours, days, weeks
        """,
        """
        place within 5 km of 3
                             ^ place is a point; 3 is a number. Write a point, such as: place within 5 km of (40.85, -73.88)
        """,
        """
        place in box (5, 1, 2, 3)
                     ^^^^^^^^^^^^ south 5.0 is above north 2.0; the order is (south, west, north, east)
        """,
        """
        title = mini
                ^^^^ there is no attribute 'mini'. Text goes in single quotes: 'mini'
        """,
        """
        title * 2 < 100
        ^^^^^ title is text, and `*` takes numbers
        """,
        """
        price * 2 < title
        ^^^^^^^^^^^^^^^^^ a number cannot be compared with text
        """,
        """
        f(?x) and g(1) > ?x
                  ^^^^ there is no function g here
        """,
        """
        f(?x) and case when h() then 1 end > ?x
                            ^^^ there is no function h here
        """,
        """
        f(?x) and ?y > 3
                  ^^ ?y has no value: it must be an argument of an operator, such as f(?y)
        """,
        """
        f(price)
          ^^^^^ the arguments of f must be constants and variables; price is neither. Text goes in single quotes: 'price'
        """,
        """
        f(?x + 1)
        ^^^^^^^^^ the arguments of f must be constants and variables; ?x + 1 is neither
        """,
    ],
)
def test_the_place_is_marked_and_the_right_is_said(expected: str) -> None:
    expected = dedent(expected).strip("\n")
    text = expected.split("\n")[0]
    with pytest.raises(BindError) as caught:
        bind(parse(text), MARKET, text=text, operators=AnyOperators())
    assert str(caught.value) == expected


def test_an_operator_that_is_not_there_is_refused_with_its_place() -> None:
    with pytest.raises(BindError) as caught:
        bind("price < 3 and locIn('Bronx')", MARKET)
    assert str(caught.value) == (
        "price < 3 and locIn('Bronx')\n              ^^^^^^^^^^^^^^ there is no operator 'locIn' here"
    )


def test_without_the_text_the_message_stands_alone() -> None:
    with pytest.raises(BindError) as caught:
        bind(subscription("car", where=attributes.prise < 3), MARKET)
    assert str(caught.value) == "there is no attribute 'prise'; did you mean price?"
