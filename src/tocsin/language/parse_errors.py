"""The wording of syntax errors: what was found, and what would be right there."""

from __future__ import annotations

from tocsin.errors import ParseError, Span
from tocsin.language.tokens import Token

_VALUES = frozenset({"STRING", "NUMBER", "NAME", "LPAR", "TIME", "VARIABLE", "CASE", "TRUE", "FALSE", "MINUS", "PLUS"})
_OPERATORS = frozenset(
    ("COMPARE", "IN", "BETWEEN", "CONTAINS", "CONTAINS_ANY", "CONTAINS_ALL", "KIND_OF")
    + ("STARTS_WITH", "ENDS_WITH", "CONTAINS_TEXT", "LIKE", "MATCHES", "IGNORING_CASE")
    + ("WITHIN", "IN_BOX", "PRESENCE")
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
        return "write: is present, or: is absent"
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
