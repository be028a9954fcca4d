"""Selectors of JMS and expressions of CESQL as conditions: two SQL dialects with a meaning of their own, read by one small parser.

    jms      JMSPriority > 4 AND region IN ('eu', 'us') AND NOT (colour LIKE 'r%')
    cesql    type = 'order.created' AND (NOT EXISTS priority OR priority > 3)

A selector holds where it is true in the logic of three values, in which what asks for an absent property is unknown: that is
the meaning of Tocsin's `and`, `or` and `not`. CESQL evaluates from left to right, stops where the rest cannot matter, and
fails where it meets an absent attribute, which delivers nothing: so each part is translated twice, as what is true without
failing and what is false without failing. What neither translates to (functions, division of whole numbers) is refused.
Called by imports.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal as Typed
from typing import NamedTuple

from tocsin.errors import ParseError
from tocsin.language.bounds import MAX_NESTING
from tocsin.language.syntax import (
    ALWAYS,
    NEVER,
    And,
    Arithmetic,
    AttributeValue,
    Comparison,
    Constant,
    Expression,
    Negative,
    Node,
    Not,
    Op,
    Or,
    Predicate,
)
from tocsin.language.text_patterns import escaped
from tocsin.schema.domain import parse_number

Dialect = Typed["jms", "cesql"]
_COMPARE = {"=": Op.EQ, "<>": Op.NE, "!=": Op.NE, "<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}
_TURNED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_WORDS = frozenset(
    ["AND", "OR", "XOR", "NOT", "LIKE", "IN", "BETWEEN", "IS", "NULL", "TRUE", "FALSE", "ESCAPE", "EXISTS"]
)
_TOKEN = re.compile(
    r"""\s*(?: (?P<text> '(?:[^'\\]|''|\\.)*' | "(?:[^"\\]|\\.)*" )
    | (?P<number> (?: [0-9]+(?:\.[0-9]*)? | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? [lLfFdD]? )
    | (?P<name> [^\W\d][\w$.]* | \$[\w$.]* )
    | (?P<sign> <> | <= | >= | != | [=<>+\-*/%(),] ) )""",
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class _Outcome:
    """A condition as what makes it true, and what makes it false."""

    true: Node
    false: Node


def parse_selector(text: str, dialect: Dialect) -> Node:
    """Return the condition that a selector says; raises ParseError with what cannot be said, or read."""
    return _Selector(text, dialect).condition()


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise ParseError(f"{text[at:].strip()[:20]!r} is not understood here")
        word = found[found.lastgroup]
        kind = found.lastgroup
        if kind == "name" and word.upper() in _WORDS:
            kind, word = "word", word.upper()
        yield _Token(kind, word)
        at = found.end()


class _Selector:
    """Reads one selector, by recursive descent."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self._tokens = [*_tokens(text), _Token("end", "")]
        self._at, self._depth, self._dialect = 0, 0, dialect

    def condition(self) -> Node:
        found = self._or()
        if self._peek.kind != "end":
            raise ParseError(f"{self._peek.text!r} cannot stand here")
        return self._as_condition(found).true

    # --- tokens -------------------------------------------------------------------------------------------------------

    @property
    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *texts: str) -> str | None:
        """Return the next token if it is one of these words or signs, and go on; None where it is none."""
        token = self._peek
        if token.kind not in ("word", "sign") or token.text not in texts:
            return None
        self._at += 1
        return token.text

    def _need(self, text: str) -> None:
        if self._take(text) is None:
            raise ParseError(f"{text} was expected, and not {self._peek.text or 'the end'}")

    # --- conditions ---------------------------------------------------------------------------------------------------

    def _or(self) -> _Outcome | Expression:
        return self._chain(("OR",), lambda: self._chain(("XOR",), lambda: self._chain(("AND",), self._not)))

    def _chain(self, words: tuple[str, ...], part: Callable[[], _Outcome | Expression]) -> _Outcome | Expression:
        first = part()
        parts = [first]
        word = ""
        while (found := self._take(*words)) is not None:
            if found == "XOR" and self._dialect == "jms":
                raise ParseError("XOR is not in the language of selectors")
            word = found
            parts.append(part())
        if len(parts) == 1:
            return first
        outcomes = [self._as_condition(each) for each in parts]
        joined = outcomes[-1]
        for each in reversed(outcomes[:-1]):
            joined = self._joined(word, each, joined)
        return joined

    def _joined(self, word: str, left: _Outcome, right: _Outcome) -> _Outcome:
        if word == "XOR":
            return _Outcome(
                _any(_all(left.true, right.false), _all(left.false, right.true)),
                _any(_all(left.true, right.true), _all(left.false, right.false)),
            )
        lazily = self._dialect == "cesql"  # what the left side decides, the right one cannot fail
        if word == "AND":
            beside = _all(left.true, right.false) if lazily else right.false
            return _Outcome(_all(left.true, right.true), _any(left.false, beside))
        beside = _all(left.false, right.true) if lazily else right.true
        return _Outcome(_any(left.true, beside), _all(left.false, right.false))

    def _not(self) -> _Outcome | Expression:
        if self._take("NOT") is None:
            return self._comparison()
        self._deeper()
        inner = self._as_condition(self._not())
        self._depth -= 1
        return _Outcome(inner.false, inner.true)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise ParseError(f"it is nested deeper than {MAX_NESTING}")

    def _as_condition(self, found: _Outcome | Expression) -> _Outcome:
        """Return a condition; a property alone is one that asks whether it is true."""
        match found:
            case _Outcome():
                return found
            case AttributeValue(name):
                return _leaf(Predicate(name, Op.EQ, True))
            case Constant(bool() as value):
                return _Outcome(ALWAYS, NEVER) if value else _Outcome(NEVER, ALWAYS)
            case _:
                raise ParseError("a condition was expected, and not a value")

    def _comparison(self) -> _Outcome | Expression:
        if self._dialect == "cesql" and self._take("EXISTS") is not None:
            name = self._name()
            return _Outcome(Predicate(name, Op.PRESENT), Predicate(name, Op.ABSENT))
        left = self._sum()
        if (sign := self._take(*_COMPARE)) is not None:
            return _leaf(self._compared(self._value(left), _COMPARE[sign], self._value(self._sum())))
        if self._dialect == "jms" and self._take("IS") is not None:
            negated = self._take("NOT") is not None
            self._need("NULL")
            name = self._attribute(left)
            absent, present = Predicate(name, Op.ABSENT), Predicate(name, Op.PRESENT)
            return _Outcome(present, absent) if negated else _Outcome(absent, present)
        negated = self._peek.text == "NOT" and self._tokens[self._at + 1].text in ("LIKE", "IN", "BETWEEN")
        if negated:
            self._at += 1
        found = self._special(left)
        if found is None:
            return left
        return _Outcome(found.false, found.true) if negated else found

    def _special(self, left: _Outcome | Expression) -> _Outcome | None:
        if self._take("LIKE") is not None:
            return _leaf(Predicate(self._attribute(left), Op.LIKE, self._like()))
        if self._take("IN") is not None:
            return _leaf(Predicate(self._attribute(left), Op.IN, self._list()))
        if self._dialect == "jms" and self._take("BETWEEN") is not None:
            value, low = self._value(left), self._value(self._sum())
            self._need("AND")
            high = self._value(self._sum())
            both = _leaf(self._compared(value, Op.GE, low)), _leaf(self._compared(value, Op.LE, high))
            return self._joined("AND", *both)
        return None

    def _compared(self, left: Expression, op: Op, right: Expression) -> Node:
        if isinstance(left, Constant) and isinstance(right, AttributeValue):
            left, op, right = right, _TURNED.get(op, op), left
        if isinstance(left, Constant):
            raise ParseError("a comparison of constants")
        if isinstance(right, Constant):
            if self._dialect == "jms" and op not in (Op.EQ, Op.NE) and isinstance(right.value, str | bool):
                raise ParseError("texts and truth values are compared by = and <> only")
            if isinstance(left, AttributeValue) and not isinstance(right.value, timedelta):
                return Predicate(left.name, op, right.value)
        return Comparison(left, op, right)

    def _like(self) -> str:
        pattern = self._string()
        sign = "\\" if self._dialect == "cesql" else ""
        if self._dialect == "jms" and self._take("ESCAPE") is not None:
            sign = self._string()
            if len(sign) != 1:
                raise ParseError("ESCAPE takes one character")
        found, at = "", 0
        while at < len(pattern):
            char = pattern[at]
            if sign and char == sign and pattern[at + 1 : at + 2] in ("%", "_", sign):
                at += 1
                found += escaped(pattern[at])
            else:
                found += char if char in "%_" else escaped(char)
            at += 1
        return found

    def _list(self) -> tuple[str | int | float, ...]:
        self._need("(")
        values = []
        while True:
            value = self._sum()
            if not isinstance(value, Constant) or (self._dialect == "jms" and not isinstance(value.value, str)):
                raise ParseError(
                    "IN takes a list of texts" if self._dialect == "jms" else "IN takes a list of constants"
                )
            values.append(value.value)
            if self._take(",") is None:
                break
        self._need(")")
        return tuple(values)  # type: ignore[arg-type]

    # --- values -------------------------------------------------------------------------------------------------------

    def _sum(self) -> _Outcome | Expression:
        return self._operated(("+", "-"), lambda: self._operated(("*", "/", "%"), self._unary))

    def _operated(self, signs: tuple[str, ...], part: Callable[[], _Outcome | Expression]) -> _Outcome | Expression:
        left = part()
        while (sign := self._take(*signs)) is not None:
            a, b = self._value(left), self._value(part())
            if sign == "%" or (sign == "/" and not (_is_float(a) or _is_float(b))):
                raise ParseError(f"{sign} of whole numbers has no fraction there, and one here")
            left = Arithmetic(sign, a, b)
        return left

    def _unary(self) -> _Outcome | Expression:
        if (sign := self._take("-", "+")) is not None:
            self._deeper()
            inner = self._value(self._unary())
            self._depth -= 1
            if sign == "+":
                return inner
            if isinstance(inner, Constant) and isinstance(inner.value, int | float):
                return Constant(-inner.value)
            return Negative(inner)
        return self._atom()

    def _atom(self) -> _Outcome | Expression:
        token = self._peek
        if self._take("(") is not None:
            self._deeper()
            inner = self._or()
            self._depth -= 1
            self._need(")")
            return inner
        if (word := self._take("TRUE", "FALSE")) is not None:
            return Constant(word == "TRUE")
        if token.kind == "text":
            return Constant(self._string())
        if token.kind == "number":
            self._at += 1
            return Constant(parse_number(token.text.rstrip("lLfFdD").removesuffix(".")))
        name = self._name()
        if self._take("(") is not None:
            raise ParseError(f"the function {name}")
        return AttributeValue(name)

    def _string(self) -> str:
        token = self._peek
        if token.kind != "text" or (self._dialect == "jms" and token.text.startswith('"')):
            raise ParseError(f"a text in single quotes was expected, and not {token.text or 'the end'}")
        self._at += 1
        if self._dialect == "jms":
            return token.text[1:-1].replace("''", "'")
        return re.sub(r"\\(['\"])", r"\1", token.text[1:-1])

    def _name(self) -> str:
        token = self._peek
        if token.kind != "name":
            raise ParseError(f"a name was expected, and not {token.text or 'the end'}")
        self._at += 1
        return token.text

    @staticmethod
    def _value(found: _Outcome | Expression) -> Expression:
        if isinstance(found, _Outcome):
            raise ParseError("a condition where a value was expected")
        return found

    @staticmethod
    def _attribute(found: _Outcome | Expression) -> str:
        if not isinstance(found, AttributeValue):
            raise ParseError("a name was expected before this operator")
        return found.name


def _leaf(node: Node) -> _Outcome:
    return _Outcome(node, Not(node))


def _is_float(tree: Expression) -> bool:
    match tree:
        case Constant(value):
            return isinstance(value, float)
        case Arithmetic(_, left, right):
            return _is_float(left) or _is_float(right)
        case Negative(part):
            return _is_float(part)
        case _:
            return False


def _all(*parts: Node) -> Node:
    if NEVER in parts:
        return NEVER
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, And) else (part,))]
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def _any(*parts: Node) -> Node:
    if ALWAYS in parts:
        return ALWAYS
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, Or) else (part,))]
    return flat[0] if len(flat) == 1 else Or(tuple(flat))
