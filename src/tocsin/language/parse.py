"""The text form: from text to syntax tree.

    car, antique where price < 1300 and brand in ('mini', 'cooper') with age = 42

tokens.py makes tokens, grammar.lark says which sequences of them are expressions, convert.py makes the syntax tree,
parse_errors.py words what is wrong. No text takes long: bounds are checked on the tokens before the grammar runs, the
grammar's parser keeps its own stack, and what recurses afterwards does so to a bounded depth.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

from tocsin.errors import ParseError
from tocsin.language.convert import Converter
from tocsin.language.syntax import Expression, Node, Subscription
from tocsin.language.tokens import Token, mark_head, scan

if TYPE_CHECKING:
    import lark

    from tocsin.language.convert_values import Branch

# Terminals that carry no meaning once the grammar has seen them; Lark leaves out those that begin with _.
_UNSEEN = frozenset({"WITH", "EQUALS", "AND", "OR", "OF", "LPAR", "RPAR", "COMMA", "WHEN", "THEN", "ELSE", "END"})


def parse(text: str) -> Subscription:
    """Return the subscription that the text says; raises ParseError or TooLarge, pointing at the place."""
    tokens = mark_head(_scanned(text))
    return Converter(text, tokens).subscription(_tree(text, tokens, "subscription"))


def parse_condition(text: str) -> Node:
    """Return the condition that the text says: what may stand after `where`."""
    tokens = _scanned(text)
    return Converter(text, tokens).condition(_only_child(_tree(text, tokens, "condition")))


def parse_expression(text: str) -> Expression:
    """Return the value expression that the text says: arithmetic, case, variables, functions."""
    tokens = _scanned(text)
    return Converter(text, tokens).value(_only_child(_tree(text, tokens, "expression")))


def _scanned(text: str) -> list[Token]:
    if not isinstance(text, str):
        raise ParseError(f"the text form is a text, not {type(text).__name__}")
    tokens = scan(text)
    if not tokens:
        raise ParseError("the text is empty; write `true` to be told of every event")
    return tokens


def _tree(text: str, tokens: list[Token], start: str) -> Branch:
    """Return the grammar's tree of the tokens."""
    import lark

    parser = _grammar().parse_interactive(start=start)
    for token in tokens:
        kind = f"_{token.type}" if token.type in _UNSEEN else token.type
        try:
            parser.feed_token(lark.Token(kind, token.text, start_pos=token.start, end_pos=token.end))
        except lark.UnexpectedToken:
            raise _unexpected(text, tokens, token, parser) from None
    try:
        return parser.feed_eof()  # type: ignore[no-any-return,no-untyped-call]
    except lark.UnexpectedToken:
        raise _unexpected(text, tokens, None, parser) from None


def _unexpected(text: str, tokens: list[Token], found: Token | None, parser: object) -> ParseError:
    from tocsin.language.parse_errors import unexpected

    accepted = {kind.removeprefix("_") for kind in parser.accepts()}  # type: ignore[attr-defined]
    return unexpected(text, tokens, found, accepted)


def _only_child(tree: Branch) -> Branch:
    return tree.children[0]  # type: ignore[return-value]


@lru_cache(maxsize=1)
def _grammar() -> lark.Lark:
    """Return the grammar's parser, made once: it takes some hundredths of a second."""
    import lark
    from lark.lexer import Lexer

    class TokensAreFed(Lexer):
        """Stands where Lark wants a lexer; tokens.py does that work."""

        def __init__(self, _conf: object) -> None:
            pass

        def lex(self, *_: object) -> None:  # type: ignore[override]
            raise AssertionError("tokens are fed to the parser one by one")

    return lark.Lark(
        resources.files("tocsin.language").joinpath("grammar.lark").read_text(encoding="utf-8"),
        parser="lalr",
        lexer=TokensAreFed,
        start=["subscription", "condition", "expression"],
        propagate_positions=True,
        maybe_placeholders=True,
    )
