"""Tokens: the words and signs of the text form, with their places.

parse.py feeds them to the grammar. What SQL would reserve for ever is a keyword here only where it can be one: `time`
before a quote, `kind` before `of`, `near` before `[`, a unit after a number; elsewhere these are names. So attributes
called time, kind or box need no quotes; only the words in RESERVED do. `bytes as number` is one name (schema/readings.py).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tocsin.errors import ParseError, Span, TooLarge
from tocsin.language.bounds import ANY_ATTRIBUTE, MAX_DEPTH, MAX_LIST, MAX_NESTING, MAX_TEXT, MAX_TOKENS

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

_RESERVED_WORD = rf"(?i:{'|'.join(sorted(RESERVED))}) \b"
_TEXT = r"'[^']*+(?:''[^']*+)*+'"
_QUOTED = r'"[^"]*+(?:""[^"]*+)*+"'
_NAME = r"[^\W\d]\w*(?:\.\w+)*"
_NUMBER = r"(?: [0-9]+ (?:\.[0-9]+)? | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )?"
_VALUE = rf"(?: (?: (?i:time|decimal) \s* )? {_TEXT} | -? {_NUMBER} )"
_SCAN = re.compile(
    rf"""
      (?P<SKIP> \s+ | --[^\n]* )
    | (?P<TIME> (?i:time) \s* {_TEXT} )
    | (?P<INTERVAL> (?i:interval) \s* {_TEXT} )
    | (?P<DECIMAL> (?i:decimal) \s* {_TEXT} )
    | (?P<STRING> {_TEXT} )
    | (?P<NUMBER> {_NUMBER} )
    | (?P<VARIABLE> \? (?: {_NAME} | {_QUOTED} ) )
    | (?P<QUOTED> {_QUOTED} )
    | (?P<NEAR> (?i:near) \s* \[ \s* [0-9]+ \s* \.\. \s* [0-9]+ \s* \] )
    | (?P<STARTS_WITH> (?i:starts \s+ with) \b )
    | (?P<ENDS_WITH> (?i:ends \s+ with) \b )
    | (?P<CONTAINS_TEXT> (?i:contains \s+ text) (?= \s* ' | \s+ (?i:any|all) \s* \( ) )
    | (?P<MATCHES> (?i:matches) (?= \s* ' | \s+ (?i:any|all) \s* \( ) )
    | (?P<IGNORING_CASE> (?i:ignoring \s+ case) \b )
    | (?P<KIND_OF> (?i:kind \s+ of) \b )
    | (?P<CONTAINS_ANY> (?i:contains \s+ any) \b )
    | (?P<CONTAINS_ALL> (?i:contains \s+ all) \b )
    | (?P<IN_NETWORK> (?i:in \s+ network) (?= \s* ' | \s+ (?i:any|all) \s* \( ) )
    | (?P<IN_BOX> (?i:in \s+ box) \b )
    | (?P<IN_POLYGON> (?i:in \s+ polygon) (?= \s* \( ) )
    | (?P<PRESENCE> (?i:is \s+ (?: not \s+ )? (?: present | absent | null )) \b )
    | (?P<IS_NOT> (?i:is \s+ not) \b )
    | (?P<AT_LEAST> (?i:at \s+ least) (?= \s+ [0-9]+ \s+ (?i:of) \s* \( ) )
    | (?P<SCOPE> (?i:some|every|no) (?= \s+ (?! {_RESERVED_WORD} ) (?: {_NAME} \s* | {_QUOTED} \s* ) \( ) )
    | (?P<ANY_ATTRIBUTE> (?i:any \s+ attribute) \b )
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
_AS = re.compile(r"\s+as\s+(number|text|time|boolean)\b", re.IGNORECASE)
# A list of plain values, which may be long, is one token: the grammar's parser would take a second for 10,000 values.
_LIST = re.compile(rf"\s*+ (?P<list> \( \s*+ {_VALUE} (?: \s*+ , \s*+ {_VALUE} )*+ \s*+ \) )", re.VERBOSE)
_LISTED = re.compile(_VALUE, re.VERBOSE)
_LISTING = frozenset({"IN", "CONTAINS_ANY", "CONTAINS_ALL", "QUANTIFIER"})
_PATTERNS = frozenset({"STARTS_WITH", "ENDS_WITH", "CONTAINS_TEXT", "LIKE", "MATCHES", "IN_NETWORK"})
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
_BEFORE_SCOPES = frozenset({"", "WHERE", "AND", "OR", "NOT", "LPAR", "COMMA", "WHEN"})
_PREFIXES = frozenset({"NOT", "MINUS", "PLUS"})
_OPENING, _CLOSING = frozenset({"LPAR", "CASE"}), frozenset({"RPAR", "END"})
_ENDING = frozenset(
    {"NAME", "NUMBER", "STRING", "TIME", "INTERVAL", "VARIABLE", "UNIT", "TRUE", "FALSE", "RPAR", "END"}
)
_SUMS, _PRODUCTS = frozenset({"PLUS", "MINUS"}), frozenset({"STAR", "SLASH", "PERCENT"})


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
    return _BARE.fullmatch(name) is not None and name.lower() not in RESERVED | {"starts", "ends"}


def unquoted(name: str) -> str:
    """Return the name that a name token means."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def scan(text: str) -> list[Token]:
    """Return the tokens of the text; raises ParseError or TooLarge at the first thing that cannot be right."""
    if len(text) > MAX_TEXT:
        raise TooLarge(f"the text has {len(text):,} characters; at most {MAX_TEXT:,} are allowed")
    tokens: list[Token] = []
    size = _Size()
    at = 0
    before = ""  # the type of the token before
    while at < len(text):
        if before in _LISTING and (listed := _LIST.match(text, at)):
            token = Token("LIST", listed["list"], listed.start("list"), listed.end())
            tokens.append(token)
            before, at = "LIST", token.end
            size.add(text, token)
            continue
        found = _SCAN.match(text, at)
        if found is None or found.lastgroup is None or found.lastgroup == "POWER":
            raise _unreadable(text, at)
        kind, word, start, at = found.lastgroup, found.group(), at, found.end()
        if kind == "SKIP":
            continue
        if kind == "SCOPE" and before not in _BEFORE_SCOPES:
            kind = "NAME"
        elif kind == "NAME":
            kind = _word_type(word.lower(), before)
        elif kind == "SIGN":
            kind = _SIGNS[word]
        elif kind == "DECIMAL":
            kind = "NUMBER"
        elif kind == "QUOTED":
            kind = "NAME"
        elif kind == "ANY_ATTRIBUTE":
            kind, word = "NAME", f'"{ANY_ATTRIBUTE}"'
        if kind == "NAME" and (read := _AS.match(text, at)) is not None:  # `bytes as number` is one name
            inner = word[1:-1] if word.startswith('"') else word
            word, at = f'"{inner} as {read[1].lower()}"', read.end()
        token = Token(kind, word, start, at)
        tokens.append(token)
        before = kind
        size.add(text, token)
    return tokens


def list_values(listed: str) -> list[str]:
    """Return the texts of the values of a LIST token."""
    return _LISTED.findall(listed)


class _Size:
    """The size of what has been scanned; raises TooLarge where the grammar's parser need not be tried."""

    def __init__(self) -> None:
        self._tokens = self._listed = self._prefixes = 0
        self._before = ""
        self._chains: list[list[int]] = [[0, 0]]  # per open parenthesis: the sums and the products in a row

    def add(self, text: str, token: Token) -> None:
        """Count one more token."""
        kind = token.type
        self._tokens += 1
        self._prefixes = self._prefixes + 1 if kind in _PREFIXES else 0
        if kind in _OPENING:
            self._chains.append([0, 0])
        elif kind in _CLOSING and len(self._chains) > 1:
            self._chains.pop()
        elif kind == "LIST":
            commas = token.text.count(",")  # those in texts too, so it is an upper bound
            self._listed += commas + 1 if commas < MAX_LIST else len(list_values(token.text))
        self._count_chain(kind)
        self._before = kind
        if message := self._excess():
            raise TooLarge(message, text=text, span=token.span)

    def _count_chain(self, kind: str) -> None:
        """Count binary operators in a row: `1 + 1 + 1` nests to the left."""
        chain = self._chains[-1]
        if kind in _SUMS and self._before in _ENDING:
            chain[:] = [chain[0] + 1, 0]
        elif kind in _PRODUCTS:
            chain[1] += 1
        elif kind not in _ENDING and kind not in _OPENING and kind not in _SUMS:
            chain[:] = [0, 0]

    def _excess(self) -> str | None:
        """Return what is too large, if anything is."""
        if len(self._chains) > MAX_NESTING + 1 or self._prefixes > MAX_NESTING:
            return f"the expression is nested deeper than {MAX_NESTING} here"
        if max(self._chains[-1]) > MAX_DEPTH:
            return f"a formula may have {MAX_DEPTH} operators in a row; this is one more"
        if self._listed > MAX_LIST and self._before == "LIST":
            return f"lists may have {MAX_LIST:,} values in all; with this one it is more"
        if self._tokens > MAX_TOKENS:
            return f"the expression has more than {MAX_TOKENS:,} words and signs; split it into several subscriptions"
        return None


def _word_type(word: str, before: str) -> str:
    if word in RESERVED:
        return word.upper()
    if before in _PATTERNS and word in ("any", "all"):
        return "QUANTIFIER"
    if before == "NUMBER" and word in UNITS:
        return "UNIT"
    if before in ("UNIT", "NUMBER") and word == "of":
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
