"""Tokens: the words and signs of the text form, with their places.

parse.py feeds them to the grammar. What SQL would reserve for ever is a keyword here only where it can be one: `time`
before a quote, `kind` before `of`, `near` before `[`, a unit after a number; elsewhere these are names. So attributes
called time, kind or box need no quotes; only the words in RESERVED do.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tocsin.errors import ParseError, Span, TooLarge
from tocsin.language.bounds import MAX_LIST, MAX_NESTING, MAX_TEXT

RESERVED = frozenset(
    ("and", "or", "not", "in", "between", "contains", "like", "is", "where", "with")
    + ("case", "when", "then", "else", "end", "true", "false")
)

UNITS = {
    **{"m": "m", "metre": "m", "metres": "m", "meter": "m", "meters": "m"},
    **{"km": "km", "kilometre": "km", "kilometres": "km", "kilometer": "km", "kilometers": "km"},
    **{"mi": "mi", "mile": "mi", "miles": "mi"},
    **{"second": "seconds", "seconds": "seconds", "minute": "minutes", "minutes": "minutes"},
    **{"hour": "hours", "hours": "hours", "day": "days", "days": "days", "week": "weeks", "weeks": "weeks"},
}

_TEXT = r"'[^']*(?:''[^']*)*'"
_QUOTED = r'"[^"]*(?:""[^"]*)*"'
_NAME = r"[^\W\d]\w*(?:\.\w+)*"
_SCAN = re.compile(
    rf"""
      (?P<SKIP> \s+ | --[^\n]* )
    | (?P<TIME> (?i:time) \s* {_TEXT} )
    | (?P<DECIMAL> (?i:decimal) \s* {_TEXT} )
    | (?P<STRING> {_TEXT} )
    | (?P<NUMBER> (?: [0-9]+ (?:\.[0-9]+)? | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? )
    | (?P<VARIABLE> \? (?: {_NAME} | {_QUOTED} ) )
    | (?P<QUOTED> {_QUOTED} )
    | (?P<NEAR> (?i:near) \s* \[ \s* [0-9]+ \s* \.\. \s* [0-9]+ \s* \] )
    | (?P<STARTS_WITH> (?i:starts \s+ with) \b )
    | (?P<KIND_OF> (?i:kind \s+ of) \b )
    | (?P<CONTAINS_ANY> (?i:contains \s+ any) \b )
    | (?P<CONTAINS_ALL> (?i:contains \s+ all) \b )
    | (?P<IN_BOX> (?i:in \s+ box) \b )
    | (?P<PRESENCE> (?i:is \s+ (?: not \s+ )? (?: present | absent | null )) \b )
    | (?P<WITHIN> (?i:within) (?= \s+ (?: [0-9.] | (?i:decimal) \s* ') ) )
    | (?P<NAME> {_NAME} )
    | (?P<EQUALS> ==? (?![<>]) )
    | (?P<COMPARE> <= | >= | <> | != | < | > )
    | (?P<POWER> \*\* )
    | (?P<SIGN> [(),+\-*/%] )
    """,
    re.VERBOSE,
)
_BARE = re.compile(_NAME)
_SIGNS = {
    "(": "LPAR",
    ")": "RPAR",
    ",": "COMMA",
    "+": "PLUS",
    "-": "MINUS",
    "*": "STAR",
    "/": "SLASH",
    "%": "PERCENT",
}
_PREFIXES = frozenset({"NOT", "MINUS", "PLUS"})


class Token(NamedTuple):
    type: str
    text: str
    start: int
    end: int

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


def is_bare_name(name: str) -> bool:
    """Return whether the name can be written without quotes, anywhere: `starts` could stand before `with`."""
    return _BARE.fullmatch(name) is not None and name.lower() not in RESERVED and name.lower() != "starts"


def unquoted(name: str) -> str:
    """Return the name that a name token means."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def scan(text: str) -> list[Token]:
    """Return the tokens of the text; raises ParseError or TooLarge at the first thing that cannot be right."""
    if len(text) > MAX_TEXT:
        raise TooLarge(f"the text has {len(text):,} characters; at most {MAX_TEXT:,} are allowed")
    tokens: list[Token] = []
    nesting = prefixes = commas = at = 0
    before = ""  # the type of the token before
    while at < len(text):
        found = _SCAN.match(text, at)
        if found is None or found.lastgroup is None or found.lastgroup == "POWER":
            raise _unreadable(text, at)
        kind, word, start, at = found.lastgroup, found.group(), at, found.end()
        if kind == "SKIP":
            continue
        if kind == "NAME":
            kind = _word_type(word.lower(), before)
        elif kind == "SIGN":
            kind = _SIGNS[word]
        elif kind == "DECIMAL":
            kind = "NUMBER"
        elif kind == "QUOTED":
            kind = "NAME"
        token = Token(kind, word, start, at)
        tokens.append(token)
        before = kind
        nesting += (kind in ("LPAR", "CASE")) - (kind in ("RPAR", "END"))
        prefixes = prefixes + 1 if kind in _PREFIXES else 0
        commas += kind == "COMMA"
        if nesting > MAX_NESTING or prefixes > MAX_NESTING:
            raise TooLarge(f"the expression is nested deeper than {MAX_NESTING} here", text=text, span=token.span)
        if commas > MAX_LIST:
            raise TooLarge(f"lists may have {MAX_LIST:,} values in all; this is one more", text=text, span=token.span)
    return tokens


def _word_type(word: str, before: str) -> str:
    if word in RESERVED:
        return word.upper()
    if before == "NUMBER" and word in UNITS:
        return "UNIT"
    if before == "UNIT" and word == "of":
        return "OF"
    return "NAME"


def mark_head(tokens: list[Token]) -> list[Token]:
    """Return the tokens with the event types at the head marked as such.

    The head is what stands before `where`; without a `where`, names and commas alone are a head. Names joined by
    hyphens without space are one event type: surf-board.
    """
    where = next((at for at, token in enumerate(tokens) if token.type == "WHERE"), None)
    end = where
    if end is None:
        end = next((at for at, token in enumerate(tokens) if token.type == "WITH"), len(tokens))
    head = _joined(tokens[:end])
    if where is None and not all(token.type in ("NAME", "COMMA") for token in head):
        return tokens
    marked = [token._replace(type="TYPE") if token.type == "NAME" else token for token in head]
    return marked + tokens[end:]


def _joined(tokens: list[Token]) -> list[Token]:
    """Return the tokens with names that hyphens join made one."""
    joined: list[Token] = []
    for token in tokens:
        last = joined[-1] if joined else None
        touches = last is not None and last.type == "NAME" and last.end == token.start and '"' not in last.text
        continues = token.type == "MINUS" or (last is not None and "-" in last.text and _is_word(token))
        if last is not None and touches and continues:
            joined[-1] = Token("NAME", last.text + token.text, last.start, token.end)
        else:
            joined.append(token)
    return [token._replace(type="MINUS") if token.text.endswith("-") else token for token in joined]


def _is_word(token: Token) -> bool:
    return token.text.replace("_", "").replace(".", "").isalnum()


# --- what cannot be read ----------------------------------------------------------------------------------------------

_HABITS = {
    "&": "write `and` for &&",
    "|": "write `or` for ||",
    "!": "write `not` before a condition, or != between two values",
    "[": "lists go in parentheses: brand in ('mini', 'cooper')",
    "]": "lists go in parentheses: brand in ('mini', 'cooper')",
    "{": "there are no braces in this language",
    "}": "there are no braces in this language",
    ";": "leave out the semicolon: a subscription is one expression",
    "^": "there are no powers in this language",
    "*": "there are no powers in this language",
    "?": "a variable is a question mark and a name: ?people",
    "‘": "use the straight quote '",
    "’": "use the straight quote '",
    "“": "text goes in straight single quotes: 'mini'",
    "”": "text goes in straight single quotes: 'mini'",
    "$": "names begin with a letter; write others in double quotes",
    "@": "names begin with a letter; write others in double quotes",
    "#": "a comment begins with --",
    "\\": "a quote inside a text is written twice: 'O''Brien'",
    "=": "write <= or >=",
}


def _unreadable(text: str, at: int) -> ParseError:
    """Return the error for a sign that begins no token."""
    sign = text[at]
    if sign in "'\"":
        what, example = ("text", "'O''Brien'") if sign == "'" else ("name", '"seller name"')
        message = f"this quote is never closed; a {what} is written like {example}"
        return ParseError(message, text=text, span=Span(at, len(text)))
    before = text[:at].rstrip()
    if sign == "[" and before[-4:].lower() == "near":
        message = "near takes the least and the most words between: near[1..5]"
        return ParseError(message, text=text, span=Span(at, at + 1))
    length = 2 if text[at : at + 2] in ("&&", "||", "**", "=<", "=>") else 1
    found = f"{text[at : at + length]!r} is not in the language"
    hint = _HABITS.get(sign, "expected a name, a value or an operator")
    return ParseError(f"{found}; {hint}", text=text, span=Span(at, at + length))
