"""The text form: from text to syntax tree.

    car, antique where price < 1300 and brand in ('mini', 'cooper') with age = 42

tokens.py makes tokens, grammar.lark says which sequences of them are expressions, convert.py makes the syntax tree,
and this module words what is wrong. No text takes long: bounds are checked on the tokens before the grammar runs, the
grammar's parser keeps its own stack, and what recurses afterwards does so to a bounded depth.

The wording of syntax errors: what was found, and what would be right there.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

from tocsin.errors import ParseError, Span
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
    return Converter(text).subscription(_tree(text, tokens, "subscription"))


def parse_condition(text: str) -> Node:
    """Return the condition that the text says: what may stand after `where`."""
    tokens = _scanned(text)
    return Converter(text).condition(_only_child(_tree(text, tokens, "condition")))


def parse_expression(text: str) -> Expression:
    """Return the value expression that the text says: arithmetic, case, variables, functions."""
    tokens = _scanned(text)
    return Converter(text).value(_only_child(_tree(text, tokens, "expression")))


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
    # merged

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


# The wording of syntax errors.


_VALUES = frozenset({"STRING", "NUMBER", "NAME", "LPAR", "TIME", "VARIABLE", "CASE", "TRUE", "FALSE", "MINUS", "PLUS"})
_OPERATORS = frozenset(
    ("COMPARE", "IN", "BETWEEN", "CONTAINS", "CONTAINS_ANY", "CONTAINS_ALL", "KIND_OF")
    + ("STARTS_WITH", "ENDS_WITH", "CONTAINS_TEXT", "LIKE", "MATCHES", "IN_NETWORK", "IGNORING_CASE")
    + ("WITHIN", "IN_BOX", "IN_POLYGON", "PRESENCE")
)
_ARITHMETIC = frozenset({"PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "NEAR"})
_SAID = {
    "EQUALS": "'='",
    "AND": "and",
    "OR": "or",
    "NOT": "not",
    "WHEN": "when",
    "THEN": "then",
    "ELSE": "else",
    "END": "end",
    "WHERE": "where",
    "WITH": "with",
    "COMMA": "a comma",
    "LPAR": "(",
    "RPAR": ")",
    "UNIT": "a unit such as km or hours",
    "OF": "of",
    "NUMBER": "a number",
    "NAME": "a name",
    "TYPE": "an event type",
    "$END": "the end",
}
_ALMOST = {
    "startswith": "starts with", "endswith": "ends with", "ends": "ends with", "starts": "starts with",
    "has": "contains text 'part' or contains 'word'", "text": "contains text 'part'", "regex": "matches '…'",
    "regexp": "matches '…'", "rlike": "matches '…'", "ilike": "like '…' ignoring case",
    "startswithcis": "starts with '…' ignoring case", "substring": "contains text '…'", "match": "matches '…'",
}  # fmt: skip
_COMPARING = frozenset({"EQUALS", *_OPERATORS})


def unexpected(text: str, tokens: list[Token], found: Token | None, accepted: set[str]) -> ParseError:
    """Return the error for a token (None: the end of the text) that cannot stand where it does."""
    if found is None:
        return _at_end(text, tokens, accepted)
    before = _before(tokens, found)
    if found.type == "RPAR" and not _open(tokens, found):
        return ParseError("this ) closes nothing", text=text, span=found.span)
    hint = _hint(found, before, accepted)
    wanted = hint or f"expected {_listed(accepted, before)}"
    return ParseError(f"found {_quoted(found)}; {wanted}", text=text, span=found.span)


def _at_end(text: str, tokens: list[Token], accepted: set[str]) -> ParseError:
    opened = _open(tokens, None)
    if opened and accepted & {"RPAR", "END", "ELSE", "WHEN", "COMMA"}:
        what = "this ( is never closed" if opened[-1].type == "LPAR" else "this case has no end"
        return ParseError(what, text=text, span=opened[-1].span)
    end = len(text.rstrip())
    message = f"the text ends here; expected {_listed(accepted, tokens[-1])}"
    return ParseError(message, text=text, span=Span(end, end + 1))


def _open(tokens: list[Token], until: Token | None) -> list[Token]:
    """Return the parentheses and cases that are open before a token."""
    opened: list[Token] = []
    for token in tokens:
        if token is until:
            break
        if token.type in ("LPAR", "CASE"):
            opened.append(token)
        elif token.type in ("RPAR", "END") and opened:
            opened.pop()
    return opened


def _before(tokens: list[Token], found: Token) -> Token | None:
    at = next(index for index, token in enumerate(tokens) if token is found)
    return tokens[at - 1] if at else None


def _hint(found: Token, before: Token | None, accepted: set[str]) -> str | None:
    """Return advice for what people often write, or None."""
    if found.type in _COMPARING and "AND" in accepted and before is not None:
        return "comparisons do not chain; write: 1 < price and price < 5"
    if found.type == "IS":
        return "write: is present, is absent, or is not …"
    if found.type == "TYPE" and before is not None and before.type == "TYPE":
        return "put a comma between event types"
    if found.type == "WHERE":
        return "where stands once, after the event types"
    if found.type == "TIME":
        return None
    if found.type.lower() == found.text.lower() and accepted & {"NAME", "TYPE"} and "AND" not in accepted:
        return (
            f'expected {_listed(accepted, before)}. {found.text} is a keyword; as a name it is written "{found.text}"'
        )
    if before is not None and before.type == "IN":
        return "in takes a list in parentheses: brand in ('mini', 'cooper')"
    if before is not None and before.type in ("CONTAINS_ANY", "CONTAINS_ALL"):
        return f"{before.text} takes a list in parentheses: {before.text} ('oak', 'walnut')"
    if found.type == "COMMA" and before is not None and before.type == "STRING" and "RPAR" in accepted:
        return "several patterns need any or all before them: like any ('a%', 'b%')"
    if found.type in ("NAME", "TYPE") and before is not None and found.text.lower() in _ALMOST:
        return f"write: {_ALMOST[found.text.lower()]}"
    if found.type == "TYPE" or (found.type == "NAME" and before is not None and before.type == "NAME"):
        return "expected an operator such as =, <, in, contains, or a comma between event types before where"
    return None


def _quoted(token: Token) -> str:
    text = token.text if len(token.text) <= 40 else f"{token.text[:39]}…"
    return text if text.startswith(("'", '"')) else f"{text!r}"


def _listed(accepted: set[str], before: Token | None) -> str:
    """Return the kinds of token that would be right, in words."""
    said: list[str] = []
    if {"STRING", "NUMBER", "LPAR"} <= accepted:
        if "TYPE" in accepted:
            return "an event type, or a condition such as price < 100"
        said.append("a condition, such as price < 100" if "NOT" in accepted else "a value")
        accepted = accepted - _VALUES - {"NOT"}
    elif accepted >= {"COMPARE", "EQUALS"}:
        said.append("an operator such as =, <, in, contains")
        plain = before is not None and before.type in ("NAME", "STRING", "NUMBER", "TIME")
        accepted = accepted - ({"AND", "OR", "NOT", "EQUALS", "LPAR"} if plain else {"NOT", "EQUALS", "LPAR"})
    if accepted != {"UNIT"}:
        accepted = accepted - _OPERATORS - _ARITHMETIC - {"UNIT"}
    said += [words for kind, words in _SAID.items() if kind in accepted]
    return " or ".join(said) if len(said) < 3 else f"{', '.join(said[:-1])} or {said[-1]}"
