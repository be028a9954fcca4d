"""What is short for something longer: at least so many, is not, any attribute."""

from __future__ import annotations

import pytest

import tocsin
from tocsin.errors import LanguageError
from tocsin.language import at_least, bind, evaluate, from_json, parse, subscription
from tocsin.language import attributes as a
from tocsin.language.syntax import And, Or

SCHEMA = tocsin.Schema.infer([{"name": "x", "note": "y", "n": 1}, {"n": 2}])


def holds(text: str, **event: object) -> bool:
    return evaluate(bind(text, SCHEMA), SCHEMA.admit(event))


def test_at_least_is_the_alternatives_of_so_many() -> None:
    text = parse("at least 2 of (n = 1, name = 'a', note = 'b')")
    tree = from_json({"where": {"at_least": 2, "of": [["n", "=", 1], ["name", "=", "a"], ["note", "=", "b"]]}})
    built = subscription(where=at_least(2, a.n == 1, a.name == "a", a.note == "b"))
    assert text == tree == built
    assert isinstance(text.where, Or)
    assert [isinstance(part, And) for part in text.where.parts] == [True] * 3
    assert parse("at least 1 of (n = 1, n = 2)") == parse("n = 1 or n = 2")
    assert parse("at least 2 of (n = 1, n = 2)") == parse("n = 1 and n = 2")


@pytest.mark.parametrize("text", ["at least 0 of (n = 1)", "at least 3 of (n = 1, n = 2)"])
def test_at_least_of_too_many_or_none_is_refused(text: str) -> None:
    with pytest.raises(LanguageError, match="between 1 and"):
        parse(text)


def test_too_many_combinations_are_refused() -> None:
    with pytest.raises(LanguageError, match="too many combinations"):
        parse(f"at least 15 of ({', '.join(f'n = {i}' for i in range(30))})")


def test_is_not_holds_where_there_is_nothing() -> None:
    assert holds("name is not 'a'", n=1)
    assert holds("name is not 'a'", name="b", n=1)
    assert not holds("name is not 'a'", name="a", n=1)
    assert not holds("name is not in ('a', 'B') ignoring case", name="b", n=1)
    assert holds("name is not like 'a%'", n=1)
    assert not holds("not (name = 'a')", n=1)


def test_any_attribute_is_every_text_of_the_event() -> None:
    assert holds("any attribute contains text 'X' ignoring case", note="axe", n=1)
    assert not holds("any attribute contains text 'X'", note="axe", n=1)
    assert not holds("any attribute = '1'", n=1)
    numbers = tocsin.Schema.infer([{"n": 1}])
    with pytest.raises(LanguageError, match="no attribute that is text"):
        bind("any attribute = 'x'", numbers)


def test_a_name_with_a_hyphen_is_told_how_to_be_written() -> None:
    schema = tocsin.Schema.infer([{"c-uri": "x"}])
    with pytest.raises(LanguageError, match='as a name it is written "c-uri"'):
        bind("c-uri = 'x'", schema)
